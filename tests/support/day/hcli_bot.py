"""A client that does what h-cli's bot does, and CLIs of a test's own."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

from redis import Redis

from tests.support import machine
from tests.support.machine import wait_for
from tests.support.world import SECRET, World


def sign(task_id: str, output: str, completed_at: str, secret: str = SECRET) -> str:
    text = f"{task_id}:{output}:{completed_at}".encode("utf-8", "surrogatepass")
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


def answer(redis: Redis, task_id: str, output: str, secret: str = SECRET) -> None:
    """A result as a dispatcher of h-cli writes it."""
    moment = datetime.now(UTC).isoformat()
    result = {"output": output, "completed_at": moment, "hmac": sign(task_id, output, moment, secret)}
    redis.set(f"hcli:results:{task_id}", json.dumps(result), ex=600)


class Bot:
    """RPUSH, poll, verify, delete; /new and /cancel. Own JSON and own HMAC: nothing of ours is used to check ours."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis

    def send(self, message: str, chat_id: int | str, **more: Any) -> str:
        task_id = str(uuid4())
        task = {"task_id": task_id, "message": message, "chat_id": chat_id, "user_id": 7,
                "submitted_at": datetime.now(UTC).isoformat(), "model": "sonnet"}  # fmt: skip
        self.redis.rpush("hcli:tasks", json.dumps(task | more))
        self.redis.rpush(f"hcli:pending:{chat_id}", task_id)
        return task_id

    def receive(self, task_id: str, seconds: float = 60.0) -> dict[str, Any]:
        wait_for(lambda: self.redis.get(f"hcli:results:{task_id}"), "a result", seconds)
        result: dict[str, Any] = json.loads(self.redis.get(f"hcli:results:{task_id}") or b"")
        self.redis.delete(f"hcli:results:{task_id}")
        assert sign(task_id, result["output"], result["completed_at"]) == result["hmac"]
        return result

    sign = staticmethod(sign)

    def ask(self, message: str, chat_id: int | str, **more: Any) -> str:
        return str(self.receive(self.send(message, chat_id, **more))["output"])

    def new(self, chat_id: int | str) -> None:
        for name in ("session", "session_history", "session_size"):
            self.redis.delete(f"hcli:{name}:{chat_id}")

    def cancel(self, chat_id: int | str) -> list[str]:
        cancelled = []
        for raw in self.redis.lrange("hcli:tasks", 0, -1):
            task = json.loads(raw)
            if str(task["chat_id"]) == str(chat_id) and self.redis.lrem("hcli:tasks", 1, cast(str, raw)):
                answer(self.redis, task["task_id"], "Cancelled.")
                cancelled.append(task["task_id"])
        return cancelled

    def turn(self, task_id: str, role: str) -> dict[str, Any]:
        raw = self.redis.get(f"hcli:memory:{task_id}:{role}")
        assert raw is not None
        turn: dict[str, Any] = json.loads(raw)
        return turn


def script(world: World, body: str) -> str:
    """A CLI of the test's own; `$MESSAGE` holds what came on stdin, `$SESSION` the session that was asked for."""
    session = (
        'for ARGUMENT in "$@"; do case $NAME in --session-id|--resume) SESSION=$ARGUMENT;; esac; NAME=$ARGUMENT; done'
    )
    text = f'#!/bin/bash\n[ "$1" = --help ] && exit\n{session}\nMESSAGE=$(cat)\n{body}\n'
    return str(machine.script(world.root / "claude.sh", text))


SAY = """printf '{"result": "%s", "is_error": false, "session_id": "'$SESSION'", "total_cost_usd": 0.25, "num_turns": 1, \
"usage": {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 5}}' """


def slow(world: World) -> str:
    """Answers at once, but a message with `slow` in it never; its process and a child of it write their numbers."""
    body = f'case "$MESSAGE" in *slow*) echo $$ > {world.root}/pid; sleep 600 & echo $! > {world.root}/child; wait;; esac; {SAY} ok'
    return script(world, body)
