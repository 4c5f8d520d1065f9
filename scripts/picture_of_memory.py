"""The picture of the README: two days of one chat of the demo, a night after each, and what Claude is given with the next morning's question.

Dispatcher, nights and memory are real, the clock and Claude's answers are the sample's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from html import escape
from typing import Any

from scripts.demo import read_sample
from scripts.demo_host import STAND_IN, Host, Message, temporary_host

#: A Friday, so that "Thursday the 23rd" in the sample lies ahead.
FIRST_DAY = date(2026, 4, 17)
CHAT, SHOWN, ASKED_AT = 4471, "dentist", time(7, 30)
WIDTH = 720
STYLE = """
body {margin: 0; background: #cfdcc3; font: 16px/1.35 system-ui, "DejaVu Sans", sans-serif; color: #111}
main {padding: 14px 18px; display: flex; flex-direction: column; gap: 8px}
p {margin: 0; padding: 8px 12px; border-radius: 14px; max-width: 72%; background: #fff; align-self: flex-start}
p.said {background: #e3fbc9; align-self: flex-end}
p.day {background: #7d9468; color: #fff; align-self: center; font-size: 13px; padding: 3px 12px}
small {color: #6a7a5c; float: right; margin: 6px 0 0 10px}
section {background: #fff; border-left: 5px solid #0a5c8a; border-radius: 8px; padding: 10px 14px; font-size: 14px}
section h1 {font-size: 14px; margin: 0 0 6px; color: #0a5c8a}
section div {margin: 3px 0} section div.head {font-weight: bold; margin-top: 8px} mark {background: #ffe9a8}
"""


def days() -> Iterator[tuple[date, list[Message]]]:
    exchanges, _ = read_sample()
    mine = [one for one in exchanges if one.chat_id == CHAT]
    for number in sorted({one.day for one in mine}):
        yield FIRST_DAY + timedelta(days=number - 1), [one for one in mine if one.day == number]


def question() -> Message:
    return next(one for one in read_sample()[1] if one.chat_id == CHAT and SHOWN in one.message)


def lived(host: Host) -> dict[str, Any]:
    """Both days and nights; what `hmem context` says of the question on the morning after."""
    host.start_redis()
    host.start_dispatcher(STAND_IN)
    for day, messages in days():
        for number, message in enumerate(messages):
            at = datetime.combine(day, time.fromisoformat(message.time), UTC)
            host.enqueue(f"{day}-{number}", message, at)
            host.collect(f"{day}-{number}")
            host.date_answer(f"{day}-{number}", at)
        host.command("hmem-night", "run")
    return dict(json.loads(host.command("hmem", "context", "--json", "--", str(CHAT), question().message)))


def page(context: dict[str, Any]) -> str:
    parts = []
    for day, messages in days():
        parts.append(f"<p class=day>{day:%A %-d %B}</p>")
        shown = [one for one in messages if SHOWN in one.message]
        for one in shown:
            parts += [
                f"<p class=said>{escape(one.message)}<small>{one.time}</small></p>",
                f"<p>{escape(one.answer)}</p>",
            ]
        parts.append(f"<p class=day>… {len(messages) - len(shown)} more messages, then the night</p>")
    morning = FIRST_DAY + timedelta(days=2)
    asked = f"{escape(question().message)}<small>{ASKED_AT:%H:%M}</small>"
    parts += [f"<p class=day>{morning:%A %-d %B}, a new conversation</p>", f"<p class=said>{asked}</p>", given(context)]
    return f"<!doctype html><meta charset=utf-8><style>{STYLE}</style><main>{''.join(parts)}</main>"


def given(context: dict[str, Any]) -> str:
    """The recalled lines of the prompt, word for word."""
    lines = []
    for line in context["text"].partition("## Earlier turns")[2].splitlines()[1:]:
        if line and not line.startswith(("<record", "</record")):
            kind = "" if line.startswith("- ") else " class=head"
            lines.append(f"<div{kind}>{marked(line)}</div>")
    title = f"What Claude is given with it, newest first ({context['tokens']} tokens in all)"
    return f"<section><h1>{title}</h1>{''.join(lines)}</section>"


def marked(line: str) -> str:
    evidence = escape(question().expects)
    return escape(line).replace(evidence, f"<mark>{evidence}</mark>")


def made() -> str:
    with temporary_host(keep=False) as host:
        return page(lived(host))
