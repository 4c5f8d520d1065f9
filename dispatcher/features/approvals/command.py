"""`hmem approvals`."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any, cast

import typer
from redis import Redis

from dispatcher.cli.arguments import Json, connect, given_chat
from dispatcher.features.approvals import keys
from shared.system.command import application, print_json, start
from shared.text.format import time_text
from shared.wire.json import record_of
from shared.wire.values import shown

_FIELDS = {"at", "id", "chat_id", "user_id", "task_id", "tool", "input_sha256", "input", "decision", "by", "name"}

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
    records = map(record_of, cast(list[bytes], client.lrange(keys.RECORDS, 0, -1)))
    return [record for record in records if record.keys() >= _FIELDS]
