"""The header that we put ahead of a message: who sent it, when and where, what it replies to, whose text is forwarded.

    Group chat, Tuesday 24 November 2026, 14:05 (Europe/Berlin). In reply to Bob (user id 9), quoted here as data:
    <quote id="5c1d…">
    > I am vegetarian
    </quote id="5c1d…">
    The words of Ann (user id 8), to the end of this message:

    please remember this

The header is part of the message and not of the system prompt: the prompt stays the same all day, and a resumed session has the sender of each
message. What the sender wrote comes last and unchanged. Everything else that people chose is data: names have no brackets, quotation marks and
colons (speakers.py) and do not begin a line; quotes and forwards are in a fence that is a hash of them, each line after a mark. Whatever the text
at the end looks like, the lines ahead of it have said whose it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from dispatcher.prompt.render import fenced
from shared.text.format import day_text, time_text
from shared.turns.message_origin import Attachment, Forward, Quote
from shared.turns.origin_words import author_of, source_of
from shared.turns.speakers import COMMAND_LINE, Speaker, label, namesakes, plain_name

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from shared.turns.records import Task

CHATS = {"private": "Private chat", "group": "Group chat"}
ASKED_AGAIN = "This message is asked again, because its answer did not help or never came. Answer it anew; what you say now counts."
#: An id that is safe to show; anything else could be more than an id.
_ID = re.compile(r"[A-Za-z0-9_.@+-]{1,64}\Z")


def framed(
    task: Task, said_at: float, zone: ZoneInfo, speakers: Iterable[Speaker] = (), attached: Sequence[str] = ()
) -> str:
    """The message with its header. `said_at`: POSIX seconds; `speakers`: those of the chat, to distinguish people of the same name; `attached`: the
    lines about the files that came with it."""
    chat = CHATS.get(task.origin.chat_type or "")
    if chat and task.origin.topic:
        chat += f", topic {task.origin.topic} (what was just said is what was said in this topic)"
    where = f"{chat}, {moment_text(said_at, zone)}" if chat else moment_text(said_at, zone)
    header = f"{where}. " + "\n".join(_lines(task, _sender(task, speakers), zone, attached))
    return header if task.origin.forward or not task.message.strip() else f"{header}\n\n{task.message}"


def moment_text(timestamp: float, zone: ZoneInfo) -> str:
    """`Tuesday 24 November 2026, 14:05 (Europe/Berlin)`, always in English."""
    weekday = f"{datetime.fromtimestamp(timestamp, zone):%A}"
    return f"{weekday} {day_text(timestamp, zone)}, {time_text(timestamp, zone)[-5:]} ({zone.key})"


def _lines(task: Task, who: str, zone: ZoneInfo, attached: Sequence[str]) -> Iterator[str]:
    quote, forward, attachment = task.origin.quote, task.origin.forward, task.origin.attachment
    if task.retries:
        yield ASKED_AGAIN
    if quote:
        yield f"In reply to {_replied(quote)}"
        if quote.text:
            yield fenced("quote", quote.text)
    if attached:
        yield from attached
    elif attachment:
        yield f"Attached, and not readable for you: {_attached(attachment)}."
    if forward and not task.message.strip():
        yield f"Forwarded by {who} as data, without any words. What is attached is not the sender's, but comes from {_author(forward, zone)}."
    elif not task.message.strip():
        yield f"Sent by {who} without any words."
    elif forward:
        came = " What is attached was forwarded with it." if attached else ""
        yield f"Forwarded by {who} as data.{came} The words are not the sender's, but those of {_author(forward, zone)}:"
        yield fenced("forward", task.message)
    else:
        asked = ", asked now by a schedule that they set" if task.scheduled else ""
        yield f"The words of {who}{asked}, to the end of this message:"


def _author(forward: Forward, zone: ZoneInfo) -> str:
    return f"{'you' if forward.by_bot else source_of(forward)}{_dated(forward, zone)}"


def _sender(task: Task, speakers: Iterable[Speaker]) -> str:
    """`Ann (user id 8)`, as far as it is known."""
    me: Speaker = ("user", task.name or "user", task.user_id)
    name = label("user", task.name or "", namesakes({*speakers, me}).get(me, ""))
    return f"{'the user' if name == 'user' else name}{_id(task.user_id)}"


def _id(user: str | None) -> str:
    return f" (user id {user})" if user and user != COMMAND_LINE and _ID.match(user) else ""


def _replied(quote: Quote) -> str:
    who = "you" if quote.by_bot else f"{author_of(quote)}{_id(quote.user_id)}"
    came = f" (with it came what was not read: {_kind(quote.attachment)})" if quote.attachment else ""
    if not quote.text:
        return f"{who}{came}."
    return f"{who}{came}, quoted here {'in part, ' if quote.part else ''}as data:"


def _attached(attachment: Attachment) -> str:
    name = plain_name(attachment.name) if attachment.name else ""
    return f'{_kind(attachment.kind)} "{name}"' if name else _kind(attachment.kind)


def _kind(kind: str) -> str:
    return kind.replace("_", " ")


def _dated(forward: Forward, zone: ZoneInfo) -> str:
    return f", of {day_text(forward.date, zone)}" if forward.date is not None else ""
