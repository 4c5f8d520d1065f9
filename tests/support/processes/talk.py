"""A private chat with pictures and recordings: the real bot, dispatcher and CLI, whose API and speech server are of the test's own."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.files.transcription_api import Recording, TranscriptionApi
from tests.servers.messages_api import MessagesApi, Reply
from tests.support.day.telegram_bot import Stage, staged, wait_until
from tests.support.world import real_claude

CHAT = 9912
OGG = b"OggS a voice" + bytes(range(256)) * 30


def png(seed: int, size: int = 24) -> bytes:
    """A valid picture of its own colours."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(
        b"\0" + bytes((seed * 7 + x * 5 + y * 3 + c) % 256 for x in range(size) for c in range(3)) for y in range(size)
    )
    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Talk:
    """A private chat with the real CLI; `answer` is what the model says, with CODE for the tag code of the request."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.answer: str | Callable[[dict[str, Any]], Reply] = "All right."
        self.model = MessagesApi(self._reply)
        self.spoken = "The boiler shows F28."
        self.speech = TranscriptionApi(self._speech, key="sk-speech")

    def _speech(self, _: Recording) -> str:
        return self.spoken

    def _reply(self, request: dict[str, Any]) -> Reply:
        if callable(self.answer):
            return self.answer(request)
        codes = re.findall(r"Tag code of this request: (\w+)", json.dumps(request["system"]))
        return self.answer.replace("CODE", codes[-1] if codes else "CODE")

    def fresh(self) -> Talk:
        """As after a night: no conversation goes on, and what was said is in the day store alone."""
        redis = self.stage.redis
        wait_until(lambda: not redis.llen(f"hcli:mem:unconsolidated:{CHAT}"), lambda: "consolidation")
        settings = [f"hcli:session:{CHAT}", f"hcli:session_history:{CHAT}", f"hcli:mem:chat:{CHAT}"]
        redis.delete(*redis.keys("hcli:memory:*"), *settings)
        self.answer, self.spoken, self.speech.statuses = "All right.", "The boiler shows F28.", []
        self.model.requests.clear()
        self.speech.received.clear()
        return self

    def send(self, text: str | None = None, **fields: Any) -> str:
        """What the bot answers."""
        before = len(self.stage.api.texts(CHAT))
        self.stage.api.say(CHAT, text, **fields)
        return self.answered(before)

    def answered(self, before: int) -> str:
        wait_until(lambda: len(self.stage.api.texts(CHAT)) > before, lambda: str(self.stage.api.texts(CHAT)))
        self.stage.quiet()
        return self.stage.api.texts(CHAT)[-1]

    def asked(self) -> dict[str, Any]:
        """The newest message of the newest request."""
        found: dict[str, Any] = [one for one in self.model.requests[-1]["messages"] if one["role"] == "user"][-1]
        return found

    def words(self) -> str:
        content = self.asked()["content"]
        texts = [content] if isinstance(content, str) else [one["text"] for one in content if one["type"] == "text"]
        return "\n".join(one for one in texts if not one.startswith("<system-reminder>")).replace("\u2060", "")

    def pictures(self) -> list[str]:
        """The hashes of the pictures in it, in order."""
        content = self.asked()["content"]
        images = [one["source"] for one in content if isinstance(one, dict) and one["type"] == "image"]
        return [hashlib.sha256(base64.b64decode(one["data"])).hexdigest() for one in images]

    def turns(self) -> list[dict[str, Any]]:
        """What is stored of the person, in the order of time."""
        raws = [self.stage.redis.get(key) for key in self.stage.redis.keys("hcli:memory:*:user")]
        return sorted((json.loads(raw) for raw in raws if raw), key=lambda one: str(one["task_id"]))

    def search(self, words: str) -> str:
        done = self.stage.world.command("hmem", "search", str(CHAT), words, check=False)
        return done.stdout + done.stderr


@contextmanager
def talking(redis_url: str, root: Path, **more: str) -> Iterator[Talk]:
    with staged(redis_url, root) as stage:
        talk = Talk(stage)
        with talk.model, talk.speech:
            speech = {"TRANSCRIBE_URL": talk.speech.url, "TRANSCRIBE_KEY": "sk-speech"}
            own = speech | {"MEMORY_MCP": "off", "CONSOLIDATION_INTERVAL": "0.3"} | more
            stage.world.environment |= real_claude(talk.model.url, **own)
            stage.world.start_dispatcher()
            stage.bot()
            yield talk


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
