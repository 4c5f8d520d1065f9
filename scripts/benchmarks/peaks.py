"""Measurement of memory: the most that importing, verifying and searching a history holds. No release is built and nothing is embedded.

An import of made-up turns (scripts/benchmarks/growth.py) into an empty archive, up to the end of the step `archive`; then `hmem-night verify`, and
the preview of `hmem forget --matching` for words that one turn has.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer

from scripts.benchmarks.growth import talk
from scripts.benchmarks.world import own_world, used

#: Said once, in the middle of the history.
NEEDLE = "the locker opens with pelican7731"


def measure(turns: int, chat_turns: int) -> dict[str, Any]:
    """Peak memory (MB), and seconds of the processor, of each command, for one size."""
    with own_world() as environment:
        folder = Path(environment["HMEM_NIGHT_DIR"]).parent
        environment |= {"EMBEDDER": "none", "NIGHT_INDEXES": "none", "STEP_TIMEOUT": "36000"}
        file = folder / "history.jsonl"
        with file.open("w", encoding="utf-8") as handle:
            for number, turn in enumerate(talk(turns, max(1, turns // chat_turns))):
                said = turn | {"content": NEEDLE} if number == turns // 2 else turn
                handle.write(json.dumps(said) + "\n")
        commands = {
            "import": ("nightly", "backfill", "jsonl", str(file), "--json"),
            "verify": ("nightly", "verify", "--json"),
            "forget": ("dispatcher", "forget", f"--matching={NEEDLE}", "--json"),
        }
        figures: dict[str, Any] = {"turns": turns, "chats": max(1, turns // chat_turns)}
        for name, command in commands.items():
            # The night of the import ends with its step `archive`, as if it were killed: what follows is measured by `growth`.
            killed = {"HMEM_CRASH_AT": "archive:after-commit"} if name == "import" else {}
            module, *arguments = command
            program = [sys.executable, "-c", f"from {module}.cli.main import main; main()", *arguments]
            done = used(environment | killed, program, ends_with=(-9,) if killed else (0, 2))
            figures[name] = {
                "peak_mb": done.peak_mb,
                "seconds": done.cpu,
            }  # of the processor: others may use the machine
        return figures


def show(figures: dict[str, Any]) -> None:
    """One size for people."""
    parts = (
        f"{name} {figures[name]['peak_mb']:.0f} MB and {figures[name]['seconds']:.1f} s"
        for name in ("import", "verify", "forget")
    )
    typer.echo(f"{figures['turns']:,} turns in {figures['chats']:,} chats: {', '.join(parts)}")
