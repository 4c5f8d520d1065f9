"""The paths of `ask_scheduled.lua`."""

from __future__ import annotations

from tests.support.redis.scripts import ScriptRun


def ask(*before: str) -> ScriptRun:
    task = '{"task_id": "t1", "chat_id": "9912", "message": "hello"}'
    given = (task, "t1", "record", 3, "one too many", 3600, 3600)
    return ScriptRun("dispatcher/features/schedules/ask_scheduled", "dispatcher", given, before)


RUNS = (ask(), ask("SET hcli:mem:scheduled:2026-11-28:9912 3"))
