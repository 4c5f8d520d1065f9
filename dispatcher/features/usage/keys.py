"""The counters of each chat, by day in CHAT_TIMEZONE: those of finish.lua."""

from __future__ import annotations

from shared.wire.key_table import Key, both, reads, writes

PREFIX = "hcli:mem:stats:"
PATTERN = f"{PREFIX}*"
#: Stands for all chats; no record can have it as its chat id.
EVERY_CHAT = "0"
TTL_SECONDS = 32 * 86_400

KEYS = (
    Key("hcli:mem:stats:{day}:{chat_id}", "hash",
        "counters of a chat and day; chat 0: of all chats",
        "32 d"),
)  # fmt: skip
RIGHTS = {
    "dispatcher": (
        both("HINCRBY HINCRBYFLOAT EXPIRE", PATTERN, why="counters of each chat"),
        reads("HGETALL", PATTERN, why="`/usage`, and whether a chat has reached DAILY_LIMIT"),
    ),
    "owner": (writes("DEL", PATTERN, why="`hmem forget`: a whole chat's counters"),),
}
CHAT_KEYS = (PREFIX + "????-??-??:{chat_id}",)


def of_day(day: str, chat_id: str) -> list[str]:
    """The chat's key, and that of all chats together."""
    return [f"{PREFIX}{day}:{one}" for one in (chat_id, EVERY_CHAT)]
