"""What the owner and the chats were told already, and whether Claude answers. Which chats want a digest is in the core's table, for the archive."""

from __future__ import annotations

from collections.abc import Sequence

from shared.wire import keys
from shared.wire.key_table import Key
from shared.wire.rights import Right, both

ALARMS = "hcli:mem:alarms"
MORNING = "hcli:mem:morning"
CLAUDE_ERRORS = "hcli:mem:claude"

KEYS = (
    Key(
        ALARMS,
        "hash",
        "alarm → JSON {since, sent, well}: since when it lasts, when the owner was last told, since when all is well",
        "none",
    ),
    Key(
        MORNING,
        "hash",
        "report → day of the last morning report; heartbeat → night that HEARTBEAT_URL was told of; …-until: the dispatcher that does it now",
        "none",
    ),
    Key(
        CLAUDE_ERRORS, "hash", "first, last → times of the errors since Claude's last answer, in POSIX seconds", "none"
    ),
)
RIGHTS: dict[str, Sequence[Right]] = {
    "dispatcher": (
        both("HGET HSET HDEL", ALARMS, why="tells the owner of a fault once, then daily, and when all is well again"),
        both("HGET HSET HDEL", MORNING, why="one report a day, one heartbeat a night"),
        both("HSET HSETNX HMGET DEL", CLAUDE_ERRORS, why="notices that Claude only answers with errors"),
        both("HGETALL HGET HSET HSETNX HDEL", keys.DIGESTS, why="`/digest`; one a day for each chat that wants it"),
    ),
}
