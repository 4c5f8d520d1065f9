"""Who may do what in Redis, one table: `deploy/redis-users.acl` and the tables of `docs/redis-keys.md` are made from it.

To add a key: its `Key` and its name in `keys.py`, a line here for each user that uses it, then `.venv/bin/python scripts/redis_users.py`
and `scripts/docs`.
`hmem doctor` asks for what the dispatcher has here; `tests/end_to_end/test_redis_rights.py` tries every command of Redis against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from shared.wire import keys

TURNS = keys.MEMORY_PREFIX + "*"
RESULTS, PENDING, STATS, CANCEL = keys.result("*"), keys.pending("*"), keys.stats("*"), keys.cancel("*")
SESSION, HISTORY, SIZE, SPENT, WHY = (
    keys.session("*"),
    keys.history("*"),
    keys.size("*"),
    keys.spent("*"),
    keys.why("*"),
)
CONVERSATION = tuple(keys.conversation("*"))
INFLIGHT, LEASE, ATTEMPTS, DONE = keys.inflight("*"), keys.lease("*"), keys.attempts("*"), keys.done("*")
UNCONSOLIDATED, DREAM, REMINDED = keys.unconsolidated("*"), keys.dream("*"), keys.reminded("*")
SEEN, TOLD, MODEL, NEW = keys.bot_seen("*"), keys.bot_told("*"), keys.bot_model("*"), keys.bot_new("*")
TEACH = keys.teach("*")
VECTORS, CHAT_STATS = keys.vectors("") + "*", keys.CHAT_STATS_PREFIX + "*"


@dataclass(frozen=True)
class Right:
    """These commands on keys of these patterns, all of them in one call if it must be; without patterns, commands that take no key.

    `access` is what Redis lets them do to the keys: R reads, W writes and deletes, RW both. `why`: the part of the program that needs it.
    """

    commands: str
    access: Literal["R", "W", "RW"]
    patterns: tuple[str, ...]
    why: str

    @property
    def names(self) -> list[str]:
        """The commands as an ACL writes them: `get`, `script|load`."""
        return self.commands.lower().split()


@dataclass(frozen=True)
class User:
    """`scripts`: runs Lua. What a script does inside Redis holds against the same rights, so its keys are all keys that the user has."""

    name: str
    what: str
    rights: tuple[Right, ...]
    scripts: bool = False
    password: bool = True

    @property
    def keyless(self) -> list[str]:
        """Commands that take no key."""
        return [name for right in self.rights if not right.patterns for name in right.names]

    @property
    def selectors(self) -> tuple[Right, ...]:
        """The rights on keys, that of running scripts on them among these."""
        own = tuple(right for right in self.rights if right.patterns)
        patterns = tuple(dict.fromkeys(pattern for right in own for pattern in right.patterns))
        return (*own, Right("EVALSHA", "RW", patterns, "its scripts")) if self.scripts else own


def without_keys(commands: str, why: str) -> Right:
    return Right(commands, "R", (), why)


def reads(commands: str, *patterns: str, why: str) -> Right:
    return Right(commands, "R", patterns, why)


def writes(commands: str, *patterns: str, why: str) -> Right:
    return Right(commands, "W", patterns, why)


def both(commands: str, *patterns: str, why: str) -> Right:
    return Right(commands, "RW", patterns, why)


_SCRIPTS = without_keys(
    "SCRIPT|LOAD",
    "brings its Lua scripts; `EVALSHA` runs them on any keys of this table, and each command inside one is checked against its line",
)

BOT = User(
    "bot",
    "Our Telegram bot, `hmem telegram`.",
    (
        without_keys("PING", "sees that the connection lives"),
        _SCRIPTS,
        writes(
            "RPUSH LREM LSET",
            keys.TASKS,
            why="queues a message, takes it back (`/cancel`), changes it when it is edited",
        ),
        reads("LRANGE LLEN LPOS", keys.TASKS, why="finds a queued message; `/status`; the limit of the queue"),
        writes("RPUSH LREM", PENDING, why="notes which messages of a chat are unanswered"),
        reads("LRANGE", PENDING, why="counts them against the limit of the chat"),
        reads("GET MGET STRLEN", RESULTS, why="fetches answers; passes over what is too large for one"),
        writes("SET DEL", RESULTS, why="answers what `/cancel` took back; removes what is delivered"),
        writes("DEL", SESSION, why="`/new` ends the conversation"),
        writes("SET", NEW, why="and has the dispatcher end what was said in it"),
        reads("HGETALL", CHAT_STATS, why="`/stats`"),
        writes("SET", CANCEL, why="`/cancel` asks for the end of a task that runs"),
        both(
            "HSET HSETNX HDEL HEXISTS HGETALL",
            keys.BOT_WAITING,
            why="where each answer goes, and how much of it is there",
        ),
        both("GET SET EXISTS", SEEN, why="takes no update twice; notices edits"),
        both("GET SET DEL", MODEL, why="`/model`"),
        both("GET SET DEL", keys.BOT_OWNER, why="one Redis, one bot: the lease"),
        writes("SET", TOLD, why="tells a stranger once that the bot is private"),
        reads("LRANGE LINDEX", keys.OUTBOX, why="looks for reminders to deliver"),
        both("LPOP", keys.OUTBOX, why="takes what it delivers"),
        reads("HGETALL", keys.RELEASE, why="`/status`: is there a dispatcher"),
        reads("EXISTS", LEASE, why="`/status`: does it live"),
        reads("GET", keys.NIGHT_LAST, why="`/status`: when was the last good night"),
    ),
    scripts=True,
)

HCLI_BOT = User(
    "hcli-bot",
    "h-cli's Telegram bot beside our dispatcher, or another one that speaks its keys.",
    (
        without_keys("PING", "its health check"),
        writes("RPUSH LREM", keys.TASKS, why="queues a message; takes it back (`/cancel`)"),
        reads("LRANGE LLEN", keys.TASKS, why="finds it; `/status`; the limit of the queue"),
        writes("RPUSH LREM EXPIRE", PENDING, why="notes what it waits for; gives up"),
        both("RPOP", PENDING, why="`/cancel` takes the newest"),
        reads("GET", RESULTS, why="fetches answers"),
        writes("SET DEL", RESULTS, why="answers what `/cancel` took back; removes what is shown"),
        writes("DEL", SESSION, HISTORY, SIZE, why="`/new` ends the conversation"),
        reads("LRANGE", HISTORY, why="and writes it into a file"),
        reads("HGETALL", STATS, why="`/stats`"),
        both("SET EXISTS DEL RPUSH LRANGE EXPIRE", TEACH, why="its teach mode: asked for at every answer"),
    ),
)

HCLI_DISPATCHER = User(
    "hcli-dispatcher",
    "h-cli's dispatcher beside our bot.",
    (
        without_keys("PING", "sees at the start that Redis is there"),
        without_keys("MULTI EXEC", "counts in one step"),
        both("BLPOP", keys.TASKS, why="takes a message; one that it dies over is lost"),
        both("GET SET EXISTS DEL", SESSION, why="when a conversation began"),
        both("RPUSH LRANGE LLEN EXPIRE DEL", HISTORY, why="the conversation so far; into a file when it has ended"),
        both("GET INCRBY EXPIRE DEL", SIZE, why="its size"),
        writes("SET", TURNS, why="stores what was said on both sides, for its SESSION_TTL"),
        writes("SET", RESULTS, why="answers"),
        both("HINCRBY HINCRBYFLOAT EXPIRE", STATS, why="counters of the day"),
    ),
)

DISPATCHER = User(
    "dispatcher",
    "`hmem run`, and the memory tools that it gives to Claude.",
    (
        without_keys(
            "PING INFO TIME",
            "sees at the start, and in `hmem doctor`, that Redis is new enough, keeps its data and has the same time",
        ),
        without_keys("MULTI EXEC", "says that it lives, in one step with the release it serves"),
        _SCRIPTS,
        both(
            "BLMOVE LMOVE",
            keys.TASKS,
            keys.UNMOVED,
            why="waits for a message: nothing is moved, since the target is no list",
        ),
        writes("SET", keys.UNMOVED, why="makes that target"),
        reads(
            "LRANGE LLEN MEMORY|USAGE",
            keys.TASKS,
            why="chooses the next message, and sees one that is too large; figures",
        ),
        writes(
            "LREM LPUSH LSET",
            keys.TASKS,
            why="claims a message; puts back what a dead dispatcher held; cuts one that is too large",
        ),
        both(
            "HSET HDEL HGET HGETALL HLEN HEXISTS DEL",
            INFLIGHT,
            why="what is claimed and not finished, its own and dead dispatchers'",
        ),
        both("HSET HDEL HGET HGETALL HEXISTS", keys.BUSY, why="which chats are being answered"),
        both("SADD SREM SMEMBERS", keys.WORKERS, why="finds dispatchers that died"),
        both(
            "SET EXPIRE EXISTS DEL",
            LEASE,
            why="says that it lives, and after which forgetting it has dropped its caches; sees who does not live",
        ),
        reads("GET", keys.FORGOTTEN, why="drops what it keeps in memory after a forgetting"),
        both("GET INCR EXPIRE DEL", ATTEMPTS, why="counts the deaths over a message"),
        both("GET SET EXISTS", DONE, why="answers nothing twice"),
        both("ZADD ZSCORE ZRANGE ZREM ZREMRANGEBYRANK", keys.SERVED, why="whose turn it is"),
        reads("EXISTS", CANCEL, why="begins nothing whose end was asked for"),
        reads(
            "LPOS LINDEX PTTL",
            PENDING,
            why="ends a running answer when its bot no longer waits; sees how long it waits",
        ),
        both("GET SET", keys.PATIENCE, why="notes how long that is"),
        both("EXISTS DEL", NEW, why="ends the conversation after `/new` of our bot"),
        reads("MGET", CANCEL, RESULTS, why="ends a running answer when it is cancelled, or answered by the bot itself"),
        reads("GET STRLEN", RESULTS, why="leaves the bot's own answer to `/cancel` in its place"),
        writes("SET", RESULTS, why="answers"),
        writes(
            "SET",
            TURNS,
            why="stores what was said on both sides; Redis cannot tell a new turn from an older one written over",
        ),
        reads(
            "MGET",
            TURNS,
            why="brings finished turns into the store of the day, and into the prompt until they are there; writes over none of another task",
        ),
        both("GET SET", SESSION, why="resumes and begins Claude's sessions"),
        both("RPUSH LTRIM LRANGE LREM EXPIRE", HISTORY, why="the short list of a conversation"),
        both("INCRBY EXPIRE", SIZE, why="the size of a conversation"),
        both(
            "HGET HMGET HGETALL HSET HINCRBY EXPIRE",
            SPENT,
            why="what a session has cost; when it is long enough to end",
        ),
        both("GET SET", WHY, why="what was injected for the last answer: `/memory why`"),
        writes("DEL", *CONVERSATION, why="ends a session or the whole conversation, in one step"),
        both("HINCRBY HINCRBYFLOAT EXPIRE", STATS, CHAT_STATS, why="counters of the day, and of each chat"),
        both("RPUSH LTRIM LLEN", keys.DEAD, why="sets aside what it cannot take; figures"),
        both(
            "RPUSH LTRIM LRANGE LREM LLEN",
            UNCONSOLIDATED,
            why="turns that are to go into the store of the day; figures",
        ),
        both("SADD SREM SRANDMEMBER", keys.CHATS, why="chats that have some"),
        both("GET SET DEL", DREAM, why="one dispatcher consolidates a chat"),
        both("RPUSH LINDEX LREM", keys.TAGS, why="wishes in answers that could not be acted on yet"),
        reads("LPOS", keys.TOMBSTONES, why="sees whether a tombstone of its own is there"),
        writes("RPUSH", keys.TOMBSTONES, why="`[FORGET: …]` and `/memory forget` in a chat: a tombstone that hides"),
        writes("RPUSH", keys.OUTBOX, why="reminders"),
        reads("LLEN LINDEX", keys.OUTBOX, why="figures; finds what no bot fetches"),
        writes("LREM", keys.OUTBOX, why="drops that after days"),
        writes("SET", REMINDED, why="reminds once"),
        writes("HSET HDEL", keys.RELEASE, why="says which release it serves"),
        reads("GET", keys.NIGHT_LAST, keys.NIGHT_FAILED, why="says in the log that a night was missed, and why"),
    ),
    scripts=True,
)

NIGHT = User(
    "night",
    "`hmem-night`.",
    (
        without_keys("PING SCAN", "finds the turns; `SCAN` gives the names of all keys, whatever may be read"),
        _SCRIPTS,
        reads("GET MGET TYPE DUMP", TURNS, why="archives turns, byte for byte; compares each again before it goes"),
        writes(
            "UNLINK",
            TURNS,
            why="deletes what is archived and served; Redis cannot tell this script from a plain `UNLINK`",
        ),
        reads("LRANGE", keys.TOMBSTONES, why="obeys tombstones"),
        both("GET SET EXPIRE DEL EVAL", keys.NIGHT_OWNER, why="one night at a time: the lease"),
        both("INCRBY", keys.NIGHT_RUN, why="numbers of runs and fencing tokens"),
        writes("SET", keys.NIGHT_LAST, why="the last good night"),
        writes("SET DEL", keys.NIGHT_FAILED, why="why a night stopped"),
        reads("SMEMBERS", keys.WORKERS, why="which dispatchers there are"),
        reads("EXISTS", LEASE, why="which of them live"),
        reads("HGETALL", keys.RELEASE, why="whether they have taken up the new release"),
    ),
    scripts=True,
)

OWNER = User(
    "owner",
    "The owner's `hmem` on the command line. It may read everything, since `hmem forget` looks through everything.",
    (
        without_keys("PING INFO TIME SCAN", "`hmem status` and `hmem doctor`; finds turns, and every key for `hmem forget`"),
        _SCRIPTS,
        reads(
            "TYPE TTL GET MGET STRLEN EXISTS LRANGE LLEN LPOS LINDEX HGET HGETALL HLEN SMEMBERS ZRANGE", keys.ALL,
            why="`hmem status`, `search`, `context`, `memory`, `export`, and what the receipt of `hmem forget` is true by",
        ),
        writes("RPUSH", keys.TASKS, why="`hmem ask`"),
        both("GETDEL", RESULTS, why="`hmem ask` takes its answer"),
        writes("RPUSH", keys.TOMBSTONES, why="`hmem forget`, `hmem memory forget`"),
        writes("SET", keys.FORGOTTEN, why="`hmem forget` has running dispatchers drop what they keep in memory"),
        writes("DEL", *CONVERSATION, why="both end the conversation, all of it in one step"),
        writes("DEL", TURNS, RESULTS, SEEN, why="`hmem forget` removes what is covered, if it is still what was read"),
        writes("LREM LSET", keys.TASKS, why="… takes queued messages back, and cuts one that is too large"),
        writes("HDEL", INFLIGHT, keys.BUSY, why="… and those that a dead dispatcher holds"),
        writes("DEL", CHAT_STATS, why="… and a whole chat's counters"),
        writes("SET", RESULTS, DONE, why="… answers them, unread, so that nobody else does"),
        writes("SET", CANCEL, why="… ends those that are being answered"),
        writes(
            "LREM", keys.DEAD, keys.TAGS, keys.OUTBOX, UNCONSOLIDATED, HISTORY, TEACH, why="… takes out of the lists what is covered"
        ),
        writes("HDEL", keys.BOT_WAITING, why="… and out of what the bot was to say"),
        writes("RPUSH", keys.TAGS, why="`hmem dead retry` gives tags back to the dispatcher (tasks go to the queue, as with `hmem ask`)"),
        writes("DEL", DONE, ATTEMPTS, CANCEL, why="… and forgets that the task was tried, or to be ended"),
        both("HSETNX", keys.BOT_WAITING, why="… and has the bot bring the late answer"),
    ),
    scripts=True,
)  # fmt: skip

ADMIN = User(
    "admin",
    "`hmem forget` with `REDIS_ADMIN_URL`, and the owner with `redis-cli`. No key is open to it, but the slow log can hold words.",
    (
        without_keys("PING INFO CONFIG|GET", "sees whether there are snapshots, and when a rewrite is done"),
        without_keys("BGREWRITEAOF BGSAVE", "rewrites append-only file and snapshot after a forgetting"),
        without_keys(
            "SLOWLOG|GET SLOWLOG|LEN SLOWLOG|RESET", "looks into the slow log and empties it: it holds whole commands"
        ),
        without_keys("ACL|LOG", "looks into the log of refusals and empties it: it holds names of keys"),
    ),
)

HEALTH = User(
    "health",
    "The health check of the container; without a password.",
    (without_keys("PING", "is it up"),),
    password=False,
)

USERS: tuple[User, ...] = (HEALTH, BOT, HCLI_BOT, DISPATCHER, HCLI_DISPATCHER, NIGHT, OWNER, ADMIN)


def vectors(index_name: str) -> dict[str, tuple[Right, ...]]:
    """User → what it needs besides where vectors are kept in the same Redis (8, or Stack): others do not know these commands."""
    names = (VECTORS, index_name, f"{index_name}-*")
    return {
        "dispatcher": (
            reads("HMGET", VECTORS, why="reads the chunk that was found"),
            both("FT._LIST FT.INFO FT.SEARCH", *names, why="looks up by meaning"),
        ),
        "night": (
            without_keys("INFO", "sees whether the module is there"),
            both("HSET HMGET UNLINK", VECTORS, why="writes vectors, and compares some of them"),
            both(
                "FT._LIST FT.INFO FT.SEARCH FT.CREATE FT.ALIASUPDATE FT.DROPINDEX", *names,
                why="makes a release's index, removes those that no release names",
            ),
        ),
        "owner": (
            both("UNLINK", VECTORS, why="`hmem forget` removes what is left over"),
            both("FT._LIST FT.INFO FT.ALIASUPDATE FT.DROPINDEX", *names, why="the same; `hmem release rollback`"),
        ),
    }  # fmt: skip


def reach(user: User, pattern: str) -> str:
    """What a user may do to the keys of a pattern, scripts aside: "", "R", "W" or "RW"."""
    access = {letter for right in user.rights if _has(right.patterns, pattern) for letter in right.access}
    return "".join(letter for letter in "RW" if letter in access)


def _has(patterns: Sequence[str], pattern: str) -> bool:
    return any(one == pattern or (one == keys.ALL and pattern.startswith(one[:-1])) for one in patterns)
