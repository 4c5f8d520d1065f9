"""Note: what a model writes about turns (WRITES) as keys to find them by: facts, and questions that they answer. Without a model: nothing.

Notes are chunks of their own in `notes/` and `note_vectors/` of a release; a lookup finds the turn through them and returns the turn. A model
never stops the night: what it did not write tonight, within an hour, is requested by the next one, the newest turns first. A night that
erases requests nothing, since a forgetting waits for it.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from nightly.index.chunk_file import ChunkFolder, line_of, writing_chunks
from nightly.night.folder import Night
from nightly.writing.model_texts import ModelTexts
from nightly.writing.notes import NotesAnswer, Window, notes_of, refuse, windows_of
from shared.turns.chunk import Chunk, turn_order

#: As repeatable as a model can be; room for a window and its notes.
OPTIONS: dict[str, Any] = {"temperature": 0, "seed": 1, "num_ctx": 8192, "num_predict": 3000}


def run(night: Night, out: Path) -> dict[str, Any]:
    writer_model, written = night.settings.writer_of("notes"), dict[str, list[Chunk]]()
    result: dict[str, Any] = {"model": None, "again": []}
    if writer_model is not None:
        with closing(ModelTexts(night, "note", writer_model, OPTIONS, refuse=refuse, form=NotesAnswer)) as texts:
            result = _ask(night, texts, written)
    with writing_chunks(out) as writer:
        per_chat = {
            chat_id: writer.add(chat_id, (line_of(note, note.text) for note in sorted(notes, key=_order)))
            for chat_id, notes in sorted(written.items())
            if notes
        }
    return {"notes": sum(per_chat.values()), "notes_per_chat": per_chat, **result}


def _order(note: Chunk) -> tuple[float, tuple[str, bool, int]]:
    return note.started_at, turn_order(note.chunk_id)


def _ask(night: Night, texts: ModelTexts, written: dict[str, list[Chunk]]) -> dict[str, Any]:
    """Collect the notes that are known, and request the others from the newest turns on, until the time is used up. `again`: chats that lack some."""

    def keep(window: Window, answer: str) -> None:
        """Its notes; where there are none, the ones it had before it went on."""
        while not (found := notes_of(answer, window)) and len(window.turns) > 1:
            window = Window(window.chat_id, window.turns[:-1])
            answer = texts.known(window.chat_id, window.turn_ids, window.prompt(zone)) or ""
        written.setdefault(window.chat_id, []).extend(found)

    zone, windows, missing = night.settings.timezone, 0, list[Window]()
    for window in windows_of(chunk for _, chunks in ChunkFolder(night.output("chunk")) for chunk, _ in chunks):
        windows += 1
        known = texts.known(window.chat_id, window.turn_ids, window.prompt(zone))
        if known is None:
            missing.append(window)
        else:
            texts.reused += 1
            keep(window, known)
    missing.sort(key=lambda window: -window.turns[-1][0].started_at)
    erases = bool(night.result("archive").get("erased", {}).get("segments"))
    postponed, again, chats = 0, set[str](), dict[str, str]()
    for window in night.report.track(missing, len(missing), "note"):
        answer = None
        if erases or texts.out_of_time:
            postponed += 1
            again.add(window.chat_id)
        else:
            name = f"{window.chat_id} {window.turn_ids[0]}"
            chats[name] = window.chat_id
            answer = texts.write(name, window.chat_id, window.turn_ids, window.prompt(zone), window.turn_ids)
        keep(window, answer or "")
    texts.archive()
    again.update(chats[name] for name in texts.failed)
    result = texts.result() | {"windows": windows, "postponed": postponed, "again": sorted(again)}
    if postponed or texts.failed:
        result["model"] = None  # the next night requests the rest, even if nothing is new
    return result
