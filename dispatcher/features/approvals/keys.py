"""Questions whether Claude may use a tool: open ones, decisions, and the record of both."""

from __future__ import annotations

from shared.wire.key_table import Key, both, writes

OPEN = "hcli:mem:approvals:open"
RECORDS = "hcli:mem:approvals"
#: How long a decision is kept, in seconds, and how many records.
DECISION_TTL_SECONDS, RECORDS_LENGTH = 3_600, 1_000
#: Seconds after the last question until questions that no bot has taken back are removed.
OPEN_TTL_SECONDS = 3_600


def decision(approval_id: str) -> str:
    return f"hcli:mem:approval:{approval_id}"


KEYS = (
    Key(OPEN, "hash",
        "id → signed JSON of a question about a tool: {chat_id, user_id, task_id, tool, text, ends, verdict, who, hmac}",
        "1 h after the last"),
    Key(decision("{id}"), "string",
        "its decision: signed JSON {verdict, chat_id, user_id, name, hmac}", "1 h"),
    Key(RECORDS, "list", "newest 1,000 decisions, as JSON",
        "none"),
)  # fmt: skip
RIGHTS = {
    "bot": (
        both("HGETALL HDEL", OPEN, why="questions whether Claude may use a tool; removes ended ones"),
        both("EXISTS SET", decision("*"), why="what a person answered to one, once"),
    ),
    "dispatcher": (
        both("HSET EXPIRE", OPEN, why="asks whether Claude may use a tool, and says how that ended"),
        both("GET SET", decision("*"), why="what was answered; decides itself when nobody does"),
        writes("RPUSH LTRIM", RECORDS, why="the record of these decisions"),
    ),
    "owner": (
        writes("SET", decision("*"), why="`hmem talk`: what was answered to a question about a tool, once"),
        writes("HDEL", OPEN, why="`hmem forget`: questions about tools"),
        writes("DEL", decision("*"), why="… their answers"),
        writes("LREM", RECORDS, why="… and their records"),
    ),
}
