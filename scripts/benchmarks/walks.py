"""How much of the program a message, a search, a night and a forgetting walk through: product files, functions, calls, processes.

A small installation does each; every process of it counts the functions that it enters (`sys.setprofile`), in all of its threads. What a module does
while it is imported is not counted.
"""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import typer

from scripts.benchmarks.world import own_world, started
from scripts.demo_host import BIN

ROOT = Path(__file__).parent.parent.parent
CHAT = "9912"
#: Is run at the start of each Python process; SIGUSR1 writes what was counted since the last time.
COUNTING = """
import atexit, collections, json, os, signal, sys, threading
ROOT, INTO = os.environ["WALKS_ROOT"], os.environ["WALKS_INTO"]
counts, written = collections.Counter(), 0

def enter(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(ROOT):
        counts[f"{code.co_filename.removeprefix(ROOT)}:{code.co_qualname}"] += 1

def write(*_):
    global written
    if counts:
        written += 1
        with open(f"{INTO}/{os.getpid()}-{written}.json", "w") as file:
            json.dump(dict(counts), file)
        counts.clear()

os.register_at_fork(after_in_child=counts.clear)
atexit.register(write)
signal.signal(signal.SIGUSR1, write)
threading.setprofile(enter)
sys.setprofile(enter)
"""


def walks() -> None:
    """How many product files, functions, calls and processes a message, a night, a search and a forgetting walk through."""
    with tempfile.TemporaryDirectory(prefix="hmem-walks-") as folder, own_world() as environment:
        (into := Path(folder, "counts")).mkdir()
        Path(folder, "sitecustomize.py").write_text(COUNTING, encoding="utf-8")
        counting = {"PYTHONPATH": f"{folder}:{ROOT}", "WALKS_ROOT": f"{ROOT}/", "WALKS_INTO": str(into)}
        environment = {**environment, **counting}
        typer.echo(f"{'walk':10} {'files':>6} {'functions':>10} {'calls':>9} {'processes':>10}")
        with started(environment, "hmem", "run") as process:
            for words in ("the boiler code is 4711", "the landlord is Mr Bauer"):
                _run(environment, "hmem", "talk", CHAT, "--say", words)
            # Both come to the day store three seconds after the last answer, so the next message finds them.
            time.sleep(6)
            _drained(process, into)
            _run({**environment, "PYTHONPATH": str(ROOT)}, "hmem", "talk", CHAT, "--say", "what is the boiler code?")
            process.send_signal(signal.SIGUSR1)
            time.sleep(1)
            _print("message", into)
        _cleared(into)
        for name, *command in (
            ("night", "hmem-night", "run"),
            ("search", "hmem", "search", CHAT, "boiler code"),
            ("forget", "hmem", "forget", f"--chat={CHAT}", "--matching", "4711", "--yes"),
        ):
            _run(environment, *command)
            _print(name, into)


def _run(environment: dict[str, str], *command: str) -> None:
    done = subprocess.run([BIN / command[0], *command[1:]], env=environment, capture_output=True, check=False)
    if done.returncode:
        typer.echo(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()[-500:]}", err=True)


def _drained(process: subprocess.Popen[bytes], into: Path) -> None:
    process.send_signal(signal.SIGUSR1)
    time.sleep(1)
    _cleared(into)


def _cleared(into: Path) -> None:
    for path in into.iterdir():
        path.unlink()


def _print(name: str, into: Path) -> None:
    """The row of what was counted since the last one; scripts and tests are no product."""
    product = ("dispatcher/", "nightly/", "shared/")
    found = [json.loads(path.read_bytes()) for path in into.iterdir()]
    mine = [{one: calls for one, calls in counts.items() if one.startswith(product)} for counts in found]
    functions = {one for counts in mine for one in counts}
    files = {one.partition(":")[0] for one in functions}
    calls = sum(sum(counts.values()) for counts in mine)
    processes = len({path.name.partition("-")[0] for path in into.iterdir()}) if any(mine) else 0
    typer.echo(f"{name:10} {len(files):6} {len(functions):10} {calls:9,} {processes:10}")
    _cleared(into)
