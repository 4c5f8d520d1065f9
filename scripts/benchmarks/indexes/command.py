"""`scripts/bench indexes`: the vector indexes that a release may have, compared on this host."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from dispatcher.cli.arguments import Json
from shared.config import kinds
from shared.errors import InvalidInput
from shared.system.command import print_json, start
from shared.system.files import make_dir, write_atomic


def indexes(
    turns: Annotated[list[int] | None, typer.Option(help="Number of turns; repeatable.")] = None,
    chats: Annotated[int | None, typer.Option(help="Number of chats of equal size; default: 20.")] = None,
    backends: Annotated[str, typer.Option(help="Backends to measure, separated by commas.")] = ",".join(
        kinds.indexes()
    ),
    new: Annotated[int, typer.Option(help="Number of new turns of the next night.")] = 1000,
    queries: Annotated[int, typer.Option(help="Number of questions.")] = 200,
    limit: Annotated[float, typer.Option(help="Time limit of one build in seconds.")] = 600.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the turns and questions.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Directory for bench.json and bench.md.")] = None,
    json: Json = False,
) -> None:
    """Build, open and search every vector index that is available here, with the same invented turns; your data is not read or changed."""
    from scripts.benchmarks.indexes import report
    from scripts.benchmarks.indexes.measure import Bench, Plan

    settings = start()
    named = tuple(dict.fromkeys(one.strip() for one in backends.split(",") if one.strip()))
    plan = Plan(tuple(turns or [1000]), named, chats, new, queries, seed, limit)
    plan.refuse_unless_possible()
    if out is not None:
        _refuse_unless_writable(out)
    rows = Bench(settings, plan, say=lambda line: typer.echo(line, err=True)).run()
    told = report.document(plan, rows)
    if json:
        print_json(told)
    else:
        typer.echo(report.markdown(told, rows), nl=False)
    if out is not None:
        _write(out, told, report.markdown(told, rows))


def _refuse_unless_writable(out: Path) -> None:
    """InvalidInput before an hour of measurements instead of after it."""
    there = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise InvalidInput(
            f"--out {out} cannot be written: {there} is not a directory that you may write to. Name another one."
        )
    make_dir(out)


def _write(out: Path, told: dict[str, Any], text: str) -> None:
    make_dir(out)
    write_atomic(out / "bench.json", orjson.dumps(told, option=orjson.OPT_INDENT_2) + b"\n")
    write_atomic(out / "bench.md", text.encode())
    typer.echo(f"Written to {out}.", err=True)
