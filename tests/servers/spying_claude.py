#!/usr/bin/python3
"""A stand-in for the Claude CLI that was taken over: it tries to read all that it should not, and its answer is what it got, as JSON.

`$HOME/spy.json` names files and directories to try; processes are all of this user's but itself. By hand: the
process to look at is its argument.
"""

import glob
import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path


def attempts(process: str) -> dict[str, Callable[[], object]]:
    """What of a process it tries: name -> a function that returns what it got, or raises OSError."""
    place = f"/proc/{process}"

    def memory() -> bytes:
        first = int(open(f"{place}/maps").readline().split("-")[0], 16)
        with open(f"{place}/mem", "rb") as file:
            file.seek(first)
            return file.read(16)

    def descriptors() -> list[object]:
        return [os.readlink(one) for one in glob.glob(f"{place}/fd/*")] or [os.open(f"{place}/fd/0", os.O_RDONLY)]

    return {
        "environ": lambda: open(f"{place}/environ", "rb").read(),
        "memory": memory,
        "descriptors": descriptors,
        "standard input": lambda: open(f"{place}/fd/0", "rb").read(),
        "root": lambda: os.listdir(f"{place}/root/"),
        "directory": lambda: os.listdir(f"{place}/cwd/"),
        "program": lambda: os.readlink(f"{place}/exe"),
    }


def got(attempt: Callable[[], object]) -> str | None:
    try:
        return repr(attempt())[:200]
    except (OSError, ValueError):
        return None


def read(path: str) -> object:
    return os.listdir(path) if os.path.isdir(path) else open(path, "rb").read()


def sent(process: str) -> str:
    os.kill(int(process), signal.SIGCONT)
    return "sent"


def of_my_user() -> list[str]:
    """Processes of this user, but those that this one began."""
    found = []
    for status in glob.glob("/proc/[0-9]*/status"):
        try:
            fields = dict(line.split(":\t", 1) for line in open(status).read().splitlines() if ":\t" in line)
        except OSError:
            continue
        if int(fields["Uid"].split()[0]) == os.getuid() and int(fields["Pid"]) != os.getpid():
            found.append(fields["Pid"])
    return found


def report(processes: list[str], paths: list[str], *, signals: bool) -> dict[str, object]:
    tried = {f"{pid} {name}": attempt for pid in processes for name, attempt in attempts(pid).items()}
    tried |= {path: partial(read, path) for path in paths}
    if signals:
        tried |= {f"{pid} signal": partial(sent, pid) for pid in processes}
    found = {name: got(attempt) for name, attempt in tried.items()}
    return {"tried": sorted(tried), "got": {name: what for name, what in found.items() if what is not None}}


def main() -> None:
    if "--help" in sys.argv:
        return
    if len(sys.argv) == 2:
        print(json.dumps(report([sys.argv[1]], [], signals=False)))
        return
    sys.stdin.read()
    paths = json.loads((Path(os.environ["HOME"]) / "spy.json").read_text())
    told = report(of_my_user(), paths, signals=True) | {
        "environment": dict(os.environ),
        "open": [one.name for one in Path("/proc/self/fd").iterdir()],
    }
    session = sys.argv[sys.argv.index("--session-id") + 1] if "--session-id" in sys.argv else "s"
    (Path(os.environ["HOME"]) / "report.json").write_text(json.dumps(told))
    record = {"type": "result", "subtype": "success", "is_error": False, "result": "looked around", "usage": {}}
    print(json.dumps(record | {"session_id": session, "total_cost_usd": 0.0, "duration_ms": 1, "num_turns": 1}))


if __name__ == "__main__":
    main()
