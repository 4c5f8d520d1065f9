"""Processes: names that others know them by, and children that end: in a group of their own, within a time limit, whatever happens to us."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from shared.config.credentials import for_child
from shared.config.settings import Settings
from shared.system.privileges import child_as_owner_of

#: The file of a container that Docker mounts over its /etc/hostname.
_CONTAINER = re.compile(r"/containers/([0-9a-f]{64})/hostname /etc/hostname ")


def process_name() -> str:
    """A name of this process for others to see: `<host>-<process>-<where its number counts, when it began, random>`."""
    _, began = _state_of(os.getpid())
    return f"{socket.gethostname()}-{os.getpid()}-{_place()}{began}{uuid4().hex[:4]}"


def died_here(name: str) -> bool:
    """Whether a process of this host is gone. Of another host's, or another container's, nothing can be said: False.

    Asked by a signal, since /proc may be closed to us (ProtectProc=invisible): then a number that is in use counts as this process.
    """
    host, *process = name.rsplit("-", 2)
    if host != socket.gethostname() or len(process) != 2 or not process[0].isdecimal():
        return False
    number, mark = process
    if not mark.startswith(_place()):
        return False
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    state, began = _state_of(int(number))
    return state == "Z" or (began != "" and not mark.startswith(_place() + began))


def _place() -> str:
    """What tells apart machines and containers of one name: six digits for this boot, and for what gives processes their numbers."""
    boot, numbers = "", _own_container()
    with suppress(OSError):  # ProcSubset=pid
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    with suppress(OSError):
        numbers = numbers or str(Path("/proc/self/ns/pid").readlink())
    return _digits(boot + numbers, 6)


def _own_container() -> str:
    """The id of Docker's container that gives our processes their numbers; "" if that is somebody else.

    A container that is started again has a new namespace of process numbers, and none of its earlier processes. Docker's init (`init: true`) is the
    first process of no other namespace.
    """
    with suppress(OSError):
        if Path("/proc/1/comm").read_text(encoding="utf-8") == "docker-init\n":
            found = _CONTAINER.search(Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace"))
            return found[1] if found else ""
    return ""


def _state_of(number: int) -> tuple[str, str]:
    """(letter of a process' state, four digits for the moment when it began); "" where they are not shown to us."""
    try:
        shown = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", ""
    fields = shown.rpartition(")")[2].split()  # its name, in parentheses, may hold anything
    return fields[0], _digits(fields[19], 4)


def _digits(text: str, count: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:count]


#: What starts a command as subprocess.Popen does, and surrounds it with something.
Start = Callable[..., "subprocess.Popen[bytes]"]


def run_bounded(
    command: list[str],
    timeout_seconds: float,
    *,
    environment: Mapping[str, str] | None = None,
    descriptors: tuple[int, ...] = (),
    directory: Path | None = None,
    start: Start | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run to the end; subprocess.TimeoutExpired if it takes longer: then its process group is killed.

    Its output goes to files, not pipes: a helper that it leaves behind in a session of its own (an ssh master connection, a daemon)
    keeps a pipe open and would keep us waiting.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = (start or subprocess.Popen)(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
            env=environment,
            pass_fds=descriptors,
            cwd=directory,
        )
        try:
            process.wait(timeout_seconds)
        finally:
            if process.returncode is None:  # too slow, or we are being stopped: nothing of it may write on
                _kill(process)
        return subprocess.CompletedProcess(command, process.returncode, _text(output), _text(errors))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End its group. Popen.wait() would need a lock, which a wait that a signal interrupted may hold for ever."""
    with suppress(ProcessLookupError):  # it had ended when the signal came
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(process.pid, 0)
    process.returncode = -signal.SIGKILL


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def module_command(module: str, *arguments: str) -> list[str]:
    """A module of ours in a process of its own. `-P`: it is taken from where we are installed, never from the current directory."""
    return [sys.executable, "-P", "-m", module, *arguments]


def day_command(*arguments: str) -> list[str]:
    """An `hmem …`, as this process was started: in the same environment."""
    return [sys.executable, "-P", "-c", "from dispatcher.cli.main import main; main()", *arguments]


@contextmanager
def of_the_night(settings: Settings) -> Iterator[dict[str, Any]]:
    """Arguments for subprocess for a command of the night: its own credentials, and the user that its directory belongs to, where we may."""
    with for_child("night") as (environment, descriptors):
        yield {"pass_fds": descriptors, **child_as_owner_of(settings.hmem_night_dir, environment)}


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """The last line that a failed child printed; not the frame that typer draws around a usage error."""
    lines = [line.strip(" │╭╰╮╯─") for line in (done.stderr or done.stdout or "").splitlines()]
    return next((line for line in reversed(lines) if line), f"exit {done.returncode}")
