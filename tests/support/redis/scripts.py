"""Every Lua script that the product sends to Redis, and the runs (script_runs.py) that take it through each of its paths.

A script is sent with its calls counted: Redis notes each in its log, so the runs can be compared with all calls that the texts contain.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from redis import Redis

from dispatcher.queue.scripts import AHEAD, script_text
from tests.support.world import REPOSITORY

#: What stands for the ids in the keys that a script's header names.
IDS = {"bot": "main", "task": "t1", "corrected task": "t0", "chat": "9912", "worker": "w", "day": "2026-11-28", "update": "u1", "message": "9912-1",
       "edit": "e1", "id": "r1", "occurrence": "schedule-1", "hash of the code": "c0de", "sha256": "ab12", "run": "7"}  # fmt: skip
#: Stands for itself in `before`: more than a queue may take before it is read entry by entry.
HUGE = "y" * 9_000_000
_CALL = re.compile(r"redis\.(p?call)\(")
_NOTED = "lua call: "
_PRELUDE = f"local function noted(at, call, ...) redis.log(redis.LOG_NOTICE, '{_NOTED}' .. at) return call(...) end\n"


@dataclass(frozen=True)
class ScriptRun:
    """One path through a script, for each user that runs it. `before`: commands that set up what it finds; `names`: its keys, if not those of
    its header."""

    script: str
    users: str
    arguments: Sequence[object] = ()
    before: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def carry_out(self, client: Redis, tester: Redis) -> object:
        """As the user of `client`. Errors of Redis are raised, also those that a script catches for itself."""
        for line in self.before:
            words = [HUGE if word == "HUGE" else word for word in shlex.split(line)]
            tester.execute_command(*words)  # type: ignore[no-untyped-call]
        given = [one if isinstance(one, bytes | str | int | float) else json.dumps(one) for one in self.arguments]
        names = list(self.names or header_keys(self.script))
        return client.register_script(counted(self.script))(keys=names, args=given)


@cache
def texts() -> dict[str, str]:
    """Name (`dispatcher/queue/claim`) → the text as it is sent."""
    found = {}
    for path in sorted(REPOSITORY.glob("[dns]*/**/*.lua")):
        name = str(path.relative_to(REPOSITORY).with_suffix("")).replace("/lua/", "/")
        inner = name.removeprefix("dispatcher/")
        if inner not in AHEAD.values():
            found[name] = script_text(inner) if inner in AHEAD else path.read_text(encoding="utf-8")
    return found


def header_keys(script: str) -> list[str]:
    """The keys that the script's header lists."""
    header = texts()[script].rpartition("-- KEYS")[2].partition("-- ARGV")[0].partition("-- Returns")[0]
    text = " ".join(line.removeprefix("--") for line in header.splitlines() if line.startswith(("--", " ")))
    named = re.findall(r"\d+ +(hcli:(?:[^\s<,]|<[^>]+>)+)", text)
    return [re.sub(r"<([^>]+)>", lambda one: IDS[one[1]], name) for name in named]


def calls() -> set[str]:
    """Each call of Redis in a script: `<script>: <its line> #<number in that line>`; those of texts that stand ahead of several scripts once."""
    return {place for script in texts() for _, places in _lines(script) for place in places}


def calls_noted(log: str) -> set[str]:
    return {line.partition(_NOTED)[2] for line in log.splitlines() if _NOTED in line}


@cache
def counted(script: str) -> str:
    lines = []
    for code, places in _lines(script):
        left = iter(places)
        lines.append(_CALL.sub(lambda call: f"noted({json.dumps(next(left))}, redis.{call[1]}, ", code))  # noqa: B023
    flags = [lines.pop(0) + "\n"] if lines[0].startswith("#!") else []
    return "".join([*flags, _PRELUDE, *(f"{line}\n" for line in lines)])


def _lines(script: str) -> Iterator[tuple[str, list[str]]]:
    """Each line without its comment, and what its calls are named."""
    ahead = AHEAD.get(script.removeprefix("dispatcher/"))
    first = len(script_text(ahead).splitlines()) if ahead else 0
    for number, line in enumerate(texts()[script].splitlines()):
        if not line.startswith("--"):
            code = line.partition(" -- ")[0]
            name, text = ahead if ahead and number < first else script, " ".join(code.split())
            yield code, [f"{name}: {text} #{at}" for at, _ in enumerate(_CALL.finditer(code), start=1)]
