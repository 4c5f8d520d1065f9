"""Every Redis key, in one table. The first nine are the wire contract shared with h-cli's bot; the rest are our own.

Keys are built by the functions below and nowhere else. `{…}` in a pattern is a variable part. A chat id may contain any printable
character, so it always comes last, after a fixed prefix: no id can forge another key.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Key:
    pattern: str
    type: str
    content: str
    writer: str
    reader: str
    expiry: str


# fmt: off
KEYS: tuple[Key, ...] = (
    Key("hcli:tasks", "list",
        "task JSON, taken from the left", "bot, hcli-bot, dispatcher, hcli-dispatcher, owner", "bot, hcli-bot, dispatcher, hcli-dispatcher", "none"),
    Key("hcli:results:{task_id}", "string",
        "signed result JSON", "bot, hcli-bot, dispatcher, hcli-dispatcher, owner", "bot, hcli-bot, dispatcher", "24 h"),
    Key("hcli:memory:{task_id}:user|asst", "string", "turn JSON", "dispatcher, hcli-dispatcher, night, owner", "dispatcher, night", "none"),
    Key("hcli:session:{chat_id}", "string",
        "Claude session UUID; the bot deletes it on /new",
        "bot, hcli-bot, dispatcher, hcli-dispatcher, owner", "dispatcher, hcli-dispatcher", "SESSION_TTL"),
    Key("hcli:session_history:{chat_id}", "list",
        "newest 100 messages {role, content, timestamp}; for a person also name, user_id, chat_type, quote, forward, attachment",
        "hcli-bot, dispatcher, hcli-dispatcher, owner", "hcli-bot, dispatcher, hcli-dispatcher", "24 h"),
    Key("hcli:session_size:{chat_id}", "string",
        "characters in this session", "hcli-bot, dispatcher, hcli-dispatcher, owner", "dispatcher, hcli-dispatcher", "24 h"),
    Key("hcli:pending:{chat_id}", "list", "task ids that the bot waits for", "bot, hcli-bot", "bot, hcli-bot, dispatcher", "the bot's"),
    Key("hcli:stats:{day}", "hash", "counters of a UTC day", "dispatcher, hcli-dispatcher", "hcli-bot, dispatcher, hcli-dispatcher", "48 h"),
    Key("hcli:teach:{chat_id}", "string", "teach mode of h-cli's bot; …:turns: its turns", "hcli-bot, owner", "hcli-bot", "the bot's"),
    Key("hcli:mem:inflight:{worker}", "hash",
        "claim token → task that is claimed and not finished (write-ahead)", "dispatcher, owner", "dispatcher", "none"),
    Key("hcli:mem:workers", "set", "workers that may hold in-flight tasks", "dispatcher", "dispatcher, night", "none"),
    Key("hcli:mem:lease:{worker}", "string",
        "heartbeat of this worker; value: the last forgetting after which it dropped its caches", "dispatcher", "bot, dispatcher, night", "30 s"),
    Key("hcli:mem:busy", "hash",
        "chat id → claim token of the task being answered now: keeps the order within a chat", "dispatcher, owner", "dispatcher", "none"),
    Key("hcli:mem:unmoved", "string",
        "destination of the blocking wait for tasks: it is not a list, so Redis moves nothing there", "dispatcher", "dispatcher", "none"),
    Key("hcli:mem:attempts:{task_id}", "string", "how many workers died while they answered this task", "dispatcher, owner", "dispatcher", "24 h"),
    Key("hcli:mem:done:{task_id}", "string", "digest of the task that was finished under this id", "dispatcher, owner", "dispatcher", "7 days"),
    Key("hcli:mem:dead", "list", "dead letters: unprocessable tasks, and why (newest 10,000)", "dispatcher, owner", "dispatcher", "none"),
    Key("hcli:mem:unconsolidated:{chat_id}", "list", "newest 1,000 turn ids for the day store", "dispatcher, owner", "dispatcher", "none"),
    Key("hcli:mem:chats", "set", "chats with unconsolidated turns, or with a session to be ended", "dispatcher", "dispatcher", "none"),
    Key("hcli:mem:spent:{chat_id}", "hash",
        "session → Claude session id; tokens (estimated) and cost so far", "dispatcher, owner", "dispatcher", "7 days"),
    Key("hcli:mem:consolidating:{chat_id}", "string", "the dispatcher that consolidates this chat now", "dispatcher", "dispatcher", "60 s"),
    Key("hcli:mem:tags", "list",
        "tags in answers that could not be applied yet: JSON {task_id, chat_id, session, said_at, tags}", "dispatcher, owner", "dispatcher", "none"),
    Key("hcli:mem:why:{chat_id}", "list", "JSON of what was injected, of each of the newest 20 answers", "dispatcher, owner", "dispatcher", "7 days"),
    Key("hcli:mem:stats:{day}:{chat_id}", "hash",
        "counters of a chat on a day in CHAT_TIMEZONE; chat 0, which does not exist, has those of all chats",
        "dispatcher, owner", "bot, dispatcher", "32 d"),
    Key("hcli:mem:served", "sorted set",
        "chat → number of its last claim (newest 1,000): the chat served longest ago comes first", "dispatcher", "dispatcher", "none"),
    Key("hcli:mem:cancel:{task_id}", "string", "this task is to be cancelled, even while it runs", "bot, owner", "dispatcher", "1 h"),
    Key("hcli:mem:partial:{task_id}", "string",
        "signed JSON of an answer that is being written: {chat_id, number, text, doing, tool, hmac}", "dispatcher, owner", "bot", "60 s"),
    Key("hcli:mem:bot:waiting", "hash",
        "task id → JSON: where its answer goes, who asked, and how much of it is delivered", "bot, dispatcher, owner", "bot, dispatcher", "none"),
    Key("hcli:mem:bot:seen:{task_id}", "string",
        "this update was processed; under <chat>-<message>: JSON {task, digest, told}, for its edits; under album-…: its notice was sent; under "
        "press-…: this button was just pressed; under reply-…: the command that a reply is; under row-…: the message with the buttons of the answer; "
        "under approval-…: the message that asks about a tool",
        "bot, owner", "bot", "2 days"),
    Key("hcli:mem:bot:arriving", "hash",
        "task id → JSON of a message whose files are being fetched, or that came after such a one: its task and which files of Telegram it names",
        "bot, owner", "bot", "none"),
    Key("hcli:mem:media", "sorted set", "size:SHA-256 of each file below → when it expires (POSIX seconds)",
        "bot, dispatcher, owner", "bot, dispatcher", "none"),
    Key("hcli:mem:media:{sha256}", "string", "a file that came with a message, or that Claude made, unless MEDIA_DIR is set",
        "bot, dispatcher, owner", "bot, dispatcher", "24 h"),
    Key("hcli:mem:kept", "hash",
        "task id:SHA-256 of each file below → size:POSIX seconds:chat id", "dispatcher, night, owner", "dispatcher, night", "none"),
    Key("hcli:mem:kept:{task_id}:{sha256}", "string",
        "a file to be kept for ever, until it is verified in the archive (KEEP_MEDIA)", "dispatcher, night, owner", "dispatcher, night", "none"),
    Key("hcli:mem:bot:model:{chat_id}", "string", "the model that a chat chose", "bot", "bot", "none"),
    Key("hcli:mem:bot:new:{chat_id}", "string",
        "/new: the dispatcher ends the conversation before it answers again", "bot, dispatcher", "dispatcher", "24 h"),
    Key("hcli:mem:patience", "string",
        "seconds that a bot with its own time limit (h-cli's) waits for an answer", "dispatcher", "dispatcher", "7 days"),
    Key("hcli:mem:bot:owner", "string", "the bot process that serves this Redis", "bot", "bot", "30 s"),
    Key("hcli:mem:bot:told:{chat_id}", "string", "this stranger was told that the bot is private", "bot", "none", "24 h"),
    Key("hcli:mem:guests", "hash",
        "chat id → JSON {name, since, by, removed}: chats that an owner has allowed from a chat, beside ALLOWED_CHATS",
        "bot, owner", "bot, dispatcher", "none"),
    Key("hcli:mem:invite:{hash}", "string",
        "under the SHA-256 of an invitation's code, which is stored nowhere: JSON {by, at}", "bot, owner", "bot", "24 h, or as /invite says"),
    Key("hcli:mem:bot:tries:{chat_id}", "string", "how many wrong codes this stranger has sent", "bot", "bot", "1 h"),
    Key("hcli:mem:outbox", "list",
        "messages for the bot to send without a question: JSON {id, chat_id, text, created_at}; photo: with the picture of the nights; "
        "digest: it repeats what was said; buttons: below it, for user_id", "bot, dispatcher, owner", "bot, dispatcher", "none"),
    Key("hcli:mem:reminded:{memory}", "string",
        "this memory's (id and time of creation) reminder is in the outbox; schedule-…: this occurrence was sent or asked",
        "dispatcher", "none", "30 days"),
    Key("hcli:mem:chat:{chat_id}", "hash", "what a chat has set for itself: timezone, language", "bot, dispatcher, owner", "bot, dispatcher", "none"),
    Key("hcli:mem:approvals:open", "hash",
        "id → signed JSON of a question whether Claude may use a tool, and how it ended: {chat_id, user_id, task_id, tool, text, ends, verdict, "
        "who, hmac}",
        "bot, dispatcher, owner", "bot, dispatcher", "none"),
    Key("hcli:mem:approval:{id}", "string",
        "its decision, signed: {verdict, chat_id, user_id, name, hmac}; the first one counts", "bot, dispatcher, owner", "bot, dispatcher", "1 h"),
    Key("hcli:mem:approvals", "list",
        "newest 1,000 such decisions: {at, id, chat_id, user_id, task_id, tool, input_sha256, input, decision, by, name}",
        "dispatcher, owner", "none", "none"),
    Key("hcli:mem:release", "hash", "worker → run of the release it serves, 0 for none", "dispatcher", "bot, night", "none"),
    Key("hcli:mem:tombstones", "list", "tombstone JSON: which turns to forget", "dispatcher, owner", "dispatcher, night", "none"),
    Key("hcli:mem:forgotten", "string",
        "number of the last hmem forget, raised when everything is hidden and again when all layers are empty: a dispatcher drops its caches "
        "when it changes",
        "owner", "dispatcher", "none"),
    Key("hcli:mem:selection:{digest}:{chat_id}", "string",
        "JSON of what a person was shown by /forget and may confirm: user, kind, before, ids of the turns", "dispatcher", "dispatcher", "10 min"),
    Key("hcli:mem:night:owner", "string", "lease of the running night, with its fencing token", "night", "night", "90 s"),
    Key("hcli:mem:night:run", "string", "counter of runs and fencing tokens", "night", "night", "none"),
    Key("hcli:mem:night:last", "string", "JSON of the last good night", "night", "bot, dispatcher", "none"),
    Key("hcli:mem:night:failed", "string",
        "JSON of the failure after the last good night: run, step, error, exit_code, at", "night", "dispatcher", "none"),
    Key("hcli:mem:night:report", "string", "JSON of the last 14 nights, for the morning report", "night", "bot, dispatcher", "14 days"),
    Key("hcli:mem:night:picture", "string", "PNG of the last 14 nights", "night", "bot, dispatcher", "14 days"),
    Key("hcli:mem:alarms", "hash",
        "alarm → JSON {since, sent, well}: since when it lasts, when the owner was last told, since when all is well",
        "dispatcher", "dispatcher", "none"),
    Key("hcli:mem:morning", "hash",
        "report → day of the last morning report; heartbeat → night that HEARTBEAT_URL was told of; …-until: the dispatcher that does it now",
        "dispatcher", "dispatcher", "none"),
    Key("hcli:mem:digests", "hash",
        "chat id → day of its last digest, for each chat that wants one", "bot, dispatcher, owner", "bot, dispatcher", "none"),
    Key("hcli:mem:claude", "hash",
        "first, last → times of the errors since Claude's last answer, in POSIX seconds", "dispatcher", "dispatcher", "none"),
    Key("hcli:mem:journal", "hash",
        "journal id → number of an entry up to which that journal (JOURNAL) has followed this Redis: less than it remembers means that Redis was "
        "lost or put back; …:state: JSON {place, at, entries, since, error, copied}; waited: when a replica was last waited for",
        "dispatcher", "dispatcher, night", "none"),
    Key("hcli:mem:flushed:{run}", "list",
        "turns that a night has deleted, for the journal: SHA-1 of the value, a space, the key", "night", "dispatcher", "7 days"),
    Key("hcli:mem:format", "string",
        "JSON {format, program, release}: the format of our keys, the version of the dispatcher that wrote it, the format of releases that it reads",
        "dispatcher", "bot, dispatcher, night", "none"),
    Key("hcli:mem:vectors:release:{index}", "hash",
        "vectors of a release on a Redis 8: chat:{chat_id} → JSON of the parts that the chat has; release → JSON of its totals",
        "night, owner", "dispatcher, night", "none"),
    Key("hcli:mem:vectors:part:{index}:{chat}:{n}", "vector set",
        "some vectors of one chat (SHA-256 of its id) under the ids of their chunks, written by the build of that index and shared by releases",
        "night, owner", "dispatcher, night", "none"),
    Key("hcli:mem:vectors:current:{index_name}", "string",
        "the index of the current release, for other programs", "night, owner", "night", "none"),
)
# fmt: on

#: Every key of this system, as a pattern.
ALL = "hcli:*"
TASKS = "hcli:tasks"
FORMAT = "hcli:mem:format"
MEMORY_PREFIX = "hcli:memory:"
WORKERS = "hcli:mem:workers"
BUSY = "hcli:mem:busy"
DEAD = "hcli:mem:dead"
UNMOVED = "hcli:mem:unmoved"
RELEASE = "hcli:mem:release"
TOMBSTONES = "hcli:mem:tombstones"
FORGOTTEN = "hcli:mem:forgotten"
CHATS = "hcli:mem:chats"
TAGS = "hcli:mem:tags"
OUTBOX = "hcli:mem:outbox"
GUESTS = "hcli:mem:guests"
SERVED = "hcli:mem:served"
BOT_WAITING = "hcli:mem:bot:waiting"
BOT_OWNER = "hcli:mem:bot:owner"
BOT_ARRIVING = "hcli:mem:bot:arriving"
MEDIA = "hcli:mem:media"
KEPT = "hcli:mem:kept"
PATIENCE = "hcli:mem:patience"
NIGHT_OWNER = "hcli:mem:night:owner"
NIGHT_RUN = "hcli:mem:night:run"
NIGHT_LAST = "hcli:mem:night:last"
NIGHT_FAILED = "hcli:mem:night:failed"
NIGHT_REPORT = "hcli:mem:night:report"
NIGHT_PICTURE = "hcli:mem:night:picture"
ALARMS = "hcli:mem:alarms"
MORNING = "hcli:mem:morning"
DIGESTS = "hcli:mem:digests"
APPROVALS_OPEN = "hcli:mem:approvals:open"
APPROVALS = "hcli:mem:approvals"
CLAUDE_ERRORS = "hcli:mem:claude"
JOURNAL = "hcli:mem:journal"

#: Stands for all chats; no record can have it as its chat id.
EVERY_CHAT = "0"
CHAT_STATS_PREFIX = "hcli:mem:stats:"
SELECTION_PREFIX = "hcli:mem:selection:"
VECTOR_PARTS_PREFIX = "hcli:mem:vectors:part:"
#: Turns and conversations, and hardly anything else: one pass of SCAN.
FOLLOWED = "hcli:[ms]e[ms][os]*"
SESSION_PREFIXES = ("hcli:session:", "hcli:session_history:", "hcli:session_size:")
#: In the hash of the journals: when a replica was last waited for.
WAITED = "waited"

#: Expiries in seconds.
RESULT_TTL_SECONDS = 86_400
HISTORY_TTL_SECONDS = 86_400
STATS_TTL_SECONDS = 172_800
#: Those of a chat, for /usage: 32 days.
CHAT_STATS_TTL_SECONDS = 32 * 86_400
DONE_TTL_SECONDS = 7 * 86_400
ATTEMPTS_TTL_SECONDS = 86_400
LEASE_TTL_SECONDS = 30
SPENT_TTL_SECONDS = 7 * 86_400
CONSOLIDATING_TTL_SECONDS = 60
#: What was injected for each answer: of so many, for so long.
WHY_LENGTH, WHY_TTL_SECONDS = 20, 7 * 86_400
REMINDED_TTL_SECONDS = 30 * 86_400
NIGHT_LEASE_TTL_SECONDS = 90
NIGHT_REPORT_TTL_SECONDS = 14 * 86_400
CANCEL_TTL_SECONDS = 3_600
PARTIAL_TTL_SECONDS = 60
PATIENCE_TTL_SECONDS = 7 * 86_400
BOT_SEEN_TTL_SECONDS = 2 * 86_400
BOT_OWNER_TTL_SECONDS = 30
SELECTION_TTL_SECONDS = 600
BOT_TOLD_TTL_SECONDS = 86_400
BOT_TRIES_TTL_SECONDS = 3_600
APPROVAL_TTL_SECONDS = 3_600
FLUSHED_TTL_SECONDS = 7 * 86_400

#: Lengths of bounded lists.
HISTORY_LENGTH = 100
DEAD_LENGTH = 10_000
UNCONSOLIDATED_LENGTH = 1_000
SERVED_LENGTH = 1_000
APPROVALS_LENGTH = 1_000


def result(task_id: str) -> str:
    return f"hcli:results:{task_id}"


def turn(task_id: str, role: str) -> str:
    return f"{MEMORY_PREFIX}{task_id}:{role}"


def session(chat_id: str) -> str:
    return f"hcli:session:{chat_id}"


def history(chat_id: str) -> str:
    return f"hcli:session_history:{chat_id}"


def size(chat_id: str) -> str:
    return f"hcli:session_size:{chat_id}"


def stats(day: str) -> str:
    return f"hcli:stats:{day}"


def chat_stats(day: str, chat_id: str) -> list[str]:
    """Keys of the counters of a day in CHAT_TIMEZONE: of the chat, and of all chats together."""
    return [f"{CHAT_STATS_PREFIX}{day}:{one}" for one in (chat_id, EVERY_CHAT)]


def inflight(worker: str) -> str:
    return f"hcli:mem:inflight:{worker}"


def lease(worker: str) -> str:
    return f"hcli:mem:lease:{worker}"


def attempts(task_id: str) -> str:
    return f"hcli:mem:attempts:{task_id}"


def done(task_id: str) -> str:
    return f"hcli:mem:done:{task_id}"


def unconsolidated(chat_id: str) -> str:
    return f"hcli:mem:unconsolidated:{chat_id}"


def conversation(chat_id: str) -> list[str]:
    """The keys that are deleted when a conversation ends: its list first."""
    return [name(chat_id) for name in (history, session, size, spent, why)]


def spent(chat_id: str) -> str:
    return f"hcli:mem:spent:{chat_id}"


def consolidating(chat_id: str) -> str:
    return f"hcli:mem:consolidating:{chat_id}"


def why(chat_id: str) -> str:
    return f"hcli:mem:why:{chat_id}"


def reminded(memory: str) -> str:
    return f"hcli:mem:reminded:{memory}"


def chat_settings(chat_id: str) -> str:
    return f"hcli:mem:chat:{chat_id}"


def pending(chat_id: str) -> str:
    return f"hcli:pending:{chat_id}"


def teach(chat_id: str) -> str:
    return f"hcli:teach:{chat_id}"


def teach_turns(chat_id: str) -> str:
    return f"hcli:teach:{chat_id}:turns"


def cancel(task_id: str) -> str:
    return f"hcli:mem:cancel:{task_id}"


def partial(task_id: str) -> str:
    return f"hcli:mem:partial:{task_id}"


def bot_seen(task_id: str) -> str:
    return f"hcli:mem:bot:seen:{task_id}"


def bot_model(chat_id: str) -> str:
    return f"hcli:mem:bot:model:{chat_id}"


def bot_new(chat_id: str) -> str:
    return f"hcli:mem:bot:new:{chat_id}"


def media(sha256: str) -> str:
    return f"hcli:mem:media:{sha256}"


def kept(task_id: str, sha256: str) -> str:
    return f"{KEPT}:{task_id}:{sha256}"


def invite(code_hash: str) -> str:
    return f"hcli:mem:invite:{code_hash}"


def bot_tries(chat_id: str) -> str:
    return f"hcli:mem:bot:tries:{chat_id}"


def approval(approval_id: str) -> str:
    return f"hcli:mem:approval:{approval_id}"


def flushed(run: int | str) -> str:
    return f"hcli:mem:flushed:{run}"


def journal_state(journal: str) -> str:
    """A field of the hash of the journals."""
    return f"{journal}:state"


def bot_told(chat_id: str) -> str:
    return f"hcli:mem:bot:told:{chat_id}"


def selection(digest: str, chat_id: str) -> str:
    return f"{SELECTION_PREFIX}{digest}:{chat_id}"


def vector_release(index: str) -> str:
    return f"hcli:mem:vectors:release:{index}"


def vector_part(index: str, chat: str, number: int) -> str:
    """`chat` is a hash of the chat id."""
    return f"{VECTOR_PARTS_PREFIX}{index}:{chat}:{number}"


def vector_alias(index_name: str) -> str:
    return f"hcli:mem:vectors:current:{index_name}"
