"""`hmem ask`: enqueue a message as the bot would and wait for the answer: RPUSH, poll, verify, delete. Unsigned results are ignored."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, cast
from uuid import uuid4

import typer
from redis import Redis, ResponseError

from dispatcher.cli.arguments import Chat, Json, connect, given_chat
from shared.errors import AnswerFailed, AnswerTimeout, ForgedResult, InvalidInput
from shared.system.command import application, print_json, start
from shared.turns.records import RecordRefused, chat_id_of, dumps
from shared.turns.signed.results import RESULT_BYTES, Result
from shared.wire import keys

app = application()

POLL_SECONDS = 0.1


@app.command(context_settings={"ignore_unknown_options": True})
def ask(
    chat: Chat,
    text: Annotated[str, typer.Argument(help="The message.")],
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the answer.")] = 600.0,
    json: Json = False,
) -> None:
    """Enqueue a message as the bot would, wait, and print the answer. Exit code 69 if the dispatcher could not answer."""
    from shared.system.keys.signing_key import signing_key

    settings = start()
    if not text.strip():
        raise InvalidInput("The message is empty. Give it as the second argument.")
    secret = signing_key(settings, "no answer could be verified")
    result = answer_of(
        connect(settings),
        secret,
        given_chat(chat),
        text,
        timeout_seconds=timeout,
        task_bytes=settings.task_bytes,
    )
    if json:
        answer = {"output": result.output, "completed_at": result.completed_at}
        print_json(answer | {"usage": result.usage, "error": result.error})
    if result.error:
        raise AnswerFailed(result.output)
    if not json:
        typer.echo(result.output)


def answer_of(
    client: Redis,
    secret: str,
    chat_id: str,
    message: str,
    *,
    timeout_seconds: float,
    task_bytes: int,
) -> Result:
    """The verified answer; AnswerTimeout if none came, ForgedResult if only unsigned results came, InvalidInput if the message is too long."""
    task_id = f"cli-{uuid4()}"
    task = dumps(
        {
            "task_id": task_id,
            "message": message,
            "chat_id": chat_id_of(chat_id),
            "user_id": "cli",
            "submitted_at": datetime.now(UTC).isoformat(),
        }
    )
    if len(task) > task_bytes:
        raise InvalidInput(
            f"The message is too long: {len(task)} bytes, and the limit is {task_bytes} (TASK_BYTES). Shorten it."
        )
    client.rpush(keys.TASKS, task)
    deadline, junk = time.monotonic() + timeout_seconds, ""
    while time.monotonic() < deadline:
        try:
            if raw := _existing(client, task_id):
                result = Result.verified(secret, task_id, raw)
                client.delete(keys.result(task_id))
                return result
        except RecordRefused as error:
            junk = str(error)
        time.sleep(POLL_SECONDS)
    if junk:
        raise ForgedResult(
            f"The result that came within {timeout_seconds:g} s is not signed by the dispatcher ({junk}). Set the same RESULT_HMAC_KEY on both "
            "sides; if it is the same, another program writes to Redis."
        )
    raise AnswerTimeout(
        f"No answer within {timeout_seconds:g} s. Is the dispatcher running (hmem run)? The message stays queued."
    )


def _existing(client: Redis, task_id: str) -> bytes | None:
    """The bytes at the key of the result; RecordRefused if they cannot be an answer, which is checked without fetching them."""
    try:
        size = client.strlen(keys.result(task_id))
        if size > RESULT_BYTES:
            raise RecordRefused(f"{size} bytes are more than an answer can have")
        return cast(bytes | None, client.get(keys.result(task_id))) if size else None
    except ResponseError as error:
        if not str(error).startswith("WRONGTYPE"):
            raise
        raise RecordRefused("a key of another type") from error
