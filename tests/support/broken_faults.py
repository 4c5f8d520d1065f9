"""The faults of tests/support/broken_on_purpose.py: how each is made on a sound installation, and what has to be said of it.

The last column is the chat's. Where memory alone is broken, the chat gets its answer: no memory is not no service.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tests.servers.ollama_api import OllamaApi
from tests.support.broken_installation import ANSWER, Installation
from tests.support.machine import free_port, wait_for
from tests.support.world import BINARIES

Break = Callable[[Installation], AbstractContextManager[object] | None]
HOUR = 3600.0


class Unmakeable(Exception):
    """This host does not let it be broken."""


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
    breaks: Break
    doctor: Doctor
    status: Answer = Answer()
    chat: Answer = ANSWERED
    command: tuple[str, ...] = ()  # one that meets it
    said: Answer = Answer()  # what that one says
    start: str = "before"
    patience: float = 30.0


# ------------------------------------------------------------------------------------------------------------ how it is broken


@contextmanager
def _mode(path: Path, bits: int) -> Iterator[None]:
    before = path.stat().st_mode & 0o777
    path.chmod(bits)
    try:
        yield
    finally:
        path.chmod(before)


def _environment(**more: str) -> Break:
    def breaks(host: Installation) -> None:
        host.environment |= more

    return breaks


def _config(**more: str) -> Break:
    """Of the redis-server."""

    def breaks(host: Installation) -> None:
        for name, value in more.items():
            host.redis.config_set(name.replace("_", "-"), value)

    return breaks


def _tasks(host: Installation, count: int) -> None:
    for number in range(count):
        host.enqueue(f"q{number}", "is anybody there?", submitted_at=_iso(time.time() - 600))


def _iso(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(moment))


def _queued(host: Installation) -> None:
    _tasks(host, 10)


def _stopped(host: Installation) -> None:
    """The process stands still, and its sign of life is good for half a minute more."""
    assert host.running is not None
    os.kill(host.running.pid, signal.SIGSTOP)
    _tasks(host, 3)


def _model(change: Callable[[Path], object]) -> Break:
    def breaks(host: Installation) -> None:
        change(host.own_program() / "shared" / "models" / "all-MiniLM-L6-v2-int8" / "model.onnx")

    return breaks


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _change(path: Path) -> None:
    """Of the same size."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"hcli-memory" * 100)


def _damage_segment(host: Installation) -> None:
    segment = host.archive / "seg-1.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b"4711", b"4712"))


def _lose_segment(host: Installation) -> None:
    (host.archive / "seg-1.jsonl").unlink()


@contextmanager
def _port_taken(host: Installation) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        host.environment["METRICS_LISTEN"] = f"127.0.0.1:{taken.getsockname()[1]}"
        yield


@contextmanager
def _another_night(host: Installation) -> Iterator[None]:
    """One that holds the lock: it waits for an rsync that does not end."""
    folder = host.root / "slow"
    folder.mkdir()
    shim = folder / "rsync"
    shim.write_text("#!/bin/sh\nexec sleep 600\n")
    shim.chmod(0o755)
    variables = host.variables() | {"PATH": f"{folder}:{host.variables()['PATH']}"}
    with (host.root / "night.log").open("wb") as log:
        night = subprocess.Popen(
            [str(BINARIES / "hmem-night"), "run"], env=variables, stdout=log, stderr=log, start_new_session=True
        )
    wait_for(lambda: host.redis.exists("hcli:mem:night:owner"), "the other night")
    try:
        yield
    finally:
        os.killpg(night.pid, signal.SIGKILL)
        night.wait()


def _stale(host: Installation) -> None:
    last = json.loads(cast(Any, host.redis.get("hcli:mem:night:last")))
    host.redis.set("hcli:mem:night:last", json.dumps(last | {"finished_at": time.time() - 40 * HOUR}))


def _stale_without_store(host: Installation) -> None:
    host.environment["MEDIUM_URL"] = "none"
    _stale(host)


def _failed_night(host: Installation) -> None:
    """A real one: Ollama is not there."""
    host.says("hmem-night", "run", EMBEDDER="ollama", OLLAMA_URL=f"http://127.0.0.1:{free_port()}")


def _dead_letter(host: Installation) -> None:
    """A real one: a task that cannot be read."""
    host.redis.rpush("hcli:tasks", '{"task_id": "broken", "message": 7}')
    wait_for(lambda: host.redis.llen("hcli:mem:dead"), "the dead letter")


def _no_release(host: Installation) -> None:
    (host.memory_dir / "current").unlink()


def _damaged_release(host: Installation) -> None:
    _cut((host.memory_dir / "current").resolve() / "lexical" / "1.sqlite")


def _redis_down(host: Installation) -> None:
    assert host.server is not None
    host.server.kill()
    host.server.wait()


def _wrong_password(host: Installation) -> None:
    host.redis.acl_setuser("dispatcher", enabled=True, passwords=["+right"], keys=["*"], commands=["+@all"])
    host.url = host.url.replace("redis://", "redis://dispatcher:wrong@")


def _logged_out(host: Installation) -> None:
    home = host.root / "empty-home"
    home.mkdir()
    host.environment |= {"HOME": str(home), "ANTHROPIC_API_KEY": ""}


def _own_claude(host: Installation) -> Path:
    """A copy that may be taken away: it hands over to the real one."""
    path = host.root / "bin" / "claude"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec {BINARIES}/claude "$@"\n')
    path.chmod(0o755)
    host.environment["CLAUDE_BIN"] = str(path)
    return path


@contextmanager
def _claude_gone(host: Installation) -> Iterator[None]:
    path = _own_claude(host)
    assert host.start()
    path.unlink()
    yield


@contextmanager
def _claude_not_executable(host: Installation) -> Iterator[None]:
    path = _own_claude(host)
    assert host.start()
    path.chmod(0o644)
    yield


@contextmanager
def _read_only_chat(host: Installation) -> Iterator[None]:
    """The chat's own directory, after a first answer."""
    assert host.ask().code == 0
    with _mode(host.state_dir / "chats" / "9912", 0o500):
        yield


@contextmanager
def _closed_chat(host: Installation) -> Iterator[None]:
    assert host.ask().code == 0
    with _mode(host.state_dir / "chats" / "9912", 0):
        yield


@contextmanager
def _full_disk(host: Installation) -> Iterator[None]:
    """A file system of 4 MB under the state directory, filled to the last byte."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "none", str(host.state_dir)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        raise Unmakeable("no file system can be mounted here")
    try:
        assert host.start()
        filler = os.open(host.state_dir / "filler", os.O_WRONLY | os.O_CREAT)
        for size in (1 << 16, 4096, 1):
            try:
                while os.write(filler, b"x" * size):
                    pass
            except OSError:
                continue
        os.close(filler)
        yield
    finally:
        host.end()
        subprocess.run(["umount", "-l", str(host.state_dir)], check=True)


def _store_damaged(host: Installation) -> None:
    for path in host.state_dir.glob("medium.sqlite*"):
        path.unlink()
    (host.state_dir / "medium.sqlite").write_bytes(b"this is no database " * 400)


def _owner_key_missing(host: Installation) -> None:
    """Made by a first forgetting, then lost."""
    host.says("hmem", "owner-key")
    assert (host.night_dir / "owner.pub").exists()
    (host.root / "owner.key").unlink()


def _readable_settings(host: Installation) -> None:
    file = host.root / "hmem.toml"
    file.write_text(f'RESULT_HMAC_KEY = "{host.variables()["RESULT_HMAC_KEY"]}"\n')
    file.chmod(0o644)
    host.environment["HMEM_CONFIG"] = str(file)


def _mirror(host: Installation) -> None:
    host.environment["ARCHIVE_MIRROR"] = str(host.root / "not-mounted")


@contextmanager
def _other_embedder(host: Installation) -> Iterator[None]:
    """The night's release is of one version of a model; then another is pulled under its name."""
    with OllamaApi() as api:
        host.environment |= {"EMBEDDER": "ollama", "OLLAMA_URL": api.url}
        host.night()
        api.models["all-minilm:latest"] = "0" * 64
        yield


def _clock_ahead(host: Installation) -> None:
    host.ahead = 600.0


def _no_chats(host: Installation) -> AbstractContextManager[None]:
    """No directory can be made in it, nor can what is there be used."""
    chats = host.state_dir / "chats"
    chats.mkdir(mode=0o700)
    return _mode(chats, 0o500)


def _closes(path: Callable[[Installation], Path], bits: int) -> Break:
    return lambda host: _mode(path(host), bits)


def _never(host: Installation) -> None:
    """Nothing more: no dispatcher was started."""


PLACEHOLDER = "the secret that your bot verifies results with"
_KEY_FIX = "openssl rand -hex 32"
_MODEL_FIX = "git checkout -- shared/models.*scripts/setup"
_STATUS_RELEASE = "hmem release rollback"
_START = "systemctl start hmem-dispatcher"

FAULTS: tuple[Fault, ...] = (
    Fault(
        "no dispatcher runs", _never,
        Doctor("dispatcher", 42, "No dispatcher of hcli-memory is running.*would wait unanswered", _START),
        Answer(42, f"No dispatcher of hcli-memory is running.*{_START}"), UNANSWERED, start="never", patience=1,
    ),
    Fault(
        "no dispatcher runs, and ten messages wait", _queued,
        Doctor("dispatcher", 42, "No dispatcher.*10 messages wait, the first for 1[0-9] minutes, and no dispatcher answers", _START),
        Answer(42, "10 messages wait"), UNANSWERED, start="never", patience=1,
    ),
    Fault(
        "the dispatcher stands still, and three messages wait", _stopped,
        Doctor("dispatcher", 43, "is alive but takes nothing from the queue: 3 messages wait", "systemctl restart hmem-dispatcher"),
        Answer(43, "takes nothing from the queue.*restart"), UNANSWERED, patience=1,
    ),
    Fault(
        "the model's file is missing", _model(Path.unlink), Doctor("embedder", 13, "model is missing: .*model.onnx", _MODEL_FIX),
        start="after", command=("hmem-night", "run"), said=Answer(13, f"EmbeddingError.*model is missing.*{_MODEL_FIX}"),
    ),
    Fault(
        "the model's file is cut", _model(_cut), Doctor("embedder", 13, "11472134 bytes of 22944268", _MODEL_FIX),
        start="after", command=("hmem-night", "run"), said=Answer(13, f"EmbeddingError.*is not whole.*{_MODEL_FIX}"),
    ),
    Fault(
        "the model's file was changed", _model(_change), Doctor("embedder", 13, "model (was changed|cannot be loaded)", _MODEL_FIX),
        start="after", command=("hmem-night", "run"), said=Answer(13, f"EmbeddingError.*{_MODEL_FIX}"),
    ),
    Fault(
        "the night directory cannot be written", _closes(lambda host: host.night_dir, 0o500),
        Doctor("night dir", 15, "night cannot be written by .*so the next night fails", r"chmod u\+rwx"),
        command=("hmem-night", "status"), said=Answer(15, r"cannot be written.*chmod u\+rwx"),
    ),
    Fault(
        "the archive cannot be written", _closes(lambda host: host.archive, 0o500),
        Doctor("night dir", 15, "archive cannot be written", r"chmod u\+rwx"),
        command=("hmem-night", "run"), said=Answer(15, "access is denied"),
    ),
    Fault(
        "an archive segment is damaged", _damage_segment, Doctor("archive", 14, "seg-1.jsonl is damaged", "verify --repair"),
        command=("hmem-night", "status"), said=Answer(14, "seg-1.jsonl is damaged.*verify --repair"),
    ),
    Fault(
        "an archive segment is missing", _lose_segment, Doctor("archive", 14, "seg-1.jsonl is missing", "Restore it from a copy"),
        command=("hmem-night", "verify"), said=Answer(14, "seg-1.jsonl is missing.*copy"),
    ),
    Fault(
        "the port of METRICS_LISTEN is taken", _port_taken,
        Doctor("metrics", 44, "METRICS_LISTEN=127.0.0.1:.*the dispatcher's metrics are not served", "free port.*restart"), start="after",
    ),
    Fault(
        "two nights at once: the second one is refused", _another_night, Doctor("night", 0, "last good night was run 2", ""),
        command=("hmem-night", "run"), said=Answer(75, "A night is running on .*Wait for it"),
    ),
    Fault(
        "no good night for 40 hours", _stale,
        Doctor("night", 21, "40 hours old.*newer turns are recalled from the day store only", "hmem-night status.*hmem-night run"),
        Answer(21, "40 hours old.*hmem-night run"),
    ),
    Fault(
        "no good night for 40 hours, and no store of the day", _stale_without_store,
        Doctor("night", 21, "40 hours old.*newer turns are not recalled", "hmem-night run"), Answer(21, "40 hours old"),
    ),
    Fault(
        "a night failed", _failed_night, Doctor("night", 45, "Since then night 3 stopped at embed.*Ollama at", "hmem-night run"),
        Answer(0, "last failure +night 3 stopped at embed"),
    ),
    Fault(
        "a dead letter", _dead_letter, Doctor("dead letters", 46, "1 message is unanswered in the dead letters", "hmem dead list"),
        Answer(0, "1 dead letters"),
    ),
    Fault(
        "releases, but no current one", _no_release, Doctor("release", 16, "current is missing though there are releases", "hmem release rollback"),
        Answer(21, f"current is missing.*{_STATUS_RELEASE}"),
    ),
    Fault(
        "the release is damaged", _damaged_release, Doctor("release", 16, "lexical/1.sqlite was changed", "hmem release rollback"),
        Answer(21, f"lexical/1.sqlite is missing or was changed.*{_STATUS_RELEASE}"), start="after",
    ),
    Fault(
        "the memory directory is not mounted", _environment(HMEM_MEMORY_DIR="/nowhere/memory"),
        Doctor("release", 37, "/nowhere/memory is missing", "mount it"), start="after",
    ),
    Fault(
        "Redis is down", _redis_down, Doctor("redis", 11, "does not answer", "Start it"), Answer(11, "does not answer.*Start it"),
        Answer(11, "does not answer.*Start it"), patience=2,
    ),
    Fault(
        "Redis evicts", _config(maxmemory="100mb", maxmemory_policy="allkeys-lru"),
        Doctor("eviction", 31, "allkeys-lru: .*drops turns", "noeviction"),
    ),
    Fault(
        "Redis writes no append-only file", _config(appendonly="no", save="3600 1"),
        Doctor("persistence", 32, "snapshots only.*lost in a crash", "appendonly yes"),
    ),
    Fault(
        "Redis writes nothing to disk", _config(appendonly="no", save=""),
        Doctor("persistence", 32, "writes nothing to disk", "appendonly yes"),
    ),
    Fault(
        "the password of Redis is wrong", _wrong_password, Doctor("redis", 11, "refuses us: [^.]*[.]$", "user and password in REDIS_URL"),
        Answer(11, "refuses us.*REDIS_URL"), Answer(11, "refuses us.*REDIS_URL"), start="after", patience=2,
    ),
    Fault(
        "Claude is not logged in", _logged_out, Doctor("login", 35, "not logged in", "log in"),
        chat=Answer(69, "not logged in any more, and my owner has to log me in again. Please tell my owner"), start="after",
    ),
    Fault(
        "Claude is gone", _claude_gone, Doctor("claude", 12, "not installed or not executable", "scripts/setup --with-claude"),
        chat=Answer(69, "the Claude CLI cannot be started, and my owner has to install it again.*tell my owner"), start="itself",
    ),
    Fault(
        "Claude is not executable", _claude_not_executable, Doctor("claude", 12, "not executable", "scripts/setup --with-claude"),
        chat=Answer(69, "the Claude CLI cannot be started, and my owner has to install it again.*tell my owner"), start="itself",
    ),
    Fault(
        "the chat's directory cannot be written", _read_only_chat, Doctor("state", 39, "chats/9912 cannot be written", "chown"),
    ),
    Fault(
        "the chat's directory is closed", _closed_chat, Doctor("state", 39, "chats/9912 cannot be written", "chown"),
        chat=Answer(69, "this chat's directory cannot be used .Permission denied., and my owner has to look at it .*tell my owner"),
    ),
    Fault("no chat's directory can be made", _no_chats, Doctor("state", 39, "chats cannot be written", "chown")),
    Fault(
        "the disk of the state directory is full", _full_disk, Doctor("state", 40, "its disk is full", "Free some space"), start="itself",
    ),
    Fault(
        "the store of the day cannot be reached", _environment(MEDIUM_URL="postgresql://hmem:secret@127.0.0.1:1/hmem"),
        Doctor("store", 27, "does not answer", "Check that it runs"), start="after",
    ),
    Fault(
        "the store of the day is damaged", _store_damaged, Doctor("store", 27, "medium.sqlite is damaged", "copy of it back, or move it away"),
        start="after",
    ),
    Fault(
        "the HMAC key is the README's placeholder", _environment(RESULT_HMAC_KEY=PLACEHOLDER),
        Doctor("settings", 10, "placeholder of an example", _KEY_FIX), Answer(42, "No dispatcher"), Answer(10, f"placeholder.*{_KEY_FIX}"),
        start="after", command=("hmem", "run"), said=Answer(10, f"placeholder.*{_KEY_FIX}"),
    ),
    Fault(
        "the HMAC key is far too short", _environment(RESULT_HMAC_KEY="k"), Doctor("settings", 10, "too easy to guess", _KEY_FIX),
        Answer(42, "No dispatcher"), Answer(10, f"easy to guess.*{_KEY_FIX}"), start="after", command=("hmem", "run"),
        said=Answer(10, f"easy to guess.*{_KEY_FIX}"),
    ),
    Fault(
        "the owner's key is lost", _owner_key_missing, Doctor("owner key", 10, "no owner's key at .*owner.key", "Restore it from a copy"),
    ),
    Fault(
        "all may read the settings file with a secret in it", _readable_settings,
        Doctor("settings", 10, "contains secrets .RESULT_HMAC_KEY., and every user of this host may read it", "chmod 600"),
    ),
    Fault(
        "the archive's mirror is not mounted", _mirror, Doctor("mirror", 26, "not-mounted does not exist, so nights delete nothing", "Mount it"),
        command=("hmem-night", "run"), said=Answer(26, "mirror .*not-mounted cannot be used.*Mount"),
    ),
    Fault(
        "the embedders of day and release differ", _other_embedder,
        Doctor("vectors", 36, "differs from the one that release 3 was indexed with", "run hmem-night backfill archive --reembed"),
        start="after",
    ),
    Fault("the clock is ten minutes ahead", _clock_ahead, Doctor("clock", 33, "ahead of Redis", "set-ntp")),
    Fault(
        "no bot runs, though its token is set", _environment(TELEGRAM_BOT_TOKEN="1:secret", ALLOWED_CHATS="9912"),
        Doctor("bot", 41, "no bot runs", "systemctl start hmem-telegram"), Answer(0, "telegram bot +none running"),
    ),
)  # fmt: skip
