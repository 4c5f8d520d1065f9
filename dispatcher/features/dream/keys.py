"""What dreams came to, and who may take what the night leaves (shared/wire/keys.py has its keys)."""

from __future__ import annotations

from shared.wire import keys
from shared.wire.key_table import Key, both, reads

#: The nights of which results are kept.
NIGHTS_KEPT = 14
PROPOSED = "hcli:mem:dreams:proposed"
DREAMT = "hcli:mem:dreamt"
TURN = "hcli:mem:writing:turn"
#: Seconds after which another dispatcher may ask Claude for the night.
TURN_TTL_SECONDS = 900

KEYS = (
    Key(PROPOSED, "hash", "run:chat id → changes for the owner to decide on", "14 days each"),
    Key(DREAMT, "hash", "run:chat id → JSON {changed, proposed, refused: {reason: count}}", "none (14 nights)"),
    Key(TURN, "string", "the dispatcher that is writing for the night", "15 min"),
)  # fmt: skip
RIGHTS = {
    "dispatcher": (
        both(
            "HGETALL HKEYS HGET HSET HDEL HEXISTS",
            keys.DREAMS,
            PROPOSED,
            DREAMT,
            why="puts memories in order as the night's model says (`WRITER`)",
        ),
        both("HGETALL HDEL HEXISTS", keys.ASKED, why="asks Claude for the night when no message waits"),
        both("HGETALL HSET HDEL EXPIRE", keys.WRITTEN, why="what Claude wrote"),
        both("GET SET DEL", TURN, why="one dispatcher writes for the night at a time"),
        reads("LLEN", keys.TASKS, why="whether a message waits"),
        reads("HLEN", keys.BUSY, why="whether one is being answered"),
    ),
    "owner": (
        both(
            "HGETALL HGET HSET HDEL",
            keys.DREAMS,
            PROPOSED,
            DREAMT,
            keys.ASKED,
            keys.WRITTEN,
            why="`hmem forget`; `hmem memory changes`",
        ),
    ),
}
