"""How many scheduled questions a chat has asked on a day."""

from __future__ import annotations

from shared.wire.key_table import Key, both, writes

PREFIX = "hcli:mem:scheduled:"
TTL_SECONDS = 2 * 86_400

KEYS = (
    Key("hcli:mem:scheduled:{day}:{chat_id}", "string",
        "scheduled questions asked that day", "2 days"),
)  # fmt: skip
RIGHTS = {
    "dispatcher": (both("INCR EXPIRE", f"{PREFIX}*", why="counts the scheduled questions of a chat's day"),),
    "owner": (writes("DEL", f"{PREFIX}*", why="`hmem forget`: a whole chat's counters"),),
}
CHAT_KEYS = (PREFIX + "????-??-??:{chat_id}",)


def asked(day: str, chat_id: str) -> str:
    """The counter of a day in the chat's zone."""
    return f"{PREFIX}{day}:{chat_id}"
