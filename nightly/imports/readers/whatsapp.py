"""WhatsApp's "Export chat": a text file (`_chat.txt`, `WhatsApp Chat with ….txt`), alone or in a ZIP archive with the media.

    Android   31/12/2023, 23:59 - Ann: text                iOS   [31.12.23, 23:59:07] Ann: text
              12/31/23, 11:59 PM - Ann: text                     [2023-12-31, 11:59:07 p.m.] ~ Ann: text

WhatsApp documents that there is an export (faq.whatsapp.com, "How to export your chat history"), not its format, which follows the phone's language
and region. It is read as public readers of it do: github.com/Pustur/whatsapp-chat-parser (src/parser.ts), github.com/lucasrodes/whatstk.

A message goes on until the next line that begins with a date and a time. A line without `Name: ` is a notice of WhatsApp, and on iOS so is one whose
text begins with a left-to-right mark; media have a mark in their place, in whatever language. Dates are read in the order that all of them allow:
where that is open, the one in which they never go back; where that is open, too, the person must say it (--dates). Times are those of CHAT_TIMEZONE.

A turn's id is made of its minute as written, its words, and its number among equal ones of that minute: so an export of another phone, with seconds
or with another name for a person, has the same ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from nightly.imports.candidates import ReadCandidate, Wanted, made_up_id, taken_or_left, turn_candidate
from nightly.imports.containers.members import MOST_TEXT_BYTES, Member
from nightly.imports.containers.opening import Export, opened_export
from nightly.imports.readers.whatsapp_lines import MARKS, Head, head_of, not_said, split_media
from shared.errors import InvalidInput
from shared.turns.message_origin import Origin
from shared.turns.records import RecordRefused, Turn

SOURCE = "whatsapp"

#: The orders in which a date may be written, as --dates names them: where year, month and day stand.
ORDERS = {"dmy": (2, 1, 0), "mdy": (2, 0, 1), "ymd": (0, 1, 2)}


@dataclass
class _Message:
    """One that is being collected. `line`: its first one."""

    head: Head
    line: int
    parts: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, line: str | None) -> None:
        """One more line; None for one that is too long."""
        self.size += len(line) + 1 if line is not None else MOST_TEXT_BYTES + 1
        if line is not None and self.size <= MOST_TEXT_BYTES:
            self.parts.append(line)


@dataclass
class _Chat:
    """One exported chat while it is read. `bot`: the name of the sender who is the assistant, in lower case."""

    export: Export
    members: list[Member]
    index: int
    unit: int
    wanted: Wanted
    zone: ZoneInfo
    order: tuple[int, int, int]
    bot: str | None
    equal: Counter[str] = field(default_factory=Counter)
    minute: str = ""

    def read(self) -> Iterator[ReadCandidate]:
        """In order, each message when the next one begins."""
        message: _Message | None = None
        done = 0
        for number, line, read in self.members[self.index].lines():
            head = head_of(line) if line is not None else None
            if head is None and message is None:
                if line is None or line.strip(MARKS + " "):
                    yield ReadCandidate(
                        done, unreadable="it is no message of WhatsApp's export", place=self.place(number)
                    )
            elif head is None and message is not None:
                message.add(line)
            else:
                if message:
                    yield self._outcome(message, done)
                assert head  # noqa: S101 - one of the three cases
                message = _Message(head, number, [head.text], len(head.text))
            done = self.export.done(self.members, self.index, read)
        if message:
            yield self._outcome(message, done)

    def place(self, line: int) -> str:
        return f"{self.export.place(self.members[self.index])}:{line}"

    def _outcome(self, message: _Message, done: int) -> ReadCandidate:
        head = message.head
        if message.size > MOST_TEXT_BYTES:
            why = f"the message is longer than {MOST_TEXT_BYTES >> 20} MiB"
            return ReadCandidate(done, unreadable=why, place=self.place(message.line))
        if head.sender is None:
            return ReadCandidate(done, left_out="a notice of WhatsApp")
        text = "\n".join(message.parts)
        if why_not := not_said(text):
            return ReadCandidate(done, left_out=why_not)
        local = head.moment(self.order)
        if local is None:
            return ReadCandidate(done, unreadable="its date or time is not valid", place=self.place(message.line))
        try:
            return taken_or_left(
                self.wanted, done, turn_candidate(SOURCE, self.unit, self._turn(head.sender, text, local))
            )
        except RecordRefused as error:
            return ReadCandidate(done, unreadable=str(error), place=self.place(message.line))

    def _turn(self, sender: str, said: str, local: datetime) -> Turn:
        text, attachment = split_media(said)
        minute, words = local.strftime("%Y-%m-%dT%H:%M"), " ".join(text.split())
        if minute != self.minute:  # so that a long chat is not in memory
            self.minute = minute
            self.equal.clear()
        self.equal[words] += 1
        task_id = made_up_id("wa", self.wanted.chat, minute, words, self.equal[words])
        by_bot = self.bot is not None and sender.casefold() == self.bot
        extra = {} if by_bot else Origin.parse({"attachment": attachment}).to_json()
        at = local.replace(tzinfo=self.zone).timestamp()
        role, name = ("asst", None) if by_bot else ("user", sender)
        return Turn(task_id, role, self.wanted.chat or "", text, at, name, extra=extra)


def read(
    path: Path, unit: int, wanted: Wanted, zone: ZoneInfo, bot: str | None, dates: str | None
) -> Iterator[ReadCandidate]:
    """`bot`: the name of the sender who is the assistant; None: nobody is. `dates`: one of ORDERS, or None: InvalidInput if it must be named."""
    with opened_export(path, zone) as export:
        members = export.named("_chat.txt", "*whatsapp*.txt") if not _only_text(export) else export.named("*.txt")
        for refused, why in export.refused:
            yield ReadCandidate(0, unreadable=why, place=export.place_of(refused))
        for index, member in enumerate(members):
            try:
                order = ORDERS[dates] if dates else _order_of(export, member)
                name = bot.strip().casefold() if bot else None
                yield from _Chat(export, members, index, unit, wanted, zone, order, name).read()
            except RecordRefused as error:
                yield ReadCandidate(export.done(members, index, 0), unreadable=str(error), place=export.place(member))


def _only_text(export: Export) -> bool:
    """Whether it holds one text, whatever its name: in other languages than English it is `WhatsApp-Chat mit ….txt`, `Discussion …`."""
    return sum(one.base.lower().endswith(".txt") for one in export.members) == 1


def _order_of(export: Export, member: Member) -> tuple[int, int, int]:
    """The order in which all dates of the file are valid and, if there are several, in which they go back least."""
    last: dict[str, datetime] = {}
    back: Counter[str] = Counter()
    possible, heads, differ = list(ORDERS), 0, False
    for _, line, _ in member.lines():
        if line is None or (head := head_of(line)) is None:
            continue
        heads += 1
        moments = {name: at for name in possible if _is_usual(name, head) and (at := head.moment(ORDERS[name]))}
        if not moments:
            continue  # a line in a message that looks like one, perhaps
        possible = list(moments)
        differ |= len({*moments.values()}) > 1
        for name, at in moments.items():
            back[name] += name in last and at < last[name]
            last[name] = at
    if not heads:
        raise RecordRefused("no line of it begins with a date and a time, so it is no export of a WhatsApp chat")
    least = min(back[name] for name in possible)
    found = [name for name in possible if back[name] == least]
    if len(found) > 1 and differ:
        raise InvalidInput(
            f"{export.place(member)} does not show in which order day, month and year are written. Name it with --dates dmy, mdy or ymd; "
            "nothing was imported."
        )
    return ORDERS[found[0]]


def _is_usual(order: str, head: Head) -> bool:
    """No region writes the month first with dots; and a year of two digits stands first in so few that it must be said."""
    return not (order == "mdy" and head.dotted) and not (order == "ymd" and len(head.numbers[0]) != 4)
