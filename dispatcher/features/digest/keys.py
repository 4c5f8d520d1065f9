"""What the owner and the chats were told already, which chats want a digest, and whether Claude answers."""

from __future__ import annotations

from datetime import UTC, datetime

from shared.wire.key_table import Key, TableOfChats, both, reads, writes

ALARMS = "hcli:mem:alarms"
MORNING = "hcli:mem:morning"
CLAUDE_ERRORS = "hcli:mem:claude"
DIGESTS = "hcli:mem:digests"

KEYS = (
    Key(ALARMS, "hash", "alarm → JSON {since, sent, well}",
        "none"),
    Key(MORNING, "hash",
        "day of the last morning report, and the night last sent to HEARTBEAT_URL",
        "none"),
    Key(CLAUDE_ERRORS, "hash",
        "first, last → times of errors since Claude's last answer; unpaid → when the account last did not pay for a question",
        "none"),
    Key(DIGESTS, "hash", "chat id → day of its last digest", "none"),
)  # fmt: skip
RIGHTS = {
    "dispatcher": (
        both("HGET HSET HDEL", ALARMS, why="tells the owner of a fault once, then daily, and when all is well again"),
        both("HGET HSET HDEL", MORNING, why="one report a day, one heartbeat a night"),
        both("HSET HSETNX HGET HDEL", CLAUDE_ERRORS, why="notices that Claude only answers with errors"),
        both("HGETALL HGET HSET HSETNX HDEL", DIGESTS, why="`/digest`; one a day for each chat that wants it"),
    ),
    "night": (reads("HGETALL", DIGESTS, why="archives which chats want a digest"),),
    "owner": (writes("HDEL HSETNX", DIGESTS, why="`hmem forget` of a whole chat; `hmem restore`"),),
}


def today(_: object) -> bytes:
    """For a chat that is put back: its next one comes tomorrow."""
    return str(datetime.now(UTC).date()).encode()


#: When the last one was sent is not archived: that would be news each day.
CHAT_TABLES = {"digest": TableOfChats(DIGESTS, lambda _: True, today)}
