"""Every Redis key (the table of them is in keys.toml). The first nine are the wire contract shared with h-cli's bot; the rest are our own.

Keys are built by the functions below and nowhere else. `{…}` in a pattern is a variable part. A chat id may contain any printable
character, so it always comes last, after a fixed prefix: no id can forge another key.
"""

from __future__ import annotations

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


def bot_waiting(bot: str) -> str:
    return f"hcli:mem:bot:waiting:{bot}"


def bot_arriving(bot: str) -> str:
    return f"hcli:mem:bot:arriving:{bot}"


def bot_owner(bot: str) -> str:
    return f"hcli:mem:bot:owner:{bot}"


#: Groups that have become supergroups (dispatcher/queue/chats.py).
MOVED = "hcli:mem:moved"


def outbox(bot: str) -> str:
    return f"hcli:mem:outbox:{bot}"


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


def handed_import(sha256: str) -> str:
    return f"{IMPORTS}:{sha256}"


def bot_told(chat_id: str) -> str:
    return f"hcli:mem:bot:told:{chat_id}"


def selection(digest: str, chat_id: str) -> str:
    return f"{SELECTION_PREFIX}{digest}:{chat_id}"


def event(kind: str, name: str) -> str:
    return f"{EVENT_PREFIX}{kind}:{name}"


def vector_release(index: str) -> str:
    return f"hcli:mem:vectors:release:{index}"


def vector_part(chat: str, digest: str) -> str:
    """`chat` is a hash of the chat id, `digest` one of the part's vectors."""
    return f"hcli:mem:vectors:part:{chat}:{digest}"
