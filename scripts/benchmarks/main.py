"""Measurements. Each prints the machine and the versions, medians and ratios; run it twice before you believe it.

A set is a folder with `turns.jsonl` (turns as they lie in Redis) and, for recall, `questions.jsonl`.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from redis import Redis

from scripts.benchmarks.corrections import corrections
from scripts.benchmarks.indexes import indexes
from scripts.benchmarks.prompt import prompt
from scripts.benchmarks.walks import walks
from scripts.benchmarks.world import describe_machine, hmem, load_turns, megabytes, own_world, started

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, help=__doc__)
app.command()(corrections)
app.command()(indexes)
app.command()(prompt)
app.command()(walks)
Set = Annotated[Path, typer.Option("--set", help="Folder with turns.jsonl.", exists=True, file_okay=False)]


@app.command()
def recall(
    folder: Set,
    out: Annotated[Path | None, typer.Option(help="Write the results to this directory.")] = None,
    no_names: Annotated[bool, typer.Option("--no-names", help="Remove the speakers' names first.")] = False,
) -> None:
    """Run a set through the real night (Redis to release), then its questions; scored if the set's folder has a score.py."""
    describe_machine()
    with own_world() as environment, tempfile.TemporaryDirectory() as scratch:
        count = load_turns(folder, environment["REDIS_URL"], names=not no_names)
        started = time.perf_counter()
        (night,) = json.loads(hmem(environment, "hmem-night", "run", "--json"))
        seconds = time.perf_counter() - started
        typer.echo(f"night: {count} turns, {night['chunks']} chunks, {seconds:.1f} s ({count / seconds:.0f} turns/s)")
        typer.echo("  " + ", ".join(f"{step} {value:.2f} s" for step, value in night["seconds"].items()))
        results = out or Path(scratch) / "results.jsonl"
        batch = str(folder / "questions.jsonl")
        hits = {
            line["qid"]: line
            for line in map(json.loads, hmem(environment, "hmem", "search", "--batch", batch, "-k", "50").splitlines())
        }
        contexts = map(json.loads, hmem(environment, "hmem", "context", "--batch", batch).splitlines())
        results.write_text("".join(json.dumps({**line, **hits[line["qid"]]}) + "\n" for line in contexts))
        _score(folder, results)


def _score(folder: Path, results: Path) -> None:
    scorer = folder.parent / "score.py"
    if not scorer.exists():
        typer.echo("no score.py beside the set: not scored")
        return
    subprocess.run([sys.executable, str(scorer), str(folder), str(results)], check=False)
    # A baseline holds hits only, so hits alone are compared with it.
    bare = results.with_suffix(".hits")
    lines = map(json.loads, results.read_text().splitlines())
    bare.write_text("".join(json.dumps({name: line[name] for name in ("qid", "hits", "ms")}) + "\n" for line in lines))
    for baseline in sorted((folder / "baselines").glob("*.jsonl")):
        command = [sys.executable, str(scorer), str(folder), str(bare), "--baseline", str(baseline)]
        told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        typer.echo(f"against {baseline.name}: " + "; ".join(x for x in told.splitlines() if "points [" in x))
    bare.unlink()


@app.command()
def memory(
    chats: int = 1000,
    turns: int = 100,
    index: Annotated[str, typer.Option(help="NIGHT_INDEXES; the default if empty.")] = "",
) -> None:
    """A release of many chats: the dispatcher's memory, the first lookup after a switch, warm lookups; with vectors and with keywords only."""
    from scripts.benchmarks.memory import make_release, measure, measure_dispatcher

    describe_machine()
    typer.echo(f"{chats} chats of {turns} turns, seeded vectors")
    words = {"EMBEDDER": "none", "MEMORY_BACKEND": "none"}
    with own_world() as environment:
        environment |= {"NIGHT_INDEXES": index} if index else {}
        make_release(environment, chats, turns)
        for label, more in ((index or "default", {}), ("keywords only", words)):
            measure(environment | more, label)
            measure_dispatcher(environment | more, label, min(200, chats))


@app.command()
def overhead(tasks: int = 600, chats: int = 60, turns: int = 200, single: int = 300, concurrent: int = 4) -> None:
    """The time that the dispatcher adds to Claude's own time, compared with h-cli."""
    from scripts.benchmarks.overhead import measure

    describe_machine()
    with own_world() as environment:
        measure(environment, tasks, chats, turns, single, concurrent)


@app.command()
def start(rounds: int = 5) -> None:
    """The dispatcher: seconds from its start to the first answered task, and its memory, without and with a release."""
    describe_machine()
    with own_world() as environment:
        for label, more in (("keywords only", {"EMBEDDER": "none", "NIGHT_INDEXES": "none"}), ("default", {})):
            with Redis.from_url(environment["REDIS_URL"]) as client:
                for number in range(200):
                    turn = {
                        "chat_id": "1",
                        "role": "user",
                        "content": f"note {number} {label}",
                        "timestamp": 1.7e9 + number,
                    }
                    client.set(f"hcli:memory:{label.split()[0]}{number}:user", json.dumps(turn))
            hmem(environment | more, "hmem-night", "run")
            figures = [_one_start(environment | more) for _ in range(rounds)]
            seconds, megabytes = (statistics.median(column) for column in zip(*figures, strict=True))
            typer.echo(f"{label}: first answer after {seconds:.2f} s, RSS {megabytes:.0f} MB (medians of {rounds})")


def _one_start(environment: dict[str, str]) -> tuple[float, float]:
    began = time.perf_counter()
    with started(environment, "hmem", "run") as process:
        hmem(environment, "hmem", "talk", "1", "--say", "note 7")
        seconds = time.perf_counter() - began
        time.sleep(2.5)  # the vectors are loaded in the background
        hmem(environment, "hmem", "talk", "1", "--say", "note 8")
        return seconds, megabytes(process.pid)


if __name__ == "__main__":
    app()
