"""The paths of the guests' Lua script."""

from __future__ import annotations

from tests.support.redis.scripts import ScriptRun


def join(*before: str, invitation: str = "") -> ScriptRun:
    given = ("u1", "9912", invitation, "guest", "welcome", "no", "owner-1", "told", 3600, 3, 3600, "access", "limited")
    return ScriptRun("dispatcher/features/guests/join", "bot", given, before)


RUNS = [join(), join("SET hcli:mem:invite:c0de invitation", invitation="invitation")]
