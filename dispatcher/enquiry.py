"""Enqueue a message as the bot would, and wait for the answer: RPUSH, poll, verify, delete."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from uuid import uuid4

from redis import Redis

from shared import keys
from shared.errors import AnswerTimeout, ForgedResult
from shared.records import Result, chat_id_of, dumps

POLL_SECONDS = 0.1


def ask(
    client: Redis, secret: str, chat_id: str, message: str, *, timeout_seconds: float, name: str | None = None
) -> Result:
    """The verified answer, or AnswerTimeout or ForgedResult."""
    task_id = f"cli-{uuid4()}"
    task = {
        "task_id": task_id,
        "message": message,
        "chat_id": chat_id_of(chat_id),
        "user_id": "cli",
        "submitted_at": datetime.now(UTC).isoformat(),
    }
    client.rpush(keys.TASKS, dumps(task | ({"name": name} if name else {})))
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        if raw := client.getdel(keys.result(task_id)):
            result = Result.parse(raw if isinstance(raw, bytes) else str(raw).encode())
            if not result.verify(secret, task_id):
                raise ForgedResult(
                    "The answer's signature is wrong. RESULT_HMAC_KEY differs from the dispatcher's, or somebody forged it."
                )
            return result
        time.sleep(POLL_SECONDS)
    raise AnswerTimeout(
        f"No answer within {timeout_seconds:g} s. Is the dispatcher running (hmem run)? The message stays queued."
    )
