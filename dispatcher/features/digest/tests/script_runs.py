"""The paths of this feature's scripts: alarms, and what is sent once a day, by one dispatcher."""

from __future__ import annotations

import json

from tests.support.redis.scripts import ScriptRun

OWNER = ("HSET hcli:mem:digests 9912 2026-11-27",)


def alarm(lasts: int, *before: str, cause: str = "c") -> ScriptRun:
    given = ("redis", 1000, lasts, "message", 500, 60, cause)
    return ScriptRun("dispatcher/features/digest/alarm", "dispatcher", given, before)


def once(key: str, *given: str, before: tuple[str, ...] = ()) -> ScriptRun:
    return ScriptRun(
        "dispatcher/features/digest/once_a_day", "dispatcher", given, before, (key, "hcli:mem:outbox:main")
    )


def known(**more: object) -> str:
    return f"HSET hcli:mem:alarms redis '{json.dumps({'since': 1, 'sent': 900, 'cause': 'c'} | more)}'"


REPORT = ("report", "2026-11-28", "2026-11-29", "message")
RUNS = [
    alarm(1),
    alarm(1, known(well=950)),
    alarm(1, known(), cause="another"),
    alarm(0, known()),
    alarm(0, known(well=1)),
    once("hcli:mem:morning", *REPORT, "", "other", "value"),
    once("hcli:mem:morning", *REPORT, "1", "other", "value", before=("HSET hcli:mem:morning report 2026-11-27",)),
    once("hcli:mem:digests", "9912", "2026-11-28", "2026-11-29", "digest", "1", before=OWNER),
]
