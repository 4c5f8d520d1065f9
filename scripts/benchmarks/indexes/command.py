"""`scripts/bench indexes`: the vector indexes that a release may have, compared on this host."""

from __future__ import annotations

from typing import Annotated

import typer

from dispatcher.cli.arguments import Json
from shared.config import kinds
from shared.system.command import print_json, start


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
