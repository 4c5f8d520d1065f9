"""`hmem talk`: a conversation at the terminal, or one message."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dispatcher.cli.arguments import TERMINAL, Chat, Json, new_chat, say_notes, start_for
from shared.errors import AnswerFailed, InvalidInput
from shared.system.command import ChatCommand, application, print_json
from shared.wire.values import visible

app = application()


@app.command(cls=ChatCommand)
def talk(
    chat: Chat = TERMINAL,
    say: Annotated[str | None, typer.Option(help="Send this one message, print the answer, and end.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for an answer.")] = 600.0,
    json: Json = False,
) -> None:
    """Talk to Claude in the terminal, with the memory of a chat: a conversation until Ctrl-D, or one message from --say or standard input.

    Exit code 69 if the dispatcher could not answer the one message.
    """
    from dispatcher.bots.console.talk import ConsoleBot

    settings, chat_id = start_for(chat, new=True)
    say_notes(new_chat(settings, chat_id))
    typed = say is None and sys.stdin.isatty()
    conversation = ConsoleBot(settings, chat_id, look=sys.stdout.isatty() and sys.stdin.isatty() and not json)
    while typed:
        try:
            text = input("> ")
        except EOFError:
            typer.echo()
            return
        if text.strip():
            try:
                said = conversation.say(text, timeout).output
            except InvalidInput as error:
                said = str(error)
            typer.echo(visible(said) + "\n")
    text = sys.stdin.read() if say is None else say
    if not text.strip():
        raise InvalidInput("The message is empty. Give it with --say, or on standard input.")
    result = conversation.say(text, timeout)
    if json:
        answer = {"output": result.output, "completed_at": result.completed_at}
        print_json(answer | {"usage": result.usage, "error": result.error})
    if result.error:
        raise AnswerFailed(result.output)
    if not json:
        typer.echo(visible(result.output) if sys.stdout.isatty() else result.output)
