"""CPU time of read-only commands, compared with a Python that does nothing."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from pathlib import Path

import typer

BINARIES = Path(sys.executable).parent
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "hmem --help": [str(BINARIES / "hmem"), "--help"],
    "hmem status": [str(BINARIES / "hmem"), "status"],
    "hmem-night --help": [str(BINARIES / "hmem-night"), "--help"],
    "hmem-night status": [str(BINARIES / "hmem-night"), "status"],
}


def compare(environment: dict[str, str], rounds: int) -> None:
    """Print user + system seconds: medians of the rounds after a warm-up round; the commands alternate."""
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds + 1):
        for name, command in COMMANDS.items():
            seconds[name].append(_cpu_seconds(environment, command))
    for name, figures in seconds.items():
        typer.echo(f"{name:20} {statistics.median(figures[1:]):.3f} s CPU")


def _cpu_seconds(environment: dict[str, str], command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
