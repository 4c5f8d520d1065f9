"""Fetches a model for the embedder `fastembed`."""

from __future__ import annotations

from typing import Annotated

import typer

from shared.embedding.fastembed.embedder import cache_of, fetch
from shared.embedding.known_models import known_model
from shared.system.command import run_command, start


def main(name: Annotated[str, typer.Argument(metavar="MODEL")] = "") -> None:
    """Fetch the named model, or the one that EMBED_MODEL names."""
    settings = start()
    model = known_model(name or settings.embed_model or "all-minilm", "fastembed")
    typer.echo(f"{model.fastembed} is in {fetch(model, cache_of(settings))}")


application = typer.Typer()
application.command()(main)
run_command(application)
