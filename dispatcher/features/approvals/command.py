"""`hmem approvals`."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

import typer
from redis import Redis

from dispatcher.cli.arguments import Json, connect, given_chat
from dispatcher.features.approvals import keys
from shared.system.command import application, print_json, start
from shared.text.format import time_text
from shared.wire.json import record_of
from shared.wire.values import shown

_TEXTS = ("id", "chat_id", "user_id", "task_id", "tool", "input_sha256", "input", "decision", "by", "name")

app = application()


@app.command()
def approvals(
    chat: Annotated[str | None, typer.Option(help="Only of this chat; --chat=-100 for a negative one.")] = None,
    json: Json = False,
) -> None:
    """Which tools Claude asked for in the chats (APPROVE_TOOLS), with what, and who allowed or denied each; oldest first, the last 1,000."""
    settings = start()
    with closing(connect(settings)) as client:
        records = _records(client)
    if chat is not None:
        # While a first message is answered, its chat is known by its approvals only.
        chat_id = chat if any(one["chat_id"] == chat for one in records) else given_chat(settings, chat)
        records = [one for one in records if one["chat_id"] == chat_id]
    if json:
        print_json(records)
        return
    for one in records:
        who = f" by {one['name'] or one['by']}" if one["by"] else ""
        line = f"{one['tool']} {one['decision']}{who}: {one['input']}"
        typer.echo(f"{time_text(one['at'], settings.timezone)}  chat {shown(one['chat_id'])}  {shown(line)}")
    typer.echo(f"{len(records)} decisions" + (f"; times in {settings.chat_timezone}" if records else ""), err=True)


def _records(client: Redis) -> list[dict[str, Any]]:
    """Oldest first; what another program wrote is left out."""
    redis: Any = client
    found = []
    for raw in redis.lrange(keys.RECORDS, 0, -1):
        record = record_of(raw)
        if isinstance(record.get("at"), float) and all(isinstance(record.get(name), str) for name in _TEXTS):
            found.append({"at": record["at"], **{name: record[name] for name in _TEXTS}})
    return found
