"""How soon the first words of an answer are in the chat after Claude's first token: the real Claude CLI at a loopback API, our dispatcher, our bot,
and a stand-in for the Bot API, all over real connections."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from scripts.benchmarks.world import BINARIES, describe_machine, own_world, started

#: A private chat, which gets drafts, and a group, which gets edits.
CHATS = {"private chat (drafts)": 101, "group (edits)": -1009912}
QUESTION = "@memory_bot Where is number {number}?"
PIECES = ("It is ", "in **Lisbon**, ", "on the third ", "shelf from ", "the left, ", "beside the ", "window.")
END = "It is in Lisbon, on the third shelf from the left, beside the window."
#: Seconds between two pieces, between two questions (a group is shown 15 times a minute), and that one answer may take.
PAUSE, BETWEEN, LONGEST = 0.5, 2.0, 60.0


def stream(
    answers: Annotated[int, typer.Option(help="Answers in each kind of chat.")] = 20,
    record: Annotated[
        Path | None, typer.Option(help="Write the Bot API's traffic of one answer in each kind of chat to this file.")
    ] = None,
) -> None:
    """From Claude's first token to the first words in the chat, with the real CLI."""
    from tests.servers.messages_api import MessagesApi, Streamed
    from tests.servers.telegram_api import TelegramApi

    describe_machine()
    with (
        own_world() as environment,
        TelegramApi() as telegram,
        MessagesApi(lambda _: Streamed(PIECES, PAUSE, thinking=("Where ", "was it?"))) as claude,
        started(variables := _variables(environment, telegram.url, claude.url), "hmem", "run"),
        started(variables, "hmem", "telegram"),
    ):
        recorded = []
        for label, chat in CHATS.items():
            _answer(telegram, chat, 0)  # the first one loads what the others have
            waits = []
            for number in range(1, answers + 1):
                time.sleep(BETWEEN)
                said, calls = len(claude.first_words_at), len(telegram.calls)
                _answer(telegram, chat, number)
                new = [call for call in telegram.calls[calls:] if str(call.params.get("chat_id")) == str(chat)]
                first = next(call.at for call in new if str(call.params.get("text", "")).startswith("It is"))
                waits.append(first - claude.first_words_at[said])
            recorded.append(_recording(label, new))
            p95 = statistics.quantiles(waits, n=20)[-1]
            typer.echo(
                f"{label}: first words {statistics.median(waits):.2f} s after Claude's first token (median), "
                f"p95 {p95:.2f} s, longest {max(waits):.2f} s, of {answers} answers"
            )
    if record:
        record.parent.mkdir(exist_ok=True)
        record.write_text("\n".join(recorded), encoding="utf-8")


def _variables(environment: dict[str, str], telegram_url: str, claude_url: str) -> dict[str, str]:
    from tests.servers.telegram_api import TOKEN

    return environment | {
        "CLAUDE_BIN": str(BINARIES / "claude"), "ANTHROPIC_BASE_URL": claude_url, "ANTHROPIC_API_KEY": "bench",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_API_URL": telegram_url,
        "ALLOWED_CHATS": ",".join(map(str, CHATS.values())),
    }  # fmt: skip


def _answer(telegram: Any, chat: int, number: int) -> None:
    """Ask, and wait for the whole answer."""
    from tests.servers.telegram_messages import mention

    question = QUESTION.format(number=number)
    before = len(telegram.texts(chat))
    telegram.say(chat, question, entities=mention(question))
    deadline = time.monotonic() + LONGEST
    while telegram.texts(chat)[before:] != [END]:
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: no answer came, only {telegram.texts(chat)[before:]}")
        time.sleep(0.01)


def _recording(label: str, calls: list[Any]) -> str:
    """A line for each call: seconds since the first, the method, and what Telegram was given and said."""
    shown = ("chat_id", "draft_id", "message_id", "action", "text", "entities")
    lines = [
        f"{call.at - calls[0].at:6.2f} s  {call.method:18} {call.status}  "
        + "  ".join(f"{name}={call.params[name]!r}" for name in shown if name in call.params)
        for call in calls
    ]
    return f"# {label}\n" + "\n".join(lines) + "\n"
