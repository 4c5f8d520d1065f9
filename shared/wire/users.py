"""Who may do what in Redis, in one table: `deploy/redis-users.acl` and the tables of `docs/redis-keys.md` are generated from it.

To add a key: its `Key` and its name in `keys.py`, a line here for each user that uses it, then `.venv/bin/python scripts/redis_users.py`
and `scripts/docs`.
`hmem doctor` checks the dispatcher's rights against it; `tests/end_to_end/test_redis_rights.py` tries every Redis command against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from shared.hooks import feature_modules
from shared.wire import keys
from shared.wire.rights import User, both, reads, without_keys, writes

TURNS = keys.MEMORY_PREFIX + "*"
RESULTS, PENDING, STATS, CANCEL = keys.result("*"), keys.pending("*"), keys.stats("*"), keys.cancel("*")
SESSION, HISTORY, SIZE = keys.session("*"), keys.history("*"), keys.size("*")
SPENT, WHY, CONVERSATION = keys.spent("*"), keys.why("*"), tuple(keys.conversation("*"))
INFLIGHT, LEASE, ATTEMPTS, DONE = keys.inflight("*"), keys.lease("*"), keys.attempts("*"), keys.done("*")
UNCONSOLIDATED, CONSOLIDATING, REMINDED = keys.unconsolidated("*"), keys.consolidating("*"), keys.reminded("*")
SEEN, TOLD, MODEL, NEW = keys.bot_seen("*"), keys.bot_told("*"), keys.bot_model("*"), keys.bot_new("*")
TEACH, PARTIAL, SELECTION = keys.teach("*"), keys.partial("*"), keys.SELECTION_PREFIX + "*"
OF_CHAT = keys.chat_settings("*")
EVENTS = keys.EVENT_PREFIX + "*"
OUTBOXES, WAITING, ARRIVING = keys.outbox("*"), keys.bot_waiting("*"), keys.bot_arriving("*")
MEDIA_FILES, KEPT_FILES = keys.media("*"), f"{keys.KEPT}:*"

_SCRIPTS = without_keys(
    "SCRIPT|LOAD",
    "loads its Lua scripts; `EVALSHA` runs them on any keys of this table, and each command in a script is checked against its line",
)

BOT = User(
    "bot",
    "Our bot, `hmem telegram`.",
    (
        without_keys("PING", "checks the connection"),
        _SCRIPTS,
        writes("RPUSH LREM LSET", keys.TASKS, why="queues a message, removes it (`/cancel`), changes it when it is edited"),
        reads("LRANGE LLEN LPOS", keys.TASKS, why="finds a queued message; `/status`; the limit of the queue"),
        writes("RPUSH LREM", PENDING, why="records which messages of a chat are unanswered"),
        reads("LRANGE", PENDING, why="counts them against the limit of the chat"),
        reads("GET MGET STRLEN", RESULTS, why="fetches answers; skips values that are too large for an answer"),
        writes("SET DEL", RESULTS, why="answers a message that `/cancel` removed; removes delivered answers"),
        reads("GETRANGE", PARTIAL, why="shows answers while they are written"),
        writes("DEL", SESSION, why="`/new` ends the conversation"),
        writes("SET", NEW, why="has the dispatcher end it"),
        writes("SET", CANCEL, why="`/cancel` asks to end a running task"),
        both("HSET HSETNX HDEL HEXISTS HGETALL", WAITING, why="where each answer goes, and how much of it is delivered"),
        both("GET SET EXISTS", SEEN, why="processes no update twice; notices edits"),
        both("HGET HSET HDEL HEXISTS HGETALL", ARRIVING, why="messages whose files it still fetches, and those behind them"),
        both("ZADD ZRANGE ZREMRANGEBYSCORE", keys.MEDIA, why="how much the files in Redis take together"),
        both("SET GET", MEDIA_FILES, why="the files of messages, for the dispatcher; those that Claude made, to send them"),
        both("GET SET DEL", MODEL, why="`/model`"),
        both("HGET HSET", OF_CHAT, why="`/language`"),
        both("GET SET DEL", keys.bot_owner("*"), why="one process is the bot: the lease"),
        writes("SET", TOLD, why="informs a stranger once that the bot is private"),
        reads("LRANGE LINDEX", OUTBOXES, why="looks for messages to deliver"),
        both("LPOP", OUTBOXES, why="removes what it delivers"),
        reads("HGETALL", keys.RELEASE, why="`/status`: whether there is a dispatcher"),
        reads("EXISTS", LEASE, why="`/status`: whether it is running"),
        reads("GET", keys.NIGHT_LAST, why="`/status`: time of the last good night"),
        reads("GET", keys.FORMAT, why="refuses values that a newer program wrote"),
    ),
    scripts=True,
)  # fmt: skip

HCLI_BOT = User(
    "hcli-bot",
    "h-cli's bot with our dispatcher, or another bot that uses the same keys.",
    (
        without_keys("PING", "its health check"),
        writes("RPUSH LREM", keys.TASKS, why="queues a message; removes it (`/cancel`)"),
        reads("LRANGE LLEN", keys.TASKS, why="finds it; `/status`; the limit of the queue"),
        writes("RPUSH LREM EXPIRE", PENDING, why="records what it waits for; stops waiting"),
        both("RPOP", PENDING, why="`/cancel` removes the newest"),
        reads("GET", RESULTS, why="fetches answers"),
        writes("SET DEL", RESULTS, why="answers a message that `/cancel` removed; removes shown answers"),
        writes("DEL", SESSION, HISTORY, SIZE, why="`/new` ends the conversation"),
        reads("LRANGE", HISTORY, why="writes it to a file"),
        reads("HGETALL", STATS, why="`/stats`"),
        both("SET EXISTS DEL RPUSH LRANGE EXPIRE", TEACH, why="its teach mode, checked at every answer"),
    ),
)  # fmt: skip

HCLI_DISPATCHER = User(
    "hcli-dispatcher",
    "h-cli's dispatcher with our bot.",
    (
        without_keys("PING", "checks at the start that Redis answers"),
        without_keys("MULTI EXEC", "counts in one transaction"),
        both("BLPOP", keys.TASKS, why="takes a message; if it dies over it, the message is lost"),
        both("GET SET EXISTS DEL", SESSION, why="when a conversation began"),
        both("RPUSH LRANGE LLEN EXPIRE DEL", HISTORY, why="the conversation so far; written to a file when it ends"),
        both("GET INCRBY EXPIRE DEL", SIZE, why="its size"),
        writes("SET", TURNS, why="stores question and answer, for its SESSION_TTL"),
        writes("SET", RESULTS, why="answers"),
        both("HINCRBY HINCRBYFLOAT EXPIRE", STATS, why="counters of the day"),
    ),
)  # fmt: skip

DISPATCHER = User(
    "dispatcher",
    "`hmem run`, and the memory tools that Claude gets from it.",
    (
        without_keys(
            "PING INFO TIME ACL|DRYRUN",
            "checks at the start, and in `hmem doctor`, that Redis is new enough, keeps its data, also through a restart, and has the same time",
        ),
        without_keys("MULTI EXEC", "sends its heartbeat together with the release it serves"),
        _SCRIPTS,
        both(
            "BLMOVE LMOVE",
            keys.TASKS,
            keys.UNMOVED,
            why="waits for a message: nothing is moved, since the destination is not a list",
        ),
        writes("SET", keys.UNMOVED, why="creates that destination"),
        reads("LRANGE LLEN MEMORY|USAGE", keys.TASKS, why="chooses the next message, and finds one that is too large; metrics"),
        writes(
            "LREM LPUSH LSET",
            keys.TASKS,
            why="claims a message; puts back what a dead dispatcher had claimed; truncates one that is too large; queues a scheduled question",
        ),
        both("HSETNX", WAITING, why="has the bot deliver the answer to a scheduled question"),
        both("HGET HSET", OF_CHAT, why="`/timezone`; what the chat may have"),
        both("HSET HDEL HGET HGETALL HLEN HEXISTS DEL", INFLIGHT, why="claimed and unfinished tasks, its own and those of dead dispatchers"),
        both("HSET HDEL HGET HGETALL HEXISTS", keys.BUSY, why="which chats are being answered"),
        both("SADD SREM SMEMBERS", keys.WORKERS, why="finds dispatchers that died"),
        both(
            "SET EXPIRE EXISTS DEL",
            LEASE,
            why="its heartbeat, with the forgetting after which it dropped its caches; finds dispatchers without one",
        ),
        reads("GET", keys.FORGOTTEN, why="drops its caches after a forgetting"),
        both("GET INCR EXPIRE DEL", ATTEMPTS, why="counts the dispatchers that died over a message"),
        both("GET SET EXISTS", DONE, why="answers no message twice"),
        both("ZADD ZSCORE ZRANGE ZREM ZREMRANGEBYRANK", keys.SERVED, why="which chat is next"),
        both("GET SET", MEDIA_FILES, why="the files that came with a message; those that Claude made, for the bot"),
        both("ZADD ZRANGE ZREMRANGEBYSCORE", keys.MEDIA, why="how much the files in Redis take together"),
        both("HGET HSET HGETALL", keys.KEPT, why="how much the files that wait for the night take together (`KEEP_MEDIA`)"),
        both("SET EXISTS", KEPT_FILES, why="keeps the files of a finished message for the archive"),
        reads("EXISTS", CANCEL, why="does not start a cancelled task"),
        reads("LPOS", PENDING, why="ends a running answer when its bot no longer waits"),
        both("EXISTS DEL", NEW, why="ends the conversation after `/new` of our bot"),
        reads("MGET", CANCEL, RESULTS, why="ends a running answer when it is cancelled, or answered by the bot itself"),
        reads("GET STRLEN", RESULTS, why="leaves the bot's answer to `/cancel` unchanged"),
        writes("SET", RESULTS, why="answers"),
        writes("SET DEL", PARTIAL, why="what it has of an answer that is being written"),
        writes("SET", TURNS, why="stores question and answer; Redis cannot tell a new turn from an overwritten one"),
        reads(
            "MGET",
            TURNS,
            why="copies finished turns to the day store, and into the prompt until they are there; never overwrites a turn of another task",
        ),
        both("GET SET", SESSION, why="resumes and begins Claude's sessions"),
        both("RPUSH LTRIM LRANGE LREM EXPIRE", HISTORY, why="the recent messages of a conversation"),
        both("INCRBY EXPIRE", SIZE, why="the size of a conversation"),
        both("HGET HMGET HGETALL HSET HINCRBY EXPIRE", SPENT, why="what a session has cost, and whether it is long enough to end"),
        both("RPUSH LTRIM LINDEX LPOP EXPIRE", WHY, why="what was injected for the last answers: `/memory why`, the owner's page"),
        both("GET SET DEL", SELECTION, why="`/forget`: what was shown, until it is confirmed"),
        writes("DEL", *CONVERSATION, why="ends a session or the whole conversation, in one transaction"),
        both("HINCRBY HINCRBYFLOAT EXPIRE", STATS, why="counters of the day"),
        both("RPUSH LTRIM LLEN", keys.DEAD, why="moves what it cannot process to the dead letters; metrics"),
        both("RPUSH LTRIM LRANGE LREM LLEN", UNCONSOLIDATED, why="turns to be copied to the day store; metrics"),
        both("SADD SREM SRANDMEMBER", keys.CHATS, why="chats that have such turns"),
        both("GET SET DEL", CONSOLIDATING, why="one dispatcher consolidates a chat"),
        both("RPUSH LINDEX LREM", keys.TAGS, why="tags in answers that could not be applied yet"),
        reads("LPOS", keys.TOMBSTONES, why="checks whether one of its tombstones is there"),
        writes("RPUSH", keys.TOMBSTONES, why="`[FORGET: …]` and `/memory forget` in a chat: a tombstone that hides"),
        writes("SET", EVENTS, why="what changed beside turns, for the archive"),
        writes("RPUSH", OUTBOXES, why="reminders, alarms, the morning report, digests"),
        reads("LLEN LINDEX", OUTBOXES, why="metrics; finds messages that no bot fetches, and digests to take back"),
        writes("LREM", OUTBOXES, why="drops them after some days"),
        writes("SET", REMINDED, why="reminds once, and asks a scheduled question once"),
        writes("HSET HDEL", keys.RELEASE, why="publishes which release it serves"),
        reads("GET", keys.NIGHT_LAST, keys.NIGHT_FAILED, why="logs that a night was missed, and why"),
        reads("GET", keys.NIGHT_REPORT, why="what the last nights did; `hmem doctor`"),
        both("HSET HGETALL EXPIRE", keys.FEATURES, why="features that failed; `hmem doctor`"),
        both("GET SET", keys.FORMAT, why="refuses values that a newer program wrote, and takes over older ones"),
    ),
    scripts=True,
)  # fmt: skip

NIGHT = User(
    "night",
    "`hmem-night`.",
    (
        without_keys("PING SCAN", "finds the turns; `SCAN` gives the names of all keys, whatever may be read"),
        _SCRIPTS,
        reads("GET MGET TYPE DUMP", TURNS, why="archives turns, byte for byte; compares each again before it is deleted"),
        writes("UNLINK", TURNS, why="deletes turns that are archived and served; Redis cannot tell this script from a plain `UNLINK`"),
        reads("GET MGET TYPE DUMP", EVENTS, why="archives events, and compares each again before it is deleted"),
        writes("UNLINK", EVENTS, why="deletes events that are archived"),
        reads("HGETALL", OF_CHAT, why="archives what chats have set"),
        both("HGETALL HDEL TYPE", keys.KEPT, why="which files are to be kept for ever"),
        reads("GET TYPE", KEPT_FILES, why="archives them; compares each again before it is deleted"),
        writes("UNLINK", KEPT_FILES, why="deletes files that are verified in the archive, and those of no turn"),
        reads("LRANGE", keys.TOMBSTONES, why="applies tombstones"),
        both("GET SET EXPIRE DEL EVAL", keys.NIGHT_OWNER, why="one night at a time: the lease"),
        both("INCRBY", keys.NIGHT_RUN, why="counter of runs and fencing tokens"),
        writes("SET", keys.NIGHT_LAST, why="the last good night"),
        writes("SET DEL", keys.NIGHT_FAILED, why="why a night stopped"),
        writes("SET", keys.NIGHT_REPORT, why="the last nights, for the morning report"),
        writes("HSET HSETNX EXPIRE", keys.ASKED, keys.DREAMS, why="what Claude is to write, and how memories are put in order (`WRITER`)"),
        both("HGET HDEL", keys.WRITTEN, why="what Claude wrote"),
        reads("SMEMBERS", keys.WORKERS, why="which dispatchers there are"),
        reads("EXISTS", LEASE, why="which of them are running"),
        reads("HGETALL", keys.RELEASE, why="whether they serve the new release"),
        reads("GET", keys.FORMAT, why="refuses values that a newer program wrote, and makes no release that the day cannot read"),
    ),
    scripts=True,
)  # fmt: skip

OWNER = User(
    "owner",
    "The owner's `hmem` on the command line. It may read everything, since `hmem forget` searches everything.",
    (
        without_keys("PING INFO TIME SCAN ACL|DRYRUN", "`hmem status` and `hmem doctor`; finds turns, and every key for `hmem forget`"),
        _SCRIPTS,
        reads(
            "TYPE TTL GET MGET STRLEN EXISTS LRANGE LLEN LPOS LINDEX HGET HGETALL HLEN SMEMBERS ZRANGE", keys.ALL,
            why="`hmem status`, `search`, `context`, `memory`, `export`, and the scan behind the receipt of `hmem forget`",
        ),
        writes("RPUSH", keys.TASKS, why="`hmem talk`"),
        reads("GETRANGE", PARTIAL, why="`hmem talk` shows the answer while it is written"),
        writes("DEL", RESULTS, why="… and removes the answer that it has fetched"),
        writes("RPUSH", keys.TOMBSTONES, why="`hmem forget`, `hmem memory forget`"),
        writes("SET DEL", EVENTS, why="… and what is left of its memories, for the archive"),
        writes("SET", keys.FORGOTTEN, why="`hmem forget` has running dispatchers drop their caches"),
        writes("DEL", *CONVERSATION, why="both end the conversation, in one transaction"),
        writes("DEL", TURNS, RESULTS, SEEN, why="`hmem forget` removes what is covered, if it has not changed since it was read"),
        writes("DEL", PARTIAL, why="… and what is written of their answers"),
        writes("LREM LSET", keys.TASKS, why="… removes queued messages, and truncates one that is too large"),
        writes("HDEL", INFLIGHT, keys.BUSY, why="… and those that a dead dispatcher had claimed"),
        writes("SET", RESULTS, DONE, why="… answers them, unread, so that no dispatcher does"),
        writes("SET", CANCEL, why="… ends those that are being answered"),
        writes("LREM", keys.DEAD, keys.TAGS, OUTBOXES, UNCONSOLIDATED, HISTORY, TEACH, why="… removes what is covered from the lists"),
        writes("HDEL", WAITING, ARRIVING, why="… and from what the bot was to send, or to queue"),
        writes("DEL", MEDIA_FILES, why="… and the files of messages that no waiting message needs"),
        writes("ZREM", keys.MEDIA, why="… from their list"),
        writes("DEL", KEPT_FILES, why="… and the kept files of what is covered"),
        writes("HDEL", keys.KEPT, why="… from their list"),
        writes("DEL", OF_CHAT, why="… and removes what a whole chat has set"),
        writes("HSETNX", OF_CHAT, why="`hmem restore`"),
        writes("RPUSH", keys.TAGS, why="`hmem dead --retry` returns tags to the dispatcher (tasks go to the queue, as with `hmem talk`)"),
        writes("DEL", DONE, ATTEMPTS, CANCEL, why="… and clears that the task was tried or cancelled"),
        both("HSETNX", WAITING, why="… and has the bot deliver the late answer"),
    ),
    scripts=True,
)  # fmt: skip

ADMIN = User(
    "admin",
    "`hmem forget` with `REDIS_ADMIN_URL`, and the owner with `redis-cli`. It can read no key, but the slow log can contain words.",
    (
        without_keys("PING INFO CONFIG|GET", "checks whether there are snapshots, and when a rewrite is done"),
        without_keys("BGREWRITEAOF BGSAVE", "rewrites append-only file and snapshot after a forgetting"),
        without_keys("SLOWLOG|GET SLOWLOG|LEN SLOWLOG|RESET", "reads the slow log and empties it: it contains whole commands"),
        without_keys("ACL|LOG", "reads the log of refusals and empties it: it contains names of keys"),
    ),
)  # fmt: skip

HEALTH = User(
    "health",
    "The health check of the container; it has no password.",
    (without_keys("PING", "checks that Redis answers"),),
    password=False,
)  # fmt: skip

#: With the rights of the core alone.
CORE = (HEALTH, BOT, HCLI_BOT, DISPATCHER, HCLI_DISPATCHER, NIGHT, OWNER, ADMIN)


@cache
def users() -> tuple[User, ...]:
    """The users, with what the features require."""
    more = [module.RIGHTS for module in feature_modules("keys")]
    return tuple(
        replace(user, rights=(*user.rights, *(right for one in more for right in one.get(user.name, ()))))
        for user in CORE
    )


def reach(user: User, pattern: str) -> str:
    """What a user may do to the keys of a pattern, not counting scripts: "", "R", "W" or "RW"."""
    access = {letter for right in user.rights if _has(right.patterns, pattern) for letter in right.access}
    return "".join(letter for letter in "RW" if letter in access)


def _has(patterns: Sequence[str], pattern: str) -> bool:
    return any(one == pattern or (one == keys.ALL and pattern.startswith(one[:-1])) for one in patterns)
