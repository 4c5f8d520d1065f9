"""What dispatcher and night may do in Redis for the second copy of the day (docs/second-copy.md) and for encryption (docs/encryption.md), beside
their other rights (users.py)."""

from __future__ import annotations

from shared.wire import keys
from shared.wire.rights import Right, both, reads, without_keys, writes

_CONVERSATION = (keys.session("*"), keys.history("*"), keys.size("*"), keys.spent("*"))

DISPATCHER: tuple[Right, ...] = (
    without_keys("SCAN", "with JOURNAL: finds turns that other programs wrote; `SCAN` gives the names of all keys"),
    without_keys("WAIT", "REDIS_WAIT: whether the replicas have an answer"),
    both("HGET HGETALL HSET", keys.JOURNAL, why="how far the journal has followed; whether Redis was lost since"),
    reads("LRANGE", keys.flushed("*"), why="which turns a night has deleted, so that they leave the journal"),
    reads("LRANGE LLEN", keys.TOMBSTONES, why="… which tombstones the journal lacks"),
    reads("LRANGE GET HGETALL PTTL", *_CONVERSATION, why="… the conversations"),
    writes("SET DEL RPUSH HSET PEXPIRE", *_CONVERSATION, why="puts back what a lost Redis lacks"),
    writes("RPUSH", keys.TASKS, why="… queued messages"),
    both("HGETALL HDEL", keys.BOT_WAITING, why="… and where their answers go"),
    reads("HGETALL", keys.RELEASE, why="`hmem restore --day`: whether a dispatcher runs"),
    both("HGETALL HSET HDEL", keys.KEYRING, why="the data keys, encrypted (ENCRYPT_KEY_FILE)"),
)

NIGHT: tuple[Right, ...] = (
    reads("EXISTS", keys.JOURNAL, why="whether a journal follows this Redis"),
    writes("RPUSH EXPIRE", keys.flushed("*"), why="which turns it deletes, so that they leave the journal too"),
    both("HGETALL HSET HDEL", keys.KEYRING, why="the data keys, encrypted (ENCRYPT_KEY_FILE)"),
)
