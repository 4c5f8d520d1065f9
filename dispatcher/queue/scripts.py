"""The Lua scripts of the dispatcher as they are sent to Redis: some are prefixed with the text of another one."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parent.parent
AHEAD = {
    "queue/claim": "queue/large_tasks",
    "queue/queued": "queue/large_tasks",
    "queue/finish": "queue/existing_result",
    "queue/bury": "queue/existing_result",
    "chat_data/forget/layers/withdraw": "queue/existing_result",
}


@cache
def script_text(name: str) -> str:
    """The script `queue/claim` is the file `dispatcher/queue/lua/claim.lua`."""
    names = [AHEAD[name], name] if name in AHEAD else [name]
    return "\n".join(_path(one).read_text(encoding="utf-8") for one in names)


def _path(name: str) -> Path:
    room, _, script = name.rpartition("/")
    return _ROOT / room / "lua" / f"{script}.lua"
