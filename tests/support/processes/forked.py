"""Our commands in processes forked from one whose imports are done: each begins within milliseconds and is otherwise as the installed command is.

It has its own environment, umask, working directory, streams and exit code, and may be killed at any moment. The processes come from a fork
server, which has no thread and no connection of ours. What the subject of a test is (when something is imported, how much memory a process
takes, how an installed command starts) needs a Python of its own: `World.start_installed_dispatcher`, or `subprocess`.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

from shared.system.processes import day_command
from tests.support.redis import recorded

#: Imported once by the server, with what commands import late.
PRELOADED = """
tests.support.processes.forked tests.support.processes.preloaded shared.embedding.probes chromadb chromadb.config onnxruntime tokenizers
""".split()

#: Variables that change what a Python process is from its first moment on: with one of them, only a process of its own will do.
OWN_PROCESS = ("PYTHONPATH", "LD_PRELOAD", "PYTHONTRACEMALLOC")
#: Modules of ours that programs of ours start as processes (`module_command`); their names as commands.
STARTED = {"nightly": ["hmem-night"], "shared.delivery.trial": ["-m", "shared.delivery.trial"]}

#: Where commands of Redis are recorded (recorded.py), "" for nowhere.
recording = ""

#: Constants that commands have instead of ours (`constant`): "module:NAME" → value.
_constants = dict[str, object]()

REPOSITORY = Path(__file__).parents[3]
#: The process whose programs are forked (one that it forks by itself has no fork server), and its user.
_own_pid, _own_user = os.getpid(), os.geteuid()
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(PRELOADED)


class ForkedProcess:
    """`hmem …`, `hmem-night …` or `python -m module …`, started; used as subprocess.Popen is.

    `stdout` and `stderr` are files that it appends to. `descriptors` keep their numbers in it. `gated`: it waits for `open_gate` (a tracer may be
    put on it first). `everybody`: it has no right over files that its user has not, even if that is root.
    """

    def __init__(
        self,
        arguments: list[str],
        environment: Mapping[str, str],
        stdout: Path,
        stderr: Path,
        *,
        descriptors: tuple[int, ...] = (),
        gated: bool = False,
        everybody: bool = False,
    ) -> None:
        self._gate: Connection | None = None
        theirs: Connection | None = None
        if gated:
            self._gate, theirs = _context.Pipe()
        self._process = _context.Process(
            target=_command,
            args=(arguments, dict(environment), str(stdout), str(stderr), str(Path.cwd())),
            kwargs={
                "recording": recording,
                "constants": dict(_constants),
                "gate": theirs,
                "everybody": everybody,
                "descriptors": _Descriptors({one: one for one in descriptors}),
            },
            daemon=False,
        )
        self._process.start()
        if theirs is not None:
            theirs.close()
        self.arguments, self.started = arguments, time.monotonic()

    @property
    def pid(self) -> int:
        return int(self._process.pid or 0)

    def open_gate(self) -> None:
        if self._gate is not None:
            self._gate.send(b"go")

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code (negative: the signal that ended it); subprocess.TimeoutExpired if it still runs then."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.arguments, timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """Give back what this side holds of an ended process."""
        if self._gate is not None:
            self._gate.close()
        self._process.close()


def shared_server() -> str:
    """Start the fork server of this process; its address, for others to use it as theirs: its imports take seconds."""
    server: Any = forkserver._forkserver
    server.ensure_running()
    return str(server._forkserver_address)


def use_server(address: str) -> None:
    """That of another process, which outlives this one."""
    server: Any = forkserver._forkserver
    server._forkserver_address, server._forkserver_alive_fd = address, os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    server.ensure_running = lambda: None


def wait_for_no_disk() -> None:
    """From now on, in this process: what is killed loses nothing that the kernel has (only a power cut would do that, and none is tried)."""
    os.fsync = lambda fd: None


@contextmanager
def constant(name: str, value: object) -> Iterator[None]:
    """Commands that are started meanwhile have this value of a constant, `module:NAME`."""
    _constants[name] = value
    try:
        yield
    finally:
        del _constants[name]


class _Descriptors:
    """Open files on their way to the child: number there → number here."""

    def __init__(self, numbers: Mapping[int, int]) -> None:
        self._numbers = dict(numbers)

    def __getstate__(self) -> dict[int, Any]:  # while the process is started
        return {there: DupFd(here) for there, here in self._numbers.items()}

    def __setstate__(self, state: dict[int, Any]) -> None:
        self._numbers = {there: _out_of_the_way(given.detach()) for there, given in state.items()}

    def take(self) -> None:
        """In the child: give them their numbers."""
        for there, given in self._numbers.items():
            os.dup2(given, there)
            os.close(given)


def _out_of_the_way(descriptor: int) -> int:
    """The same file under a number that nobody asks for."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 200)
    os.close(descriptor)
    return moved


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, which forks our own programs instead of starting Python and importing everything for each of them."""

    _forked: BaseProcess | None = None

    def _execute_child(
        self, args: Any, executable: Any, preexec: Any, close: Any, passed: Any, cwd: Any, env: Any, *rest: Any
    ) -> None:
        _, _, _, stdin, _, _, stdout, _, stderr, _, gid, gids, uid, *_ = rest
        command = (
            _own_command(args, os.environ if env is None else env) if (gid, gids, uid) == (None, None, None) else None
        )
        if command is None:
            super()._execute_child(args, executable, preexec, close, passed, cwd, env, *rest)  # type: ignore[misc]
            return
        streams = {number: number if given == -1 else given for number, given in enumerate((stdin, stdout, stderr))}
        self._forked = _context.Process(
            target=_command,
            args=(command, dict(os.environ if env is None else env), "", "", str(cwd or Path.cwd())),
            kwargs={
                "recording": recording,
                "constants": dict(_constants),
                "descriptors": _Descriptors({**{one: one for one in passed}, **streams}),
            },
        )
        self._forked.start()
        self.pid, self._child_created = self._forked.pid or 0, True
        self._close_pipe_fds(*rest[3:9])  # type: ignore[attr-defined]

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if self._forked is None:
            found: tuple[int, int] = super()._try_wait(flags)  # type: ignore[misc]
            return found
        self._forked.join(0 if flags else None)
        code = self._forked.exitcode
        return (0, 0) if code is None else (self.pid, code << 8 if code >= 0 else -code)

    def _wait(self, timeout: float | None) -> int | None:
        if self._forked is not None and self.returncode is None:
            connection.wait([self._forked.sentinel], timeout)  # without the pauses of subprocess between two looks
        code: int | None = super()._wait(timeout)  # type: ignore[misc]
        return code

    def _internal_poll(self, *rest: Any, **more: Any) -> int | None:
        if self._forked is None:
            code: int | None = super()._internal_poll(*rest, **more)  # type: ignore[misc]
            return code
        if self.returncode is None:
            self.returncode = self._forked.exitcode
        return self.returncode


def _own_command(arguments: Any, environment: Mapping[str, str]) -> list[str] | None:
    """Its words for `_main`, if it is one of our programs that may be forked."""
    unusual = {name for name in OWN_PROCESS if environment.get(name, str(REPOSITORY)) != str(REPOSITORY)}
    if os.getpid() != _own_pid or os.geteuid() != _own_user or unusual or not isinstance(arguments, list):
        return None
    if arguments[:3] == [sys.executable, "-P", "-m"] and arguments[3] in STARTED:
        return [*STARTED[arguments[3]], *arguments[4:]]
    return ["hmem", *arguments[4:]] if arguments[:4] == day_command() else None


def run(
    arguments: list[str],
    timeout_seconds: float,
    environment: Mapping[str, str],
    *,
    descriptors: tuple[int, ...] = (),
    everybody: bool = False,
) -> subprocess.CompletedProcess[str]:
    """To its end, as subprocess.run does with captured text; subprocess.TimeoutExpired after its whole group has been killed."""
    with tempfile.TemporaryDirectory(prefix="hmem-forked-") as folder:
        output, errors = Path(folder, "stdout"), Path(folder, "stderr")
        output.touch()
        errors.touch()
        process = ForkedProcess(arguments, environment, output, errors, descriptors=descriptors, everybody=everybody)
        try:
            code = process.wait(timeout_seconds)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            process.close()
        return subprocess.CompletedProcess(arguments, code, _text(output), _text(errors))


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def _command(
    arguments: list[str],
    environment: dict[str, str],
    stdout: str,
    stderr: str,
    directory: str,
    *,
    recording: str,
    constants: dict[str, object],
    descriptors: _Descriptors,
    gate: Connection | None = None,
    everybody: bool = False,
) -> None:
    """In the child: become the command, and end as a Python of its own would."""
    gc.freeze()  # what the server has imported is not garbage: each collection would walk through all of it
    if not (gate or everybody):  # those are passed on to a process that it starts, and only to that
        _fork_ours(recording)
    descriptors.take()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - multiprocessing has replaced it
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(directory)
    for number, path in ((1, stdout), (2, stderr)) if stdout else ():
        stream = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(stream, number)
        os.close(stream)
    if gate is not None:
        gate.recv()  # a tracer may let its calls fail
    else:
        wait_for_no_disk()
    if everybody:
        give_up_override()
    _constants.update(constants)
    for name, value in constants.items():
        setattr(import_module(name.partition(":")[0]), name.partition(":")[2], value)
    if recording:
        recorded.record(recording, arguments)
    code = 1
    try:
        _main(arguments)
        code = 0
    except SystemExit as error:
        code = _exit_code(error.code)
    except BaseException:  # noqa: BLE001 - as the interpreter does at its outermost
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    sys.exit(code)


def _fork_ours(into: str) -> None:
    """Whatever this process starts of our programs comes from the server that it comes from."""
    global recording, _own_pid
    recording, _own_pid = into, os.getpid()
    server: Any = forkserver._forkserver
    tracker: Any = resource_tracker._resource_tracker
    server._forkserver_alive_fd = _out_of_the_way(server._forkserver_alive_fd)
    tracker._fd = _out_of_the_way(tracker._fd)
    server.ensure_running = lambda: None  # it is its parent
    subprocess.Popen = Popen  # type: ignore[misc]


def give_up_override() -> None:
    """As `setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=…`: for this process and whatever it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice: of the lower 32 and of the others
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    for number in _OVERRIDES:
        libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    for index in range(3):
        sets[index] &= ~sum(1 << number for number in _OVERRIDES)
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")


_CAPABILITY_VERSION, _PR_CAPBSET_DROP = 0x20080522, 24
#: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: root's right to pass over permissions.
_OVERRIDES = (1, 2)


def _main(arguments: list[str]) -> None:
    sys.argv = list(arguments)
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.modules.pop(arguments[1], None)  # else runpy warns that it is there already
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif Path(arguments[0]).name == "hmem":
        from dispatcher.cli.main import main

        main()
    else:
        from nightly.cli.main import main as night

        night()


def _exit_code(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    sys.stderr.write(f"{code}\n")
    return 1
