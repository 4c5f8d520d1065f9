"""`hmem usage`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from dispatcher.cli.arguments import Json, connect
from dispatcher.features.usage.counts import read_usage
from dispatcher.features.usage.keys import EVERY_CHAT
from shared.system.command import application, print_json, start
from shared.text.format import counted

app = application()


@app.command()
def usage(
    days: Annotated[int, typer.Option(min=1, max=32, help="How many days, today included.")] = 7,
    json: Json = False,
) -> None:
    """Messages, tokens and cost of each chat in the last days, most expensive first."""
    settings = start(logs=False)
    found = read_usage(connect(settings), datetime.now(settings.timezone).date(), days)
    if json:
        print_json([{"chat_id": None if chat == EVERY_CHAT else chat} | asdict(one) for chat, one in found.items()])
        return
    if not found:
        typer.echo(f"No messages in the last {counted(days, 'day')}.", err=True)
        return
    typer.echo(f"{'chat':16} {'messages':>9} {'tokens in':>11} {'out':>9} {'cached':>11} {'USD':>9}")
    for chat, one in found.items():
        name = "all chats" if chat == EVERY_CHAT else chat
        typer.echo(
            f"{name:16} {one.messages:9,.0f} {one.input_tokens + one.cache_write:11,.0f} {one.output_tokens:9,.0f} {one.cache_read:11,.0f} "
            f"{one.cost_usd:9.2f}"
        )
