"""Note: what a model writes about turns (NOTES_MODEL) as keys to find them by: facts, and questions that they answer. Without a model: nothing.

Notes are chunks of their own in `notes/` and `note_vectors/` of a release; a lookup finds the turn through them and returns the turn. A model
never stops the night: what it did not write tonight, within NOTES_MINUTES, is requested by the next one, the newest turns first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightly.index.chunk_file import CHUNKS, Columns, line_of, read_chunks, write_columns
from nightly.night.folder import Night
from nightly.writing.model_texts import ModelTexts
from nightly.writing.note_answer import NotesAnswer, notes_of, refuse
from nightly.writing.note_windows import Window, windows_of
from shared.system.files import atomic_writer
from shared.turns.chunk import Chunk

#: As repeatable as a model can be; room for a window and its notes.
OPTIONS: dict[str, Any] = {"temperature": 0, "seed": 1, "num_ctx": 8192, "num_predict": 2000}


@dataclass
class Written:
    """What the model wrote tonight or before: answers by window, and how many windows it has not come to."""

    answers: dict[int, str]
    postponed: int = 0


def run(night: Night, out: Path) -> dict[str, Any]:
    model = night.settings.notes_model
    if not model:
        _write(out, ())
        return {"model": None, "notes": 0, "notes_per_chat": {}}
    windows = list(windows_of(chunk for chunk, _ in read_chunks(night.output("chunk"))))
    schema = NotesAnswer.model_json_schema()
    texts = ModelTexts(night, "note", model, OPTIONS, refuse=refuse, schema=schema)
    try:
        written = _ask(night, texts, windows)
        texts.archive()
        per_chat = _write(out, (notes_of(answer, windows[at]) for at, answer in sorted(written.answers.items())))
        result = texts.result()
    finally:
        texts.close()
    if written.postponed or texts.failed:
        result["model"] = None  # the next night requests the rest, even if nothing is new
    return {
        "notes": sum(per_chat.values()),
        "notes_per_chat": per_chat,
        "windows": len(windows),
        "postponed": written.postponed,
        **result,
    }


def _ask(night: Night, texts: ModelTexts, windows: list[Window]) -> Written:
    """The answers for all windows that have one; new ones are requested from the newest on, until the time is used up."""
    zone, ends = night.settings.timezone, time.monotonic() + 60 * night.settings.notes_minutes
    prompts = [window.prompt(zone) for window in windows]
    written, missing = Written({}), []
    for at, window in enumerate(windows):
        known = texts.known(window.chat_id, window.turn_ids, prompts[at])
        if known is None:
            missing.append(at)
        else:
            written.answers[at] = known
    missing.sort(key=lambda at: -windows[at].turns[-1][0].started_at)
    for at in night.report.track(missing, len(missing), "note"):
        if time.monotonic() > ends:
            written.postponed += 1
            continue
        window = windows[at]
        name = f"{window.chat_id} {window.turn_ids[0]}"
        answer = texts.write(name, window.chat_id, window.turn_ids, prompts[at], window.turn_ids)
        if answer is not None:
            written.answers[at] = answer
    return written


def _write(out: Path, windows: Iterable[list[Chunk]]) -> dict[str, int]:
    """As the chunks of the night lie there; the number of notes of each chat."""
    columns, per_chat = Columns(), dict[str, int]()
    with atomic_writer(out / CHUNKS) as handle:
        for notes in windows:
            for note in notes:
                line = line_of(note, note.text)
                handle.write(line)
                columns.add(note, line)
                per_chat[note.chat_id] = per_chat.get(note.chat_id, 0) + 1
    write_columns(out, columns)
    return per_chat
