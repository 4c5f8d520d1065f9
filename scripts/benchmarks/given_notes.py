"""Notes of turns from a file, given to the night by a loopback server that speaks Ollama's API: what notes are worth, without a model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODEL = "given-notes"
_LINE = re.compile(r"^\[(\d+)\] \d{4}-\d\d-\d\d (.*)$", re.MULTILINE)


@contextmanager
def given_notes(folder: Path, file: Path | None) -> Iterator[dict[str, str]]:
    """The settings of a night whose model answers with the notes of `file`; none without a file."""
    if file is None:
        yield {}
        return
    from tests.servers.ollama_api import DIGEST, OllamaApi

    known = _by_beginning(folder, file)
    with OllamaApi({f"{MODEL}:latest": DIGEST}) as api:
        api.chat_with = lambda prompt: _answer(prompt, known)
        yield {"WRITER": f"ollama:{MODEL}", "WRITES": "notes", "OLLAMA_URL": api.url}


def _by_beginning(folder: Path, file: Path) -> dict[str, list[str]]:
    """The notes of each turn, by the letters that it begins with."""
    said = {}
    for line in (folder / "turns.jsonl").read_text().splitlines():
        turn = json.loads(line)
        said[f"{turn['task_id']}:{turn['role']}"] = turn["content"]
    found: dict[str, list[str]] = {}
    for line in file.read_text().splitlines():
        note = json.loads(line)
        for turn_id in note["turns"]:
            found.setdefault(_beginning(said[turn_id]), []).append(note["text"])
    return found


def _beginning(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum())[:60]


def _answer(prompt: str, known: dict[str, list[str]]) -> str:
    notes = []
    for number, line in _LINE.findall(prompt):
        text = line.partition(": ")[2]
        if facts := known.get(_beginning(text)):
            notes.append({"message": int(number), "facts": facts})
    return json.dumps({"notes": notes})
