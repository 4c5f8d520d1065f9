"""The faults of tests/dispatcher/health/test_broken_on_purpose.py: how each is made (breaking.py), and what has to be said of it.

The last column is the chat's. Where memory alone is broken, the chat gets its answer: no memory is not no service.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.broken import breaking
from tests.support.broken.installation import ANSWER


@dataclass(frozen=True)
class Doctor:
    """The finding: the name of its check, its code (0: no fault for the doctor), and patterns of the sentence and of what to do."""

    check: str
    code: int
    sentence: str
    fix: str


@dataclass(frozen=True)
class Answer:
    """What a command ends with, and a pattern of what it says; of the chat, what the person gets."""

    code: int = 0
    pattern: str = ""


ANSWERED, UNANSWERED = Answer(0, ANSWER), Answer(22, "No answer within .*hmem run")


@dataclass(frozen=True)
class Fault:
    """`start`: when the dispatcher is started (before it is broken, after, by the fault itself, or never); `patience`: seconds the chat waits."""

    name: str
    breaks: breaking.Break
    doctor: Doctor
    status: Answer = Answer()
    chat: Answer = ANSWERED
    command: tuple[str, ...] = ()  # one that meets it
    said: Answer = Answer()  # what that one says
    start: str = "before"
    patience: float = 30.0


_STATUS_RELEASE = "hmem release rollback"
_START = "systemctl start hmem-dispatcher"

FAULTS: tuple[Fault, ...] = (
    Fault(
        "no dispatcher runs, and ten messages wait", lambda host: breaking.queue(host, 10),
        Doctor("dispatcher", 42, "No dispatcher.*10 messages wait, the first for 1[0-9] minutes, and no dispatcher answers", _START),
        Answer(42, "10 messages wait"), UNANSWERED, start="never", patience=1,
    ),
    Fault(
        "the dispatcher stands still, and three messages wait", breaking.stopped,
        Doctor("dispatcher", 43, "is alive but takes nothing from the queue: 3 messages wait", "systemctl restart hmem-dispatcher"),
        Answer(43, "takes nothing from the queue.*restart"), UNANSWERED, patience=1,
    ),
    Fault(
        "the archive cannot be written", breaking.closes(lambda host: host.archive, 0o500),
        Doctor("night dir", 15, "archive cannot be written", r"chmod u\+rwx"),
        command=("hmem-night", "run"), said=Answer(15, "access is denied"),
    ),
    Fault(
        "an archive segment is damaged", breaking.damage_segment, Doctor("archive", 14, "seg-1.jsonl is damaged", "verify --repair"),
        command=("hmem-night", "status"), said=Answer(14, "seg-1.jsonl is damaged.*verify --repair"),
    ),
    Fault(
        "no good night for 40 hours", breaking.stale,
        Doctor("night", 21, "40 hours old.*newer turns are recalled from the day store only", "hmem-night status.*hmem-night run"),
        Answer(21, "40 hours old.*hmem-night run"),
    ),
    Fault(
        "a dead letter", breaking.dead_letter, Doctor("dead letters", 46, "1 message is unanswered in the dead letters", "hmem dead"),
        Answer(0, "1 dead letters"),
    ),
    Fault(
        "releases, but no current one", lambda host: (host.memory_dir / "current").unlink(),
        Doctor("release", 16, "current is missing though there are releases", "hmem release rollback"),
        Answer(16, f"current is missing.*{_STATUS_RELEASE}"),
    ),
    Fault(
        "the release is damaged", breaking.damaged_release, Doctor("release", 16, "lexical/1.sqlite was changed", "hmem-night run"),
        Answer(16, f"lexical/1.sqlite is missing or was changed.*{_STATUS_RELEASE}"), start="after",
    ),
    Fault(
        "the memory directory is not mounted", breaking.environment(HMEM_MEMORY_DIR="/nowhere/memory"),
        Doctor("release", 37, "/nowhere/memory is missing", "mount it"), start="after",
    ),
    Fault(
        "Redis is down", breaking.redis_down, Doctor("redis", 11, "does not answer", "Start it"), Answer(11, "does not answer.*Start it"),
        Answer(11, "does not answer.*Start it"), patience=2,
    ),
    Fault(
        "Redis writes no append-only file", breaking.config(appendonly="no", save="3600 1"),
        Doctor("persistence", 32, "snapshots only.*lost in a crash", "appendonly yes"),
    ),
    Fault(
        "the password of Redis is wrong", breaking.wrong_password, Doctor("redis", 11, "refuses us: [^.]*[.]$", "user and password in REDIS_URL"),
        Answer(11, "refuses us.*REDIS_URL"), Answer(11, "refuses us.*REDIS_URL"), start="after", patience=2,
    ),
    Fault(
        "Claude is not logged in", breaking.logged_out, Doctor("login", 35, "not logged in", "log in"),
        chat=Answer(69, "not logged in, and my owner has to log me in. Please tell my owner"), start="after",
    ),
    Fault(
        "Claude is gone", breaking.claude_gone, Doctor("claude", 12, "not installed or not executable", "scripts/setup --with-claude"),
        chat=Answer(69, "the Claude CLI cannot be started, and my owner has to install it again.*tell my owner"), start="itself",
    ),
    Fault(
        "the chat's directory is closed", breaking.closed_chat, Doctor("state", 39, "chats/9912 cannot be written", "chown"),
        chat=Answer(69, "this chat's directory cannot be used .Permission denied., and my owner has to check it .*tell my owner"),
    ),
    Fault(
        "the disk of the state directory is full", breaking.full_disk, Doctor("state", 40, "its disk is full", "Free some space"), start="itself",
    ),
    Fault(
        "the day store cannot be reached", breaking.environment(DAY_STORE_URL="postgresql://hmem:secret@127.0.0.1:1/hmem"),
        Doctor("store", 27, "does not answer", "Check that it is running"), start="after",
    ),
    Fault(
        "the day store is damaged", breaking.store_damaged,
        Doctor("store", 27, "day-store.sqlite is damaged", "Restore your backup of it, or move it away"),
        start="after",
    ),
    Fault(
        "the owner's key is lost", breaking.owner_key_missing, Doctor("owner key", 10, "no owner's key at .*owner.key", "Restore it from a copy"),
    ),
    Fault(
        "all may read the settings file with a secret in it", breaking.readable_settings,
        Doctor("settings", 10, "contains secrets .RESULT_HMAC_KEY., and every user of this host may read it", "chmod 600"),
    ),
    Fault(
        "the archive's mirror is not mounted", lambda host: host.environment.update(ARCHIVE_MIRROR=str(host.root / "not-mounted")),
        Doctor("mirror", 26, "not-mounted does not exist, so nights delete nothing", "Mount it"),
        command=("hmem-night", "run"), said=Answer(26, "mirror .*not-mounted cannot be used.*Mount"),
    ),
    Fault(
        "the embedders of day and release differ", breaking.other_embedder,
        Doctor("vectors", 36, "differs from the one that release 3 was indexed with", "EMBED_MODEL=all-minilm .*night backfill archive --reembed"),
        start="after",
    ),
    Fault(
        "no bot runs, though its token is set", breaking.environment(TELEGRAM_BOT_TOKEN="1:secret", ALLOWED_CHATS="9912"),
        Doctor("bot", 41, "no bot runs", "systemctl start hmem-telegram"), Answer(0, "telegram bot +none running"),
    ),
)  # fmt: skip
