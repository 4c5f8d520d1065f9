"""Reads the files of a task: one reader for each kind in `MediaReader`. What cannot be read is refused in a sentence.

task with media ─ store (hash checked) ─ pictures, documents: blocks for Claude │ recordings: their words become the message ─ Read
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from redis import RedisError

from dispatcher.answering.retry import keep_trying
from dispatcher.features.media import NotRead
from dispatcher.features.media.documents import conversion
from dispatcher.features.media.documents.conversion import DocumentReader
from dispatcher.features.media.documents.forms import FileForm, form_of
from dispatcher.features.media.pictures import block_of, mime_of
from dispatcher.features.media.transcription import Spoken, Transcriber
from shared.text.format import cut, one_line, shorten
from shared.text.translations import later, tr
from shared.turns.conversation import inline
from shared.turns.media import DOCUMENT, HEARD, HEARD_MARK, LABEL_CHARACTERS, PICTURES, TEXT_CHARACTERS, Media, name_of
from shared.turns.records import Task
from shared.turns.speakers import plain_name
from shared.wire.media import MediaStore

#: How much of what was heard is shown above the answer. Characters.
SHOWN_CHARACTERS = 1_500
#: Sentences beside the beginning, and how much of the beginning there is. Characters.
SENTENCES, BEGINNING_CHARACTERS = 3, 120
CUT = later("{name}: I read only the first {most:,} of its {all:,} characters.")
NOT_THERE = later("The file of this message is not there any more, so I did not read it. Please send it again.")
UNKNOWN = later("I cannot read a file of this kind, so I did not look at it.")


@dataclass
class Read:
    """`task`: with what was heard as its message, and with what is remembered of each file; `blocks`: what Claude gets ahead of the message;
    `lines`: what its header says of the files; `heard`: what was said in recordings; `refusals`: sentences about what was not read;
    `notes`: about what was read in part."""

    task: Task
    blocks: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pictures: list[int] = field(default_factory=list)  # their places among the task's media
    documents: int = 0

    @property
    def refusal(self) -> str:
        """The answer, if nothing was read."""
        return "" if self.blocks or self.heard else " ".join(dict.fromkeys(self.refusals))

    @property
    def shown(self) -> str:
        """What stands above the answer, in Markdown."""
        heard = [f'{HEARD_MARK} "{_plain(shorten(one_line(text), SHOWN_CHARACTERS))}"' for text in self.heard]
        return "\n\n".join([*heard, *dict.fromkeys(self.refusals), *self.notes])


def _plain(text: str) -> str:
    """So that nothing in it is markup."""
    escaped = inline(text)
    for mark in "<>&":
        escaped = escaped.replace(f"\\{mark}", mark)
    return escaped


def _told(one: Media) -> str:
    """The name of a file in a sentence of ours."""
    return _plain(plain_name(one.name or "") or tr("a file without a name"))


class MediaReader:
    """One per dispatcher."""

    def __init__(
        self,
        store: MediaStore,
        transcriber: Transcriber,
        documents: DocumentReader,
        chosen: Callable[[str], str | None],
    ) -> None:
        """`chosen`: chat → the language that it has chosen; it asks Redis, and raises RedisError."""
        self._store, self._transcriber, self._documents, self._chosen = store, transcriber, documents, chosen
        self._readers: dict[str, Callable[[Read, int, bytes], Awaitable[None]]] = {
            **dict.fromkeys(PICTURES, self._picture),
            **dict.fromkeys(HEARD, self._recording),
            DOCUMENT: self._document,
        }

    async def read(self, task: Task) -> Read:
        read = Read(task)
        for place, one in enumerate(task.media):
            try:
                await self._read(read, place, one)
            except NotRead as error:
                read.refusals.append(str(error))
                read.lines.append(f"Attached, and not readable for you: {name_of(one.kind)}.")
        if read.heard:
            words = "\n\n".join(filter(None, [task.message.strip(), *read.heard]))
            read.task = replace(read.task, message=words)
        return read

    async def _read(self, read: Read, place: int, one: Media) -> None:
        reader = self._readers.get(one.kind)
        if reader is None:
            raise NotRead(tr(UNKNOWN))
        content = await keep_trying(lambda: self._store.get(one.sha256))
        if content is None:
            raise NotRead(tr(NOT_THERE))
        await reader(read, place, content)

    async def _picture(self, read: Read, place: int, content: bytes) -> None:
        read.blocks.append(block_of(content))
        read.pictures.append(place)
        kind = read.task.media[place].kind
        of = "the beginning of a " if kind in ("video", "animation") else ""
        read.lines.append(f"Attached as image {len(read.pictures)}, ahead of these lines: {of}{name_of(kind)}.")

    async def _recording(self, read: Read, place: int, content: bytes) -> None:
        one = read.task.media[place]
        text = await self._transcriber.text_of(one, content, await self._spoken(read.task))
        read.heard.append(text)
        read.task = replace(read.task, media=_with_text(read.task.media, place, text))
        read.lines.append(
            f"Spoken, not written: a {name_of(one.kind)}, transcribed by a program, which may have misheard."
        )

    async def _spoken(self, task: Task) -> Spoken:
        try:
            chosen = await asyncio.to_thread(self._chosen, task.chat_id)
        except RedisError:
            chosen = None
        return Spoken(chosen or "", task.language or "")

    async def _document(self, read: Read, place: int, content: bytes) -> None:
        """By what it is: a picture or a recording may be sent as a file, too."""
        if mime_of(content):
            return await self._picture(read, place, content)
        if form_of(content) is FileForm.SOUND:
            return await self._recording(read, place, content)
        one = read.task.media[place]
        try:
            document = await self._documents.read(content)
        except NotRead as error:
            raise NotRead(f"{_told(one)}: {error}") from None
        read.documents += 1
        read.blocks.append(conversion.block_of(read.documents, one.name, document, content))
        read.lines.append(conversion.line_of(read.documents, one.name, document))
        if document.cut and not document.is_pdf:
            read.notes.append(tr(CUT).format(name=_told(one), most=len(document.text), all=document.characters))
        text = cut(document.text, TEXT_CHARACTERS)
        summary = await asyncio.to_thread(summary_of, text)
        read.task = replace(read.task, media=_with_text(read.task.media, place, text, summary))
        return None


def with_shown(media: tuple[Media, ...], pictures: Sequence[int], said: Mapping[int, str]) -> tuple[Media, ...]:
    """With what the answer says is in each picture. `pictures`: their places; `said`: number of the picture, from 1 → what it shows."""
    for number, place in enumerate(pictures, start=1):
        if text := said.get(number):
            media = _with_text(media, place, text)
    return media


def _with_text(media: tuple[Media, ...], place: int, text: str, summary: str = "") -> tuple[Media, ...]:
    """With what is remembered of the file at this place."""
    return (*media[:place], replace(media[place], text=text, summary=summary), *media[place + 1 :])


def summary_of(text: str) -> str:
    """Its beginning and the sentences that tell most, of the document's own words; "" for a text that is short enough to be told whole."""
    from shared.ranking.extractive_summary import summarise
    from shared.turns.chunk import Chunk
    from shared.turns.chunking import clean, passages

    text = clean(text)
    if len(text) <= LABEL_CHARACTERS:
        return ""
    first = next(line for line in text.splitlines() if any(map(str.isalnum, line)))
    chunks = [Chunk(f"#{at}", "", "", ("",), "user", "", part, at, at) for at, part in enumerate(passages(text))]
    chosen = summarise(chunks, SENTENCES)
    told = [one_line(one.text) for one in chosen]
    begun = shorten(one_line(first), BEGINNING_CHARACTERS)
    return shorten(
        " … ".join(dict.fromkeys([begun, *(one for one in told if one != one_line(first))])), LABEL_CHARACTERS
    )
