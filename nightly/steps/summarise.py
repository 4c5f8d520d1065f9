"""Summarise: one text a chat, from all that the archive has of it, with absolute dates, bounded; with the chat's counts it becomes a row of
`chats.sqlite`. The chats without news keep theirs.

Sentences are picked word for word (shared/ranking/extractive_summary.py). Where WRITER writes summaries, it writes notes from them and from the
newest turns; its lines that the chat does not bear out are left out, and what it omitted is put back. Where it fails, the picked sentences are the
summary; where its answers cannot be used, a chat keeps what a model wrote before. A model never stops the night.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from nightly.index.chunk_file import ChunkFolder
from nightly.index.previous import Last, hash_files, refuse_another_start
from nightly.index.rows import CENTRES
from nightly.night.failure import reason_of
from nightly.night.folder import Night
from nightly.writing.model_texts import TEMPLATES, ModelTexts, prompt_of
from nightly.writing.summary_answer import BY_MODEL, OPTIONS, WRITTEN_CHARACTERS, put_back, refuse, tidy
from shared.ranking.extractive_summary import AS_SAID, Sentence, summarise
from shared.release.chats import COUNTED, ChatRow, ChatTable, write_chats
from shared.release.manifest import CHATS
from shared.text.format import date_text, fitting, line_size, one_line, shorten
from shared.turns.chunk import Chunk
from shared.turns.origin_words import replying
from shared.turns.speakers import label, namesakes

#: Characters of a chat's newest turns that a model gets in addition to the picked sentences, and of one passage.
RECENT_CHARACTERS, PASSAGE_CHARACTERS = 4000, 600
#: Bound of what is put back.
PUT_BACK_CHARACTERS = 700
#: Those who speak most are named in the first line.
SPEAKERS_NAMED = 6
#: Before a line of a model's; the template has its own.
_BULLET = re.compile(r"^(?:[-*•]\s+|[-*•]$)")


def run(night: Night, out: Path) -> dict[str, Any]:
    """`without_summary`: chats that got none, and why."""
    named, counts, without = night.settings.writer_of("summaries"), Counter[str](), dict[str, str]()
    writer = ModelTexts(night, "summarise", named, OPTIONS, refuse=refuse) if named else None
    with closing(writer) if writer else nullcontext():
        last = Last(night)
        refuse_another_start(night, last)
        forgotten = last.forgotten_since(night.result("chunk").get("tombstones", {}))
        unusable = writer.unusable if writer else set[str]()
        said = night.result("archive")["ledger"]["chats"]

        def stays(earlier: ChatRow) -> bool:
            """What a model wrote, where its answers cannot be used, unless a message was edited since."""
            edited = said.get(earlier.chat_id, {}).get("new_version")
            return earlier.chat_id in unusable and not edited and BY_MODEL in (earlier.summary or "")

        with last.chats() as known:
            write_chats(out / CHATS, _merged(_rows(night, writer, counts, without), known, forgotten, stays))
        made = {
            "places": {CHATS: {}},
            "files": hash_files(out, CHATS),
            "summaries": len(ChunkFolder(night.output("chunk")).chats) - len(without),
            "without_summary": without,
        }
        if writer is None:
            return made
        writer.archive()
        return {
            **made,
            **{name: counts[name] for name in ("left_out", "put_back", "no_room")},
            "failed": writer.failed,
            **writer.result(),
        }


def _merged(
    rows: Iterator[ChatRow], known: ChatTable, forgotten: Collection[str], stays: Callable[[ChatRow], bool]
) -> Iterator[ChatRow]:
    """Tonight's chats, then all others as they were. `stays`: whether a chat keeps the summary of its earlier row, unless something of it was
    forgotten since (`forgotten`, or its counts say so): a summary may say what was forgotten."""
    done = set[str]()
    for row in rows:
        done.add(row.chat_id)
        earlier = known.row(row.chat_id)
        if earlier and row.chat_id not in forgotten and not _more_is_forgotten(row, earlier) and stays(earlier):
            row = replace(row, summary=earlier.summary)
        if row.made_from or not row.is_gone:
            yield row
    others = (known.row(row.chat_id) for row in known.rows() if row.chat_id not in done)
    yield from (row for row in others if row)


def _more_is_forgotten(row: ChatRow, earlier: ChatRow) -> bool:
    return (row.counts["forgotten"] or 0) > (earlier.counts["forgotten"] or 0) or row.is_gone


def _rows(night: Night, writer: ModelTexts | None, counts: Counter[str], without: dict[str, str]) -> Iterator[ChatRow]:
    """Tonight's chats with chunks get a summary, or `without` says why not."""
    chunk, build, note = night.result("chunk"), night.result("build"), night.result("note")
    again = {*note["again"], *(one["chat_id"] for one in chunk["set_aside"].values())}
    folder = ChunkFolder(night.output("chunk"))
    centres = _centres(night, folder)
    for chat_id in night.report.track(chunk["accounts"], len(chunk["accounts"]), "summarise"):
        text = None
        try:
            text = _text(night, [chunk for chunk, _ in folder.read(chat_id)], writer, counts)
        except Exception as error:  # noqa: BLE001 - whatever it is about this chat, the others get their summaries
            without[chat_id] = reason_of(error)
        counted = _counts(chat_id, chunk, build, note)
        failed = chat_id in without or (writer is not None and chat_id in writer.failed)
        waits = failed or chat_id in again or counted["not_embedded"]
        made_from = "" if waits else chunk["digests"].get(chat_id, "")
        yield ChatRow(chat_id, made_from, counted, text, centres.get(chat_id))


def _centres(night: Night, folder: ChunkFolder) -> dict[str, bytes]:
    """The centres of tonight's chats, as they are kept; none of a night without vectors."""
    if night.result("embed")["embedding"] is None:
        return {}
    import numpy as np  # late: a night without vectors does without it

    rows = np.load(night.output("embed") / CENTRES)
    return {chat_id: row.astype("<f4").tobytes() for chat_id, row in zip(folder.chats, rows, strict=True)}


def _text(night: Night, chunks: list[Chunk], writer: ModelTexts | None, counts: Counter[str]) -> str | None:
    """The text of a chat: a model's, or where there is none, extracted; None for a chat without chunks."""
    if not chunks:
        return None
    written = _written(night, writer, chunks, counts) if writer else None
    return written or _extract(chunks, night.settings.timezone)


def _counts(
    chat_id: str, chunk: Mapping[str, Any], build: Mapping[str, Any], note: Mapping[str, Any]
) -> dict[str, int | None]:
    """What the release has of one of tonight's chats."""
    indexed = build["indexed"].get(chat_id, {"vectors": 0 if build["indexes"] else None})
    others = {
        "notes": note["notes_per_chat"].get(chat_id, 0),
        "note_vectors": build["note_vectors"].get(chat_id, 0),
    }
    counts = chunk["accounts"][chat_id] | indexed | others
    return {name: counts.get(name, 0) for name in COUNTED}


def _extract(chunks: list[Chunk], zone: ZoneInfo) -> str:
    lines = [_line(s.timestamp, s.speaker, s.text, zone) for s in reversed(summarise(chunks))]
    return TEMPLATES.get_template("summary.txt.j2").render(**_extent(chunks, zone), as_said=AS_SAID, lines=lines)


def _written(night: Night, writer: ModelTexts, chunks: list[Chunk], counts: Counter[str]) -> str | None:
    """The model's summary with what it left out; None if it has not written one."""
    zone = night.settings.timezone
    chosen = summarise(chunks)
    chat_id, made_from = chunks[0].chat_id, [chunk.chunk_id for chunk in chunks]
    prompt = _prompt(chosen, chunks, zone)
    answer = writer.write(chat_id, chat_id, made_from, prompt)
    if answer is None or (tidied := tidy(answer, prompt)).fault:
        return None
    back, no_room = put_back(chosen, tidied.text, PUT_BACK_CHARACTERS)
    counts.update(left_out=tidied.left_out, put_back=len(back), no_room=no_room)
    notes = [note for line in tidied.lines if (note := _BULLET.sub("", line))]
    also = [_line(s.timestamp, s.speaker, s.text, zone) for s in back]
    template = TEMPLATES.get_template("written.txt.j2")
    return template.render(**_extent(chunks, zone), by_model=BY_MODEL, model=writer.model, notes=notes, also=also)


def _prompt(chosen: list[Sentence], chunks: list[Chunk], zone: ZoneInfo) -> str:
    """What a model is asked of a chat."""
    said = [_line(s.timestamp, s.speaker, s.text, zone) for s in chosen]
    record = ["Picked from the whole chat:", *said, "", "The newest turns:", *_recent(chunks, zone)]
    return prompt_of("summary_prompt.txt.j2", "\n".join(record), characters=WRITTEN_CHARACTERS)


def _recent(chunks: list[Chunk], zone: ZoneInfo) -> list[str]:
    marks = namesakes({chunk.person for chunk in chunks})

    def told(chunk: Chunk) -> str:
        who = f"{chunk.who(marks.get(chunk.person, ''))}{replying(chunk.origin)}"
        return _line(chunk.started_at, who, shorten(one_line(chunk.text), PASSAGE_CHARACTERS), zone)

    newest = fitting(chunks, RECENT_CHARACTERS, newest=True, size=lambda chunk: line_size(told(chunk)))
    return [told(chunk) for chunk in newest]


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
