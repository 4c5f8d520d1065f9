"""Our commands in processes forked from one whose imports are done: each begins within milliseconds and is otherwise as the installed command is.

It has its own environment, umask, working directory, streams and exit code, and may be killed at any moment. The processes come from a fork
server, which has no thread and no connection of ours. What the subject of a test is (when something is imported, how much memory a process
takes, how an installed command starts) needs a Python of its own: `World.start_installed_dispatcher`, or `subprocess`.
"""

from __future__ import annotations

import atexit
import ctypes
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
from multiprocessing.connection import Connection
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

from shared.system.processes import run_bounded
from tests.support.redis import recorded

#: Imported once by the server, with what commands import late.
PRELOADED = """
tests.support.processes.forked tests.support.processes.preloaded shared.embedding.probes chromadb chromadb.config onnxruntime tokenizers
""".split()

#: Variables that change what a Python process is from its first moment on: with one of them, only a process of its own will do.
OWN_PROCESS = ("PYTHONPATH", "LD_PRELOAD", "PYTHONTRACEMALLOC")

#: Where commands of Redis are recorded (recorded.py), "" for nowhere.
recording = ""

#: Constants that commands have instead of ours (`constant`): "module:NAME" → value.
_constants = dict[str, object]()

_OWN_PID = os.getpid()
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(PRELOADED)


class ForkedProcess:
    """`hmem …`, `hmem-night …` or `python -m module …`, started; used as subprocess.Popen is.

    `stdout` and `stderr` are files that it appends to. `descriptors` keep their numbers in it. `gated`: it waits for `open_gate` (a tracer may be
    put on it first). `clock`: seconds that its clock is off. `everybody`: it has no right over files that its user has not, even if that is root.
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
        clock: float = 0.0,
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
                "clock": clock,
                "everybody": everybody,
                "descriptors": _Descriptors(descriptors),
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


@contextmanager
def constant(name: str, value: object) -> Iterator[None]:
    """Commands that are started meanwhile have this value of a constant, `module:NAME`."""
    _constants[name] = value
    try:
        yield
    finally:
        del _constants[name]


class _Descriptors:
    """Open files on their way to the child, which gets each under the same number."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        self._numbers = numbers

    def __getstate__(self) -> list[tuple[int, Any]]:  # while the process is started
        return [(number, DupFd(number)) for number in self._numbers]

    def __setstate__(self, state: list[tuple[int, Any]]) -> None:
        for number, there in state:
            here = there.detach()
            if here != number:
                os.dup2(here, number)
                os.close(here)
            os.set_inheritable(number, True)


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


def run_module(
    command: list[str],
    timeout_seconds: float,
    *,
    environment: Mapping[str, str],
    descriptors: tuple[int, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """What `shared.system.processes.run_bounded` does with `python -P -m module …` (`module_command`), without starting Python for it."""
    if os.getpid() != _OWN_PID:  # a child that a test has forked by itself: the fork server is its parent's
        return run_bounded(command, timeout_seconds, environment=environment, descriptors=descriptors)
    return run(command[2:], timeout_seconds, environment, descriptors=descriptors)


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
    gate: Connection | None,
    clock: float,
    everybody: bool,
    descriptors: _Descriptors,
) -> None:
    """In the child: become the command, and end as a Python of its own would."""
    gc.freeze()  # what the server has imported is not garbage: each collection would walk through all of it
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(directory)
    for number, path in ((1, stdout), (2, stderr)):
        stream = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(stream, number)
        os.close(stream)
    if gate is not None:
        gate.recv()
    if everybody:
        give_up_override()
    if clock:
        now = time.time
        time.time = lambda: now() + clock
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
