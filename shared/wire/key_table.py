"""The table of all Redis keys, from which rights, and documents follow: type, content, expiry. Who writes and reads them are rights (users.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shared.hooks import feature_modules


@dataclass(frozen=True)
class Key:
    pattern: str
    type: str
    content: str
    expiry: str


@dataclass(frozen=True)
class TableOfChats:
    """A hash with a field for each chat, of what belongs to the chat's settings: it is archived, put back, and forgotten with them.

    `archived`: what the archive has of a value (RecordRefused: nothing); `restored`: the value that is put back where there is none.
    """

    key: str
    archived: Callable[[bytes], Any]
    restored: Callable[[Any], bytes]


# fmt: off
#: Those of the core.
KEYS: tuple[Key, ...] = (
    Key("hcli:tasks", "list", "task JSON, taken from the left", "none"),
    Key("hcli:results:{task_id}", "string", "signed result JSON", "24 h"),
    Key("hcli:memory:{task_id}:user|asst", "string", "turn JSON", "none"),
    Key("hcli:session:{chat_id}", "string", "Claude session UUID; the bot deletes it on /new", "SESSION_TTL"),
    Key("hcli:session_history:{chat_id}", "list",
        "newest 100 messages {role, content, timestamp}; for a person also name, user_id, chat_type, quote, forward, attachment", "24 h"),
    Key("hcli:session_size:{chat_id}", "string", "characters in this session", "24 h"),
    Key("hcli:pending:{chat_id}", "list", "task ids that the bot waits for", "the bot's"),
    Key("hcli:stats:{day}", "hash", "counters of a UTC day", "48 h"),
    Key("hcli:teach:{chat_id}", "string", "teach mode of h-cli's bot; …:turns: its turns", "the bot's"),
    Key("hcli:mem:inflight:{worker}", "hash", "claim token → task that is claimed and not finished (write-ahead)", "none"),
    Key("hcli:mem:workers", "set", "workers that may hold in-flight tasks", "none"),
    Key("hcli:mem:lease:{worker}", "string", "heartbeat of this worker; value: the last forgetting after which it dropped its caches", "30 s"),
    Key("hcli:mem:busy", "hash", "chat id → claim token of the task being answered now: keeps the order within a chat", "none"),
    Key("hcli:mem:unmoved", "string", "destination of the blocking wait for tasks: it is not a list, so Redis moves nothing there", "none"),
    Key("hcli:mem:attempts:{task_id}", "string", "how many workers died while they answered this task", "24 h"),
    Key("hcli:mem:done:{task_id}", "string", "digest of the task that was finished under this id", "7 days"),
    Key("hcli:mem:dead", "list", "dead letters: unprocessable tasks, and why (newest 10,000)", "none"),
    Key("hcli:mem:unconsolidated:{chat_id}", "list", "newest 1,000 turn ids for the day store", "none"),
    Key("hcli:mem:chats", "set", "chats with unconsolidated turns, or with a session to be ended", "none"),
    Key("hcli:mem:spent:{chat_id}", "hash", "session → Claude session id; tokens (estimated) and cost so far", "7 days"),
    Key("hcli:mem:consolidating:{chat_id}", "string", "the dispatcher that consolidates this chat now", "60 s"),
    Key("hcli:mem:tags", "list", "tags in answers that could not be applied yet: JSON {task_id, chat_id, session, said_at, tags}", "none"),
    Key("hcli:mem:why:{chat_id}", "list", "JSON of what was injected, of each of the newest 20 answers", "7 days"),
    Key("hcli:mem:served", "sorted set", "chat → number of its last claim (newest 1,000): the chat served longest ago comes first", "none"),
    Key("hcli:mem:cancel:{task_id}", "string", "this task is to be cancelled, even while it runs", "1 h"),
    Key("hcli:mem:partial:{task_id}", "string", "signed JSON of an answer that is being written: {chat_id, number, text, doing, tool, hmac}", "60 s"),
    Key("hcli:mem:bot:waiting:{bot}", "hash", "task id → JSON: where its answer goes, who asked, and how much of it is delivered", "none"),
    Key("hcli:mem:bot:seen:{task_id}", "string",
        "this update was processed; under <chat>-<message>: JSON {task, digest, told}, for its edits; under album-…: its notice was sent; under "
        "press-…: this button was just pressed; under reply-…: the command that a reply is; under row-…: the message with the buttons of the answer; "
        "under approval-…: the message that asks about a tool; under me-…: who the bot is, by its own account; under menus-…: which menus were set",
        "2 days"),
    Key("hcli:mem:bot:arriving:{bot}", "hash",
        "task id → JSON of a message whose files are being fetched, or that came after such a one: its task and which files it names",
        "none"),
    Key("hcli:mem:media", "sorted set", "size:SHA-256 of each file below → when it expires (POSIX seconds)", "none"),
    Key("hcli:mem:media:{sha256}", "string", "a file that came with a message, or that Claude made", "24 h"),
    Key("hcli:mem:kept", "hash", "task id:SHA-256 of each file below → size:POSIX seconds:chat id", "none"),
    Key("hcli:mem:kept:{task_id}:{sha256}", "string", "a file to be kept for ever, until it is verified in the archive (KEEP_MEDIA)", "none"),
    Key("hcli:mem:bot:model:{chat_id}", "string", "the model that a chat chose", "none"),
    Key("hcli:mem:bot:new:{chat_id}", "string", "/new: the dispatcher ends the conversation before it answers again", "24 h"),
    Key("hcli:mem:bot:owner:{bot}", "string", "the process that is this bot", "30 s"),
    Key("hcli:mem:bot:told:{chat_id}", "string", "this stranger was told that the bot is private", "24 h"),
    Key("hcli:mem:outbox:{bot}", "list",
        "messages for the bot to send without a question: JSON {id, chat_id, text, created_at}; "
        "digest: it repeats what was said; buttons: below it, for user_id", "none"),
    Key("hcli:mem:reminded:{memory}", "string",
        "this memory's (id and time of creation) reminder is in the outbox; schedule-…: this occurrence was sent or asked", "30 days"),
    Key("hcli:mem:chat:{chat_id}", "hash", "what a chat has set for itself: timezone, language; access: what it may have, if that is less", "none"),
    Key("hcli:mem:release", "hash", "worker → run of the release it serves, 0 for none", "none"),
    Key("hcli:mem:tombstones", "list", "tombstone JSON: which turns to forget", "none"),
    Key("hcli:mem:forgotten", "string",
        "number of the last hmem forget, raised when everything is hidden and again when all layers are empty: a dispatcher drops its caches "
        "when it changes", "none"),
    Key("hcli:mem:selection:{digest}:{chat_id}", "string",
        "JSON of what a person was shown by /forget and may confirm: user, kind, before, ids of the turns", "10 min"),
    Key("hcli:mem:event:{kind}:{id}", "string",
        "JSON of what changed beside turns, until the night has archived it: {kind, id, chat_id, number, what, at, state}", "none"),
    Key("hcli:mem:night:owner", "string", "lease of the running night, with its fencing token", "90 s"),
    Key("hcli:mem:night:run", "string", "counter of runs and fencing tokens", "none"),
    Key("hcli:mem:night:last", "string", "JSON of the last good night", "none"),
    Key("hcli:mem:night:failed", "string", "JSON of the failure after the last good night: run, step, error, exit_code, at", "none"),
    Key("hcli:mem:night:report", "string", "JSON of the last 14 nights, for the morning report", "14 days"),
    Key("hcli:mem:writing:asked", "hash", "request → JSON of what the night wants Claude to write: {model, prompt, at}", "2 days"),
    Key("hcli:mem:writing:written", "hash", "request → JSON of what Claude wrote: {text} or {error}", "2 days"),
    Key("hcli:mem:dreams", "hash",
        "run:chat id → JSON of what puts the chat's memories in order, or asks Claude for it: {run, chat_id, writer, turns, notes, prompt, answer}",
        "14 days"),
    Key("hcli:mem:features", "hash", "feature → how often it has failed, and its most recent error", "7 days"),
    Key("hcli:mem:format", "string",
        "JSON {format, program, release}: the format of our keys, the version of the dispatcher that wrote it, the format of releases that it reads",
        "none"),
    Key("hcli:mem:vectors:release:{index}", "hash",
        "vectors of a release on a Redis 8: chat:{chat_id} → JSON of the parts that the chat has; release → JSON of its totals", "none"),
    Key("hcli:mem:vectors:part:{index}:{chat}:{n}", "vector set",
        "some vectors of one chat (SHA-256 of its id) under the ids of their chunks, written by the build of that index and shared by releases",
        "none"),
    Key("hcli:mem:vectors:current:{index_name}", "string", "the index of the current release, for other programs", "none"),
)
# fmt: on


def all_keys() -> tuple[Key, ...]:
    """The keys of the core and of the features."""
    return (*KEYS, *(key for module in feature_modules("keys") for key in module.KEYS))


def chat_tables() -> dict[str, TableOfChats]:
    """What it is called in the archive → the table."""
    found = [getattr(module, "CHAT_TABLES", {}) for module in feature_modules("keys")]
    return {name: table for tables in found for name, table in tables.items()}
