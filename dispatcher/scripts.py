"""The Lua scripts beside this file as they are sent to Redis: some begin with the text of another one."""

from __future__ import annotations

from pathlib import Path

AHEAD = {
    "claim": "cut",
    "queued": "cut",
    "finish": "existing",
    "bury": "existing",
    "forget/withdraw": "existing",
}


def script_text(name: str) -> str:
    names = [AHEAD[name], name] if name in AHEAD else [name]
    return "\n".join((Path(__file__).parent / f"{one}.lua").read_text(encoding="utf-8") for one in names)
