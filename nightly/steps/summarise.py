"""Summarise: one text file a chat, from all that the archive has of it, with absolute dates, bounded. The chats without news keep theirs.

Sentences are picked word for word (shared/ranking/extractive_summary.py). With SUMMARY_MODEL a model writes notes from them and from the
newest turns, and what it left out is put back; where it fails, the picked sentences are the summary. A model never stops the night.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined

from nightly.archive.catalog import open_catalog
from nightly.archive.chat_chunks import ChatReader
from nightly.index.chunk_file import ChunkFolder, parse_lines
from nightly.index.kept_chats import carried
from nightly.index.previous import Last
from nightly.night.folder import Night
from nightly.night.record_failure import reason_of
from nightly.workers.task import Frames, TaskKind
from nightly.writing.missing_facts import put_back
from nightly.writing.model_texts import ModelTexts
from nightly.writing.summary_answer import OPTIONS, WRITTEN_CHARACTERS, refuse, tidy
from shared.ranking.extractive_summary import KINDS, Sentence, summarise
from shared.release.manifest import SUMMARIES, summary_file
from shared.system.files import make_dir, sha256_bytes, write_atomic
from shared.text.format import date_text, one_line, shorten
from shared.text.marks import harmless
from shared.turns.chunk import Chunk
from shared.turns.origin_words import replying
from shared.turns.speakers import label, namesakes

#: Characters of a chat's newest turns that a model gets in addition to the picked sentences, and of one passage.
RECENT_CHARACTERS, PASSAGE_CHARACTERS = 4000, 600
#: Bytes of chunks that are one task of `EXTRACTING`; a chat is never divided.
TASK_BYTES = 1_000_000
#: Bound of what is put back.
PUT_BACK_CHARACTERS = 700
#: Those who speak most are named in the first line.
SPEAKERS_NAMED = 6
#: Headings of the kinds of sentences (shared/ranking/extractive_summary.py).
TITLES = {
    "who": "Who is who:",
    "settled": "Done and settled:",
    "open": "Planned or open on that day:",
    "said": "Also said:",
}

#: Before a line of a model's; the template has its own.
_BULLET = re.compile(r"^(?:[-*•]\s+|[-*•]$)")

_TEMPLATES = Environment(
    loader=PackageLoader("nightly.writing"),
    undefined=StrictUndefined,
    autoescape=False,
    keep_trailing_newline=True,
)


@dataclass
class PutBack:
    """Counts of one night: sentences put back, and facts that had no room."""

    sentences: int = 0
    no_room: int = 0


def run(night: Night, out: Path) -> dict[str, Any]:
    """`files`: those that were written, by chat; `again`: chats that wait for a better text."""
    writer, counts = _writer(night), PutBack()
    try:
        linked, lost = _carry(night, out)
        files, without = dict[str, dict[str, Any]](), dict[str, str]()
        folder = ChunkFolder(night.output("chunk"))
        chats = itertools.chain(folder, _cut(night, lost))
        for chat_id, rows in night.report.track(chats, len(folder.chats) + len(lost), "summarise"):
            chunks = [chunk for chunk, _ in rows]
            try:
                text = (_written(night, writer, chunks, counts) if writer else None) or _text(night, chunks)
            except Exception as error:  # noqa: BLE001 - whatever it is about this chat, the others get their summaries
                without[chat_id] = reason_of(error)
                continue
            files[chat_id] = _write(summary_file(out, chat_id), text)
        made = {
            "summaries": linked + len(files),
            "without_summary": without,
            "files": files,
            "again": sorted({*without, *(writer.failed if writer else ())}),
        }
        if writer is None:
            return made
        writer.archive()
        return {
            **made,
            "put_back": counts.sentences,
            "no_room": counts.no_room,
            "failed": writer.failed,
            **writer.result(),
        }
    finally:
        if writer:
            writer.close()


def _carry(night: Night, out: Path) -> tuple[int, list[str]]:
    """Link the summaries of the chats without news; how many, and the chats whose summary is not as it was."""
    lost, linked, last = list[str](), 0, Last(night)
    folder = make_dir(out / SUMMARIES)
    for chat_id, account in carried(night):
        if not account["chunks"]:
            continue
        if (path := last.summary(account)) is None:
            lost.append(chat_id)
        else:
            os.link(path, folder / path.name)
            linked += 1
    return linked, lost


def _cut(night: Night, chats: list[str]) -> Iterator[tuple[str, list[tuple[Chunk, str]]]]:
    """Chats without news whose summary was lost."""
    if chats:
        with open_catalog(night) as catalog, ChatReader(catalog, night.archive_dir, night.settings.timezone) as reader:
            for chat_id in chats:
                yield chat_id, reader.cut(chat_id).chunks


def _write(path: Path, text: str) -> dict[str, Any]:
    """The file, as it is known to the next night."""
    content = text.encode("utf-8")
    make_dir(path.parent)
    write_atomic(path, content)
    return {
        "name": path.name,
        "size": len(content),
        "sha256": sha256_bytes(content),
        "modified": path.stat().st_mtime_ns,
    }


def _writer(night: Night) -> ModelTexts | None:
    model = night.settings.summary_model
    return ModelTexts(night, "summarise", model, OPTIONS, refuse=refuse) if model else None


def _text(night: Night, chunks: list[Chunk]) -> str:
    """The extractive summary."""
    return _extract(chunks, night.settings.timezone)


def _extract(chunks: list[Chunk], zone: ZoneInfo) -> str:
    chosen, topics = summarise(chunks)
    parts = [
        {
            "title": TITLES[kind],
            "lines": [_line(s.timestamp, s.speaker, s.text, zone) for s in reversed(chosen) if s.kind == kind],
        }
        for kind in KINDS
    ]
    template = _TEMPLATES.get_template("summary.txt.j2")
    return template.render(**_extent(chunks, zone), topics=topics, parts=[part for part in parts if part["lines"]])


def _written(night: Night, writer: ModelTexts, chunks: list[Chunk], counts: PutBack) -> str | None:
    """The model's summary with what it left out; None if it has not written one."""
    zone = night.settings.timezone
    chosen, _ = summarise(chunks)
    chat_id, made_from = chunks[0].chat_id, [chunk.chunk_id for chunk in chunks]
    answer = writer.write(chat_id, chat_id, made_from, _prompt(chosen, chunks, zone))
    if answer is None:
        return None
    text = tidy(answer)
    back, no_room = put_back(chosen, text, PUT_BACK_CHARACTERS)
    counts.sentences += len(back)
    counts.no_room += no_room
    notes = [note for line in text.split("\n") if (note := _BULLET.sub("", line))]
    also = [_line(s.timestamp, s.speaker, s.text, zone) for s in back]
    template = _TEMPLATES.get_template("written.txt.j2")
    return template.render(**_extent(chunks, zone), model=night.settings.summary_model, notes=notes, also=also)


def _prompt(chosen: list[Sentence], chunks: list[Chunk], zone: ZoneInfo) -> str:
    """What a model is asked: rules, and the chat as data inside a fence that is a hash of it."""
    said = [_line(s.timestamp, s.speaker, s.text, zone) for s in chosen]
    record = harmless(
        "\n".join(["Picked from the whole chat:", *said, "", "The newest turns:", *_recent(chunks, zone)])
    )
    fence = hashlib.sha256(record.encode("utf-8", "replace")).hexdigest()[:16]
    return _TEMPLATES.get_template("summary_prompt.txt.j2").render(
        characters=WRITTEN_CHARACTERS, fence=fence, record=record
    )


def _recent(chunks: list[Chunk], zone: ZoneInfo) -> list[str]:
    lines: list[str] = []
    room, marks = RECENT_CHARACTERS, namesakes({chunk.person for chunk in chunks})
    for chunk in reversed(chunks):
        who = f"{chunk.who(marks.get(chunk.person, ''))}{replying(chunk.origin)}"
        line = _line(chunk.started_at, who, shorten(one_line(chunk.text), PASSAGE_CHARACTERS), zone)
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    return lines[::-1]


def _line(timestamp: float, speaker: str, text: str, zone: ZoneInfo) -> str:
    return f"{date_text(timestamp, zone)} {speaker}: {text}"


def _extent(chunks: list[Chunk], zone: ZoneInfo) -> dict[str, Any]:
    """What the first line of a summary says."""
    dates = [date_text(chunk.started_at, zone) for chunk in chunks]
    turns = {turn_id: label(chunk.role, chunk.speaker) for chunk in chunks for turn_id in chunk.turn_ids}
    by_turns = sorted(Counter(turns.values()).items(), key=lambda pair: (-pair[1], pair[0]))
    speakers = [f"{name} ({count})" for name, count in by_turns[:SPEAKERS_NAMED]] + ["others"] * (
        len(by_turns) > SPEAKERS_NAMED
    )
    return {"turns": len(turns), "days": len(set(dates)), "first": min(dates), "last": max(dates), "speakers": speakers}


def summary_tasks(folder: ChunkFolder, zone: ZoneInfo) -> Iterator[Frames]:
    """The chunks of the chats in a folder, in its order, some chats a task: for `EXTRACTING`."""
    frames, size = list[bytes](), 0
    for chat_id in folder.chats:
        frames.append(folder.content(chat_id))
        size += len(frames[-1])
        if size >= TASK_BYTES:
            yield zone.key.encode(), *frames
            frames, size = [], 0
    if frames:
        yield zone.key.encode(), *frames


def extract(task: Frames) -> Frames:
    """The extractive summary of each chat (nightly/workers/task.py), or why there is none: [text, reason] as JSON."""
    zone = ZoneInfo(task[0].decode())
    return tuple(orjson.dumps(_extracted([chunk for chunk, _ in parse_lines(content)], zone)) for content in task[1:])


def _extracted(chunks: list[Chunk], zone: ZoneInfo) -> tuple[str | None, str | None]:
    try:
        return _extract(chunks, zone), None
    except Exception as error:  # noqa: BLE001 - whatever it is about this chat, the others get their summaries
        return None, reason_of(error)


#: Summaries without a model, as tasks.
EXTRACTING = TaskKind("extract", extract)
