"""Guests, invitations, and wrong codes."""

from __future__ import annotations

from shared.turns.records import dumps, loads_object
from shared.wire.key_table import Key, TableOfChats, both, reads, writes
from shared.wire.keys import MOVED

GUESTS = "hcli:mem:guests"
#: How long the wrong codes of a stranger count. Seconds.
TRIES_TTL_SECONDS = 3_600


def invite(code_hash: str) -> str:
    return f"hcli:mem:invite:{code_hash}"


def tries(chat_id: str) -> str:
    return f"hcli:mem:bot:tries:{chat_id}"


KEYS = (
    Key(GUESTS, "hash", "chat id → signed JSON {chat, name, since, by, removed, hmac}",
        "none"),
    Key(invite("{hash}"), "string",
        "JSON {by, at}, under the SHA-256 of the invitation's code", "24 h, or as /invite says"),
    Key(tries("{chat_id}"), "string", "wrong codes sent by this stranger", "1 h"),
)  # fmt: skip
RIGHTS = {
    "bot": (
        both("HGET HGETALL HSET", GUESTS, why="whom it answers beside ALLOWED_CHATS; `/invite`, `/guests`"),
        both("GET SET DEL", invite("*"), why="`/invite`, and who comes with a code"),
        both("GET INCR EXPIRE", tries("*"), why="counts a stranger's wrong codes"),
    ),
    "dispatcher": (reads("HGETALL", GUESTS, MOVED, why="`hmem doctor`"),),
    "night": (reads("HGETALL", GUESTS, why="archives who is a guest"),),
    "owner": (
        writes("HDEL HSETNX", GUESTS, why="`hmem forget`: that a whole chat was a guest; `hmem restore`"),
        writes("DEL", invite("*"), why="… and its owner's open invitations"),
    ),
}
CHAT_TABLES = {"guest": TableOfChats(GUESTS, loads_object, dumps)}
