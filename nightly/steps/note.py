"""Note: what a model writes about turns (NOTES_MODEL) as keys to find them by: facts, and questions that they answer. Without a model: nothing.

Notes are chunks of their own in `notes/` and `note_vectors/` of a release; a lookup finds the turn through them and returns the turn. A model
never stops the night: what it did not write tonight, within NOTES_MINUTES, is requested by the next one, the newest turns first. A night that
erases requests nothing, since a forgetting waits for it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import IO, Any

from nightly.index.chunk_file import CHUNKS, Columns, line_of, read_chunks, write_columns
from nightly.night.folder import Night
from nightly.writing.model_texts import ModelTexts, drop_leftovers
from nightly.writing.note_answer import NotesAnswer, notes_of, refuse
from nightly.writing.note_windows import Window, windows_of
from shared.system.files import atomic_writer

#: As repeatable as a model can be; room for a window and its notes.
OPTIONS: dict[str, Any] = {"temperature": 0, "seed": 1, "num_ctx": 8192, "num_predict": 3000}


def run(night: Night, out: Path) -> dict[str, Any]:
    model = night.settings.notes_model
    with atomic_writer(out / CHUNKS) as handle:
        written = _Written(handle)
        if not model:
            drop_leftovers(night)
            result: dict[str, Any] = {"model": None}
        else:
            schema = NotesAnswer.model_json_schema()
            texts = ModelTexts(night, "note", model, OPTIONS, refuse=refuse, schema=schema, once=True)
            try:
                result = _ask(night, texts, written)
            finally:
                texts.close()
    write_columns(out, written.columns)
    return {"notes": len(written.columns), "notes_per_chat": written.per_chat, **result}


def _ask(night: Night, texts: ModelTexts, written: _Written) -> dict[str, Any]:
    """Write the notes that are known, and request the others from the newest turns on, until the time is used up."""
    zone, windows, missing = night.settings.timezone, 0, list[Window]()
    for window in windows_of(chunk for chunk, _ in read_chunks(night.output("chunk"))):
        windows += 1
        known = texts.known(window.chat_id, window.turn_ids, window.prompt(zone))
        if known is None:
            missing.append(window)
        else:
            written.add(window, known)
    missing.sort(key=lambda window: -window.turns[-1][0].started_at)
    minutes = 0.0 if night.result("archive").get("erased", {}).get("segments") else night.settings.notes_minutes
    ends, postponed = time.monotonic() + 60 * minutes, 0
    for window in night.report.track(missing, len(missing), "note"):
        if time.monotonic() >= ends:
            postponed += 1
            continue
        name = f"{window.chat_id} {window.turn_ids[0]}"
        answer = texts.write(name, window.chat_id, window.turn_ids, window.prompt(zone), window.turn_ids)
        if answer is not None:
            written.add(window, answer)
    texts.archive()
    result = texts.result() | {"windows": windows, "postponed": postponed}
    if postponed or texts.failed:
        result["model"] = None  # the next night requests the rest, even if nothing is new
    return result


class _Written:
    """The notes as the chunks of the night lie in their folder."""

    def __init__(self, handle: IO[bytes]) -> None:
        self._handle, self.columns, self.per_chat = handle, Columns(), dict[str, int]()

    def add(self, window: Window, answer: str) -> None:
        for note in notes_of(answer, window):
            line = line_of(note, note.text)
            self._handle.write(line)
            self.columns.add(note, line)
            self.per_chat[note.chat_id] = self.per_chat.get(note.chat_id, 0) + 1
