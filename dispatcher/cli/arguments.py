"""What the commands of `hmem` share: common arguments and the connection to Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.turns.records import RecordRefused, chat_id_of
from shared.wire.client import COMMAND, open_redis

if TYPE_CHECKING:
    from redis import Redis

Chat = Annotated[str, typer.Argument(help="Chat id, as the bot knows it (put -- before a negative one).")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def given_chat(value: str) -> str:
    try:
        return chat_id_of(value or None)
    except RecordRefused as error:
        raise InvalidInput(f"CHAT {value!r} cannot be a chat id: {error}.") from error


def connect(settings: Settings) -> Redis:
    return open_redis(settings.redis_url, COMMAND)
