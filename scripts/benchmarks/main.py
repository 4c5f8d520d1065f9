"""Measurements. Each prints the machine and the versions, medians and ratios; run it twice before you believe it.

A set is a folder with `turns.jsonl` (turns as they lie in Redis) and, for recall, `questions.jsonl`.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from redis import Redis

from dispatcher.cli.arguments import Json
from scripts.benchmarks.corrections import corrections
from scripts.benchmarks.given_notes import given_notes
from scripts.benchmarks.meaning import meaning
from scripts.benchmarks.prompt import prompt
from scripts.benchmarks.start import start as measure_start
from scripts.benchmarks.stream import stream
from scripts.benchmarks.walks import walks
from scripts.benchmarks.world import BINARIES, describe_machine, hmem, load_turns, own_world, started, used
from shared.config import kinds
from shared.system.command import print_json, start

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, help=__doc__)
app.command()(corrections)
app.command()(meaning)
app.command()(prompt)
app.command("start")(measure_start)
app.command()(stream)
app.command()(walks)
Set = Annotated[Path, typer.Option("--set", help="Folder with turns.jsonl.", exists=True, file_okay=False)]


@app.command()
def load(folder: Set) -> None:
    """Write a set's turns into the Redis of REDIS_URL."""
    url = os.environ.get("REDIS_URL")
    if not url:
        raise SystemExit("bench: set REDIS_URL to the Redis that the turns shall go to (not the one in use).")
    typer.echo(f"{load_turns(folder, url)} turns written")


@app.command()
def recall(
    folder: Set,
    out: Annotated[Path | None, typer.Option(help="Write the results to this directory.")] = None,
    questions: Annotated[int, typer.Option(help="How many questions to show with their first hits.")] = 3,
    no_names: Annotated[bool, typer.Option("--no-names", help="Remove the speakers' names first.")] = False,
    notes: Annotated[
        Path | None, typer.Option(help="Notes of turns (lines of chat_id, turns, text), in place of a model's.")
    ] = None,
) -> None:
    """Run a set through the real night (Redis to release), then its questions; scored if the set's folder has a score.py."""
    describe_machine()
    with own_world() as environment, tempfile.TemporaryDirectory() as scratch, given_notes(folder, notes) as more:
        environment |= more
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
        _show(environment, folder, questions)
        _score(folder, results)


def _show(environment: dict[str, str], folder: Path, count: int) -> None:
    for line in (folder / "questions.jsonl").read_text().splitlines()[:count]:
        question = json.loads(line)
        found = json.loads(
            hmem(environment, "hmem", "search", question["chat_id"], question["question"], "-k", "3", "--json")
        )
        typer.echo(f"Q {question['question']}   (evidence {', '.join(question['evidence'])})")
        for hit in found["hits"]:
            mark = "*" if set(hit["turn_ids"]) & set(question["evidence"]) else " "
            typer.echo(f" {mark} {hit['score']:.2f} {hit['speaker']}: {hit['text'][:110]}")


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
def placement(turns: int = 20) -> None:
    """What the real Claude CLI sends to a loopback API for one conversation, for each SESSION_MODE and RECALL_PLACEMENT.

    Tokens are characters / 4 of system and messages. `kept` is the share of a request that stands identical at the start of the next
    one, which a provider's prompt cache could serve (the real cache works in blocks and by its own rules).
    """
    from tests.servers.messages_api import MessagesApi

    describe_machine()
    sample = [
        json.loads(line) for line in (Path(__file__).parent.parent / "demo_sample.jsonl").read_text().splitlines()
    ]
    talk = [line for line in sample if line["kind"] == "exchange"]
    for mode in ("resume", "replay"):
        for place in ("system", "message"):
            with (
                own_world() as environment,
                MessagesApi(lambda request: f"Noted. ({len(json.dumps(request))} bytes.)") as api,
            ):
                environment |= {"SESSION_MODE": mode, "RECALL_PLACEMENT": place, "CLAUDE_BIN": str(BINARIES / "claude")}
                environment |= {
                    "ANTHROPIC_BASE_URL": api.url,
                    "ANTHROPIC_API_KEY": "bench",
                    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                }
                _remember(environment, talk)
                with started(environment, "hmem", "run"):
                    hmem(environment, "hmem", "talk", "warm-up", "--say", "hello")
                    time.sleep(2.5)  # the vectors are loaded in the background
                    for number in range(turns):
                        hmem(environment, "hmem", "talk", "1", "--say", talk[number % len(talk)]["message"])
                sent = [_sent(request) for request in api.requests[1:]]  # without the warm-up, in another chat
                sizes, kept = [len(text) for text in sent], [_kept(*pair) for pair in itertools.pairwise(sent)]
                share = 100 * sum(kept) / sum(sizes[:-1])
                typer.echo(
                    f"{mode:7} {place:8} {len(sizes)} requests, {sum(sizes) // 4:8} tokens in all, first {sizes[0] // 4}, "
                    f"last {sizes[-1] // 4}; kept at the start of the next: {sum(kept)} bytes in all ({share:.0f} %), "
                    f"median {statistics.median(kept):.0f}"
                )


def _remember(environment: dict[str, str], talk: list[dict[str, str]]) -> None:
    """Run a night over the sample, all in one chat."""
    with Redis.from_url(environment["REDIS_URL"]) as client:
        for number, line in enumerate(talk):
            for role, name in (("user", "message"), ("asst", "answer")):
                turn = {"chat_id": "1", "role": role, "content": line[name], "timestamp": 1.7e9 + number}
                client.set(f"hcli:memory:d{number}:{role}", json.dumps(turn))
    hmem(environment, "hmem-night", "run")


def _sent(request: dict[str, Any]) -> str:
    """System and messages in the order in which a provider reads them."""
    blocks = (
        [block["text"] for block in request["system"]] if isinstance(request["system"], list) else [request["system"]]
    )
    said = (block for block in blocks if not block.startswith("x-anthropic-billing-header"))  # a fingerprint, no prompt
    return "\n".join(said) + json.dumps(request["messages"], ensure_ascii=False)


def _kept(one: str, other: str) -> int:
    """The length of the common prefix."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


@app.command()
def growth(
    turns: Annotated[str, typer.Option(help="Sizes of the history, in turns.")] = "1e4,1e5",
    new: Annotated[int, typer.Option(help="New turns of the night.")] = 1_000,
    chat_turns: Annotated[int, typer.Option(help="Turns of one chat of the history.")] = 100,
    talking: Annotated[int, typer.Option(help="Chats that the new turns are in.")] = 50,
    index: Annotated[str, typer.Option(help="NIGHT_INDEXES: sqlite, chroma, lancedb or none.")] = "sqlite",
    releases: Annotated[
        int, typer.Option(help="Releases in the end: one of the history, one of each night.", min=2)
    ] = 5,
    embed: Annotated[bool, typer.Option("--embed", help="Embed the new turns with the shipped model.")] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Also build the release from nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each size.")] = False,
) -> None:
    """A night with new turns on histories of several sizes: seconds by step, memory, bytes sent and stored, lookups. Vectors are made up."""
    from scripts.benchmarks.growth import Plan, measure, show

    if not as_json:
        describe_machine()
    plan = Plan(new, chat_turns, talking, index, releases, embed, rebuild)
    for size in turns.split(","):
        figures = measure(int(float(size)), plan)
        if as_json:
            typer.echo(json.dumps(figures))
        else:
            show(figures)


@app.command()
def peaks(
    turns: Annotated[str, typer.Option(help="Sizes of the history, in turns.")] = "1e4,1e5",
    chat_turns: Annotated[int, typer.Option(help="Turns of one chat.")] = 100,
) -> None:
    """The most memory that an import, `hmem-night verify` and the preview of `hmem forget --matching` hold, for several sizes."""
    from scripts.benchmarks.peaks import measure, show

    describe_machine()
    for size in turns.split(","):
        show(measure(int(float(size)), chat_turns))


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
def indexes(
    turns: Annotated[list[int] | None, typer.Option(min=1, help="Number of turns; repeatable.")] = None,
    chats: Annotated[int | None, typer.Option(min=1, help="Number of chats of equal size; default: 20.")] = None,
    backends: Annotated[str, typer.Option(help="Backends to measure, separated by commas.")] = ",".join(
        kinds.indexes()
    ),
    new: Annotated[int, typer.Option(min=1, help="Number of new turns of the next night.")] = 1000,
    queries: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 200,
    limit: Annotated[float, typer.Option(min=1, help="Time limit of one build in seconds.")] = 600.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the turns and questions.")] = 0,
    json: Json = False,
) -> None:
    """Build, open and search every vector index that is available here, with the same invented turns; your data is not read or changed."""
    from scripts.benchmarks.indexes import report
    from scripts.benchmarks.indexes.measure import Bench, Plan

    settings = start()
    named = tuple(dict.fromkeys(one.strip() for one in backends.split(",") if one.strip()))
    plan = Plan(tuple(turns or [1000]), named, chats, new, queries, seed, limit)
    plan.refuse_unless_possible()
    rows = Bench(settings, plan, say=lambda line: typer.echo(line, err=True)).run()
    told = report.document(plan, rows)
    if json:
        print_json(told)
    else:
        typer.echo(report.markdown(told, rows), nl=False)


@app.command()
def commands(rounds: int = 10) -> None:
    """CPU time of `hmem --help`, `hmem status` and the night's, compared with a Python that does nothing."""
    programs = {"python -c pass": [sys.executable, "-c", "pass"]} | {
        f"{program} {what}": [str(BINARIES / program), what]
        for program in ("hmem", "hmem-night")
        for what in ("--help", "status")
    }
    describe_machine()
    with own_world() as environment:
        measured = [  # the programs alternate; the first round warms up
            {name: used(environment, program, ends_with=range(256)).cpu for name, program in programs.items()}
            for _ in range(rounds + 1)
        ][1:]
        for name in programs:
            typer.echo(f"{name:20} {statistics.median(figures[name] for figures in measured):.3f} s CPU")


if __name__ == "__main__":
    app()
