"""Files of the stand-in Bot API: what people send, in Telegram's forms, and what getFile and the file's address answer."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.servers.telegram_messages import ApiError

#: Bots get no larger file.
LARGEST = 20_000_000


class Files:
    """`photo`, `voice`, … return the fields of a message for `TelegramApi.say(chat, None, **fields)`."""

    def __init__(self) -> None:
        self._contents: dict[str, tuple[bytes, int | None]] = {}
        self._lock = threading.Lock()
        self.fetched: list[str] = []  # paths that were downloaded, also in part
        self.broken: dict[str, int] = {}  # file_id → how many more downloads break off in the middle
        self.status: dict[str, list[int]] = {}  # file_id → statuses that the next downloads answer with

    def add(self, content: bytes, ending: str = "bin", *, size: int | None = None) -> dict[str, Any]:
        """A file as a message names it. `size`: what Telegram says instead of the true one (-1: nothing)."""
        with self._lock:
            file_id = f"file-{len(self._contents)}.{ending}"
            said = len(content) if size is None else None if size < 0 else size
            self._contents[file_id] = (content, said)
        return {"file_id": file_id, "file_unique_id": f"u{file_id}"} | ({} if said is None else {"file_size": said})

    def photo(self, content: bytes, **more: Any) -> dict[str, Any]:
        """A picture in three sizes, the largest last but one, as nobody may rely on their order."""
        sizes = [
            self.add(b"\xff\xd8\xff small", "jpg") | {"width": 90, "height": 60},
            self.add(content, "jpg", **more) | {"width": 1280, "height": 853},
            self.add(b"\xff\xd8\xff medium", "jpg") | {"width": 320, "height": 213},
        ]
        return {"photo": sizes}

    def voice(self, content: bytes, seconds: int = 3, **more: Any) -> dict[str, Any]:
        return {"voice": self.add(content, "oga", **more) | {"duration": seconds, "mime_type": "audio/ogg"}}

    def audio(self, content: bytes, name: str = "memo.mp3", seconds: int = 60) -> dict[str, Any]:
        made = self.add(content, "mp3")
        return {"audio": made | {"duration": seconds, "mime_type": "audio/mpeg", "file_name": name}}

    def video_note(self, content: bytes, seconds: int = 5) -> dict[str, Any]:
        return {"video_note": self.add(content, "mp4") | {"duration": seconds, "length": 240}}

    def document(
        self, content: bytes, name: str, mime: str = "application/octet-stream", **more: Any
    ) -> dict[str, Any]:
        return {"document": self.add(content, **more) | {"file_name": name, "mime_type": mime}}

    def forget(self, file_id: str) -> None:
        """Telegram keeps the id, but has lost the file."""
        with self._lock:
            self._contents.pop(file_id, None)

    def get_file(self, params: dict[str, Any]) -> dict[str, Any]:
        file_id = str(params.get("file_id"))
        if file_id not in self._contents:
            raise ApiError(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
        content, said = self._contents[file_id]
        if len(content) > LARGEST:
            raise ApiError(400, "Bad Request: file is too big")
        size = {} if said is None else {"file_size": said}
        return {"file_id": file_id, "file_unique_id": f"u{file_id}", "file_path": f"files/{file_id}"} | size

    def content(self, path: str) -> tuple[int, bytes, int]:
        """(status, the bytes that are sent, the length that is announced) of a download."""
        file_id = path.removeprefix("files/")
        with self._lock:
            self.fetched.append(path)
            if self.status.get(file_id):
                return self.status[file_id].pop(0), b"", 0
            if file_id not in self._contents:
                return 404, b"", 0
            content, _ = self._contents[file_id]
            if self.broken.get(file_id, 0) > 0:
                self.broken[file_id] -= 1
                return 200, content[: len(content) // 2], len(content)
            return 200, content, len(content)


def send_file(files: Files, beginning: str, request: BaseHTTPRequestHandler) -> None:
    """A file's address: not logged as a call."""
    if not request.path.startswith(beginning):
        request.send_error(404)
        return
    status, content, announced = files.content(request.path.removeprefix(beginning))
    try:
        request.send_response(status)
        request.send_header("Content-Length", str(announced))
        request.end_headers()
        request.wfile.write(content)
    except OSError:
        request.close_connection = True
    request.close_connection = request.close_connection or len(content) < announced
