"""WhatsApp's "Export chat": a text file (`_chat.txt`, `WhatsApp Chat with ….txt`), alone or in a ZIP archive with the media.

    Android   31/12/2023, 23:59 - Ann: text                iOS   [31.12.23, 23:59:07] Ann: text
              12/31/23, 11:59 PM - Ann: text                     [2023-12-31, 11:59:07 p.m.] ~ Ann: text
    Copied from WhatsApp Web                                 [23:59, 31/12/2023] Ann: text

WhatsApp documents that there is an export (faq.whatsapp.com, "How to export your chat history"), not its format, which follows the phone's language
and region. It is read as public readers of it do: github.com/Pustur/whatsapp-chat-parser (src/parser.ts), github.com/lucasrodes/whatstk.

A message goes on until the next line that begins with a date and a time. A line without `Name: ` is a notice of WhatsApp, and on iOS so is one that
begins with a left-to-right mark, dated or not; what stands ahead of the first message; what has the group's own name for a sender; and a line whose
colon stands within a quote. What WhatsApp writes for a file, an edit or media is known by its form, in languages of which no phrases are known, too
(media.py). Dates are read in the order that fits nearly all of them and in which they go back least; where that is open,
the person must say it (--dates). Times are those of CHAT_TIMEZONE.

Of an archive one text is read. Attachments keep the names that their senders gave them, so a file that may be one is never read.

A turn's id is made of its minute as written, its words, and its number among equal ones of that minute: so an export of another phone, with seconds
or with another name for a person, has the same ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from zoneinfo import ZoneInfo

from nightly.imports.candidates import ReadCandidate
from nightly.imports.containers.members import MOST_TEXT_BYTES, Member
from nightly.imports.containers.opening import Export, opened_export
from nightly.imports.formats import ImportFormat, Source, file_by_file
from nightly.imports.readers.conversations import Messenger
from nightly.imports.readers.whatsapp_text.dates import ORDERS, Dates, dates_of
from nightly.imports.readers.whatsapp_text.lines import MARKS, Head, head_of
from nightly.imports.readers.whatsapp_text.media import Marks, is_notice
from nightly.imports.recognition import beginnings
from shared.errors import InvalidInput
from shared.hooks import hook
from shared.turns.records import RecordRefused, Turn

_NOTICE = "a notice of WhatsApp"
_AHEAD = "ahead of the first message (a notice without a date, or the rest of a message that was cut off)"

#: What iOS puts ahead of the names of attachments, so that none of them is a chat's: `00000012-notes.txt`.
_IOS_ATTACHMENT = re.compile(r"\d{8}-")
#: Texts that are listed.
_SHOWN_TEXTS = 10
#: Lines of a text by which it is recognised.
_FIRST_LINES = 50
#: What a program calls itself or what it measured, and few people: `sshd`, `room_2`.
_ONE_WORD = re.compile(r"[a-z0-9._-]+")


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
    """One exported chat while it is read."""

    member: Member
    messenger: Messenger
    zone: ZoneInfo
    dates: Dates
    marks: Marks

    def read(self) -> Iterator[ReadCandidate]:
        """In order, each message when the next one begins."""
        message: _Message | None = None
        done = 0
        for number, line, read in self.member.lines():
            head = self._head(line, message)
            if head is not None:
                if message:
                    yield self._outcome(message, done)
                message = _Message(head, number, [head.text], len(head.text))
            elif message is None:
                if line is None or line.strip(MARKS + " "):
                    yield ReadCandidate(done, left_out=_AHEAD)
            elif is_notice(line, message.head):
                yield ReadCandidate(done, left_out=_NOTICE)
            else:
                message.add(line)
            done = read
        if message:
            yield self._outcome(message, done)

    def _head(self, line: str | None, before: _Message | None) -> Head | None:
        head = head_of(line) if line is not None else None
        if not isinstance(head, Head) or (before is not None and self.dates.is_pasted(head)):
            return None
        return head

    def _outcome(self, message: _Message, done: int) -> ReadCandidate:
        return ReadCandidate.of(done, f":{message.line}", partial(self._turn, message))

    def _turn(self, message: _Message) -> Turn | str:
        head = message.head
        if message.size > MOST_TEXT_BYTES:
            raise RecordRefused(f"the message is longer than {MOST_TEXT_BYTES >> 20} MiB")
        if head.sender is None or self.marks.is_nobody(head):
            return _NOTICE
        text = "\n".join(message.parts)
        if why_not := self.marks.not_said(text, ios=head.ios):
            return why_not
        local = self.dates.moment(head)
        if local is None:
            raise RecordRefused("its date or time is not valid")
        said, attachment = self.marks.split_media(text)
        at, minute = local.replace(tzinfo=self.zone).timestamp(), local.strftime("%Y-%m-%dT%H:%M")
        return self.messenger.turn(head.sender, said, at, minute, attachment=attachment)


def read(path: Path, source: Source) -> Iterator[ReadCandidate]:
    """Options: `bot`, the name of the sender who is the assistant; `dates`, one of ORDERS. InvalidInput if that must be named."""
    dates = source.options.get("dates")
    messenger = Messenger("whatsapp", source.wanted, source.options.get("bot"), source.options.get("as"))
    if dates is not None and dates not in ORDERS:
        raise InvalidInput(f"--dates {dates} is no order. Write dmy, mdy or ymd.")

    def chat(member: Member) -> Iterator[ReadCandidate]:
        files = frozenset(one.base for one in export.members if one is not member)
        marks = Marks(files, (export.path.stem, PurePosixPath(member.base).stem))
        order = dates_of(member, export.place(member), dates, marks)
        for note in order.notes:
            yield ReadCandidate(0, note=note)
        yield from _Chat(member, messenger, source.zone, order, marks).read()

    with opened_export(path, source.zone) as export:
        yield from export.each([_chat_of(export)], chat)
        yield from messenger.people(path, export.size)


def _chat_of(export: Export) -> Member:
    """The one text that WhatsApp wrote. InvalidInput if there is none, or if an attachment could pass for it."""
    found = _texts_of(export)
    if not found:
        raise InvalidInput(
            f"There is no text of a chat at the top of {export.path} (_chat.txt, WhatsApp Chat with ….txt). Name that text, or the ZIP archive as "
            "WhatsApp made it."
        )
    if len(found) > 1:
        listed = ", ".join(export.place_of(one.name) for one in found[:_SHOWN_TEXTS])
        listed += ", …" if len(found) > _SHOWN_TEXTS else ""
        raise InvalidInput(
            f"{export.path} has {len(found)} texts that could be the chat: {listed}. An attachment keeps the name that its sender gave "
            "it. Unpack the one that WhatsApp wrote, and name it alone; nothing was imported."
        )
    return found[0]


def _texts_of(export: Export) -> list[Member]:
    """Those that WhatsApp may have written."""
    if export.alone:
        return export.members
    texts = [one for one in _at_the_top(export.members) if one.base.lower().endswith(".txt")]
    written = [one for one in texts if not _IOS_ATTACHMENT.match(one.base)]
    named = [one for one in written if one.base.casefold() == "_chat.txt" or "whatsapp" in one.base.casefold()]
    # In other languages than English it is `WhatsApp-Chat mit ….txt`, `Discussion ….txt`.
    return named or written


def _at_the_top(members: list[Member]) -> list[Member]:
    """The files beside each other at the top, or in the folder that holds everything."""
    depths = [len(PurePosixPath(one.name).parts) for one in members]
    top = min(depths, default=0)
    return [one for one, depth in zip(members, depths, strict=True) if depth == top]


def _recognise(export: Export) -> str | None:
    """By the first lines: one of them begins a message, or a notice ahead of one.

    A name of capitals alone is a level of a log's: INFO, production.ERROR; and one word in lower case is a person's only beside others.
    """
    for where, content in beginnings(export, _texts_of(export)):
        heads = [head_of(line) for line in content.decode("utf-8", "replace").splitlines()[:_FIRST_LINES]]
        dated = [one for one in heads if isinstance(one, Head) and any(map(one.moment, ORDERS.values()))]
        names = {one.sender for one in dated if one.sender and not _is_level(one.sender.rpartition(".")[2])}
        if any(one in dated for one in heads[:3]) and (len(names) > 1 or not all(map(_ONE_WORD.fullmatch, names))):
            return f"{where} whose lines begin with a date, a time and a name"
    return None


def _is_level(name: str) -> bool:
    return name.isascii() and name.isupper()


@hook
def import_formats() -> Sequence[ImportFormat]:
    what = "WhatsApp's exported chat (ZIP or text)"
    return [ImportFormat("whatsapp", what, file_by_file(read), _recognise, options=("bot", "as", "dates"))]
