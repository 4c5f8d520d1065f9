"""A loopback server that speaks OpenAI's `/v1/audio/transcriptions`: over real HTTP, the form checked as the service checks it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import HTTP

from tests.servers.loopback import Answering, Loopback

LARGEST = 25 * 1024 * 1024
ENDINGS = ("flac", "mp3", "mp4", "mpeg", "mpga", "m4a", "ogg", "wav", "webm")


@dataclass(frozen=True)
class Recording:
    """A request as it came."""

    path: str
    fields: dict[str, str]
    file_name: str
    content: bytes
    key: str


class TranscriptionApi(Loopback):
    """Says of each recording what `text(recording)` says; `statuses` are those of the next answers; `delay`: seconds before each."""

    def __init__(self, text: Callable[[Recording], str] = lambda _: "Hello there.", key: str = "") -> None:
        self.received: list[Recording] = []
        self.statuses: list[int] = []
        self.body: bytes | None = None  # instead of the JSON of a transcript
        self.delay = 0.0
        api = self

        class Handler(Answering):
            def do_POST(self) -> None:  # noqa: N802 - the library's name
                key_sent = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
                recording = _read(self.path, self.headers.get("Content-Type") or "", self._body(), key_sent)
                api.received.append(recording)
                time.sleep(api.delay)
                status, message = api.statuses.pop(0) if api.statuses else 200, ""
                if status == 200:
                    status, message = _refusal(recording, key)
                if status != 200:
                    self._send(status, {"error": {"message": message or "trouble", "type": "invalid_request_error"}})
                elif api.body is not None:
                    self._send_bytes(200, api.body, "application/json")
                else:
                    self._send(200, {"text": text(recording)})

        super().__init__(Handler)


def _read(path: str, kind: str, body: bytes, key: str) -> Recording:
    message = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
    fields, name, content = dict[str, str](), "", b""
    for part in message.iter_parts() if message.is_multipart() else ():
        payload = part.get_payload(decode=True)
        assert isinstance(payload, bytes)
        if part.get_filename():
            name, content = str(part.get_filename()), payload
        else:
            fields[str(part.get_param("name", header="content-disposition"))] = payload.decode()
    return Recording(path, fields, name, content, key)


def _refusal(recording: Recording, key: str) -> tuple[int, str]:
    if recording.path != "/v1/audio/transcriptions":
        return 404, "unknown path"
    if key and recording.key != key:
        return 401, "Incorrect API key provided"
    if not recording.content or "model" not in recording.fields:
        return 400, "file and model are required"
    if len(recording.content) > LARGEST:
        return 413, "Maximum content size limit exceeded"
    if recording.file_name.rpartition(".")[2] not in ENDINGS:
        return 400, "Unrecognized file format"
    return 200, ""
