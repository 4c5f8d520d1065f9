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
    ahead = script_text(AHEAD[name]) + "\n" if name in AHEAD else ""
    room, _, script = name.rpartition("/")
    return ahead + (_ROOT / room / "lua" / f"{script}.lua").read_text(encoding="utf-8")
