"""Every Redis key (the table of them is in keys.toml). The first nine are the wire contract shared with h-cli's bot; the rest are our own.

Keys are built by the functions below and nowhere else. A chat id may contain any printable character, so it always comes last, after a
fixed prefix: no id can forge another key.
"""

from __future__ import annotations

from collections.abc import Callable

#: Every key of this system, as a pattern.
ALL = "hcli:*"
TASKS = "hcli:tasks"
FORMAT = "hcli:mem:format"
MEMORY_PREFIX = "hcli:memory:"
WORKERS = "hcli:mem:workers"
BUSY = "hcli:mem:busy"
DEAD = "hcli:mem:dead"
HOLDS = "hcli:mem:holds"
UNMOVED = "hcli:mem:unmoved"
RELEASE = "hcli:mem:release"
TOMBSTONES = "hcli:mem:tombstones"
FORGOTTEN = "hcli:mem:forgotten"
CHATS = "hcli:mem:chats"
TAGS = "hcli:mem:tags"
SERVED = "hcli:mem:served"
#: Groups that have become supergroups (dispatcher/queue/chats.py).
MOVED = "hcli:mem:moved"
MEDIA = "hcli:mem:media"
KEPT = "hcli:mem:kept"
IMPORTS = "hcli:mem:imports"
NIGHT_OWNER = "hcli:mem:night:owner"
NIGHT_RUN = "hcli:mem:night:run"
NIGHT_LAST = "hcli:mem:night:last"
NIGHT_FAILED = "hcli:mem:night:failed"
NIGHT_REPORT = "hcli:mem:night:report"
FEATURES = "hcli:mem:features"
ASKED = "hcli:mem:writing:asked"
WRITTEN = "hcli:mem:writing:written"
DREAMS = "hcli:mem:dreams"

SELECTION_PREFIX = "hcli:mem:selection:"
EVENT_PREFIX = "hcli:mem:event:"

#: Expiries in seconds.
RESULT_TTL_SECONDS = 86_400
HISTORY_TTL_SECONDS = 86_400
STATS_TTL_SECONDS = 172_800
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
BOT_SEEN_TTL_SECONDS = 2 * 86_400
BOT_OWNER_TTL_SECONDS = 30
SELECTION_TTL_SECONDS = 600
BOT_TOLD_TTL_SECONDS = 86_400
FEATURES_TTL_SECONDS = 7 * 86_400
WRITING_TTL_SECONDS = 2 * 86_400
DREAMS_TTL_SECONDS = 14 * 86_400

#: Lengths of bounded lists.
HISTORY_LENGTH = 100
DEAD_LENGTH = 10_000
UNCONSOLIDATED_LENGTH = 1_000
SERVED_LENGTH = 1_000


def _each(prefix: str) -> Callable[[str], str]:
    """Makes the keys of this prefix: a task's, a chat's, …, by what follows it."""
    return lambda name: f"{prefix}{name}"


#: Of a task.
result = _each("hcli:results:")
attempts = _each("hcli:mem:attempts:")
done = _each("hcli:mem:done:")
cancel = _each("hcli:mem:cancel:")
partial = _each("hcli:mem:partial:")
bot_seen = _each("hcli:mem:bot:seen:")
#: Of a chat.
session = _each("hcli:session:")
history = _each("hcli:session_history:")
size = _each("hcli:session_size:")
pending = _each("hcli:pending:")
teach = _each("hcli:teach:")
unconsolidated = _each("hcli:mem:unconsolidated:")
consolidating = _each("hcli:mem:consolidating:")
spent = _each("hcli:mem:spent:")
why = _each("hcli:mem:why:")
chat_settings = _each("hcli:mem:chat:")
bot_new = _each("hcli:mem:bot:new:")
bot_told = _each("hcli:mem:bot:told:")
#: Of a bot.
outbox = _each("hcli:mem:outbox:")
bot_waiting = _each("hcli:mem:bot:waiting:")
bot_arriving = _each("hcli:mem:bot:arriving:")
bot_owner = _each("hcli:mem:bot:owner:")
#: Of a dispatcher.
inflight = _each("hcli:mem:inflight:")
lease = _each("hcli:mem:lease:")
#: Of a UTC day, a memory, the SHA-256 of a file, an index.
stats = _each("hcli:stats:")
reminded = _each("hcli:mem:reminded:")
media = _each("hcli:mem:media:")
handed_import = _each(f"{IMPORTS}:")
vector_release = _each("hcli:mem:vectors:release:")


def turn(task_id: str, role: str) -> str:
    return f"{MEMORY_PREFIX}{task_id}:{role}"


def conversation(chat_id: str) -> list[str]:
    """The keys that are deleted when a conversation ends: its list first."""
    return [name(chat_id) for name in (history, session, size, spent, why)]


def teach_turns(chat_id: str) -> str:
    return f"hcli:teach:{chat_id}:turns"


def kept(task_id: str, sha256: str) -> str:
    return f"{KEPT}:{task_id}:{sha256}"


def selection(digest: str, chat_id: str) -> str:
    return f"{SELECTION_PREFIX}{digest}:{chat_id}"


def event(kind: str, name: str) -> str:
    return f"{EVENT_PREFIX}{kind}:{name}"


def vector_part(chat: str, digest: str) -> str:
    """`chat` is a hash of the chat id, `digest` one of the part's vectors."""
    return f"hcli:mem:vectors:part:{chat}:{digest}"
