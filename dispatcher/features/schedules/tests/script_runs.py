"""The paths of `ask_scheduled.lua`: the first time, and again."""

from __future__ import annotations

from tests.support.redis.scripts import ScriptRun

GIVEN = ('{"task_id": "t1", "chat_id": "9912", "message": "hello"}', "t1", "record", 3600)
RUNS = (ScriptRun("dispatcher/features/schedules/ask_scheduled", "dispatcher", GIVEN),)
