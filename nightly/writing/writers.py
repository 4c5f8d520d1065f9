"""Who writes: a chat model of an Ollama server, or the Claude CLI of the day's host, which alone has a login.

A request to Claude is left in Redis. A dispatcher that has nothing to answer takes it (dispatcher/features/dream), and leaves the answer there,
where this night finds it, or the next one.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import orjson
from redis import Redis
from redis.exceptions import OutOfMemoryError

from nightly.night.folder import Night
from shared.config.night_settings import Writer
from shared.embedding.open import open_ollama
from shared.errors import EmbeddingError
from shared.wire import keys
from shared.wire.values import living

if TYPE_CHECKING:
    from shared.embedding.ollama.server import OllamaServer

    NightWriter: TypeAlias = "OllamaServer | ClaudeByDay"

#: Seconds for which one answer of Claude is awaited, and from one look for it to the next.
ANSWER_SECONDS, LOOK_SECONDS = 900.0, 0.5


def open_writer(night: Night, writer: Writer, chat_seconds: float) -> NightWriter:
    """The writer, which raises EmbeddingError if the model cannot be asked now; nothing is asked yet. `chat_seconds`: how long all answers
    together may be awaited."""
    return open_ollama(night.settings) if writer.kind == "ollama" else ClaudeByDay(night.redis, chat_seconds)


class ClaudeByDay:
    """Asks the CLI on the host of the day through Redis. Claude takes neither options nor a schema: the prompt says what is wanted."""

    def __init__(self, client: Redis, seconds: float) -> None:
        self._redis, self._ends = cast(Any, client), time.monotonic() + seconds

    def digest(self, name: str) -> str:
        return f"claude:{name}"

    def chat(
        self,
        name: str,
        prompt: str,
        options: dict[str, Any],  # noqa: ARG002 - as the protocol has it
        schema: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> str:
        request = hashlib.sha256(f"{name}\n{prompt}".encode("utf-8", "replace")).hexdigest()[:32]
        if (raw := self._redis.hget(keys.WRITTEN, request)) is None:
            raw = self._awaited(request, orjson.dumps({"model": name, "prompt": prompt, "at": time.time()}))
        self._redis.hdel(keys.WRITTEN, request)
        written = orjson.loads(raw)
        if written.get("error"):
            raise EmbeddingError(f"Claude wrote nothing: {written['error']}")
        return str(written["text"])

    def _awaited(self, request: str, asked: bytes) -> bytes:
        try:
            self._redis.hset(keys.ASKED, request, asked)
        except OutOfMemoryError as error:
            raise EmbeddingError("Redis is full, so Claude cannot be asked through it; the next night asks") from error
        self._redis.expire(keys.ASKED, keys.WRITING_TTL_SECONDS)
        if not living(self._redis):
            raise EmbeddingError("No dispatcher runs that could ask Claude; the request waits in Redis for one")
        ends = min(self._ends, time.monotonic() + ANSWER_SECONDS)
        while (raw := self._redis.hget(keys.WRITTEN, request)) is None:
            if time.monotonic() >= ends:
                raise EmbeddingError(
                    "Claude has not answered yet; the request waits in Redis, and the next night looks for its answer"
                )
            time.sleep(LOOK_SECONDS)
        return cast(bytes, raw)

    def close(self) -> None:
        """Nothing is held open."""
