"""Summaries written by a model (SUMMARY_MODEL) through Ollama: requested once for the same turns, archived, and optional.

A text is identified by the hash of its input: the chat's chunks, the prompt with its sentences and turns, the model's name and digest, the
options. An archived text is not requested again, so a rebuild gives the same release, even without the server. If the model fails, the
chat gets the extractive summary tonight, and the next build asks again.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from nightly.archive.segments import Archive, WrittenText, read_texts, write_texts
from nightly.night.folder import CACHE, Night
from shared.embedding.open import open_ollama
from shared.errors import EmbeddingError
from shared.system.faults import crash_point
from shared.text.format import shorten
from shared.turns.chunking import clean
from shared.turns.records import well_formed

if TYPE_CHECKING:
    from shared.embedding.ollama_server import OllamaServer

#: Bound of a model's text, in characters; with what is put back it fits the default budget's share of a summary.
WRITTEN_CHARACTERS = 1400
#: As repeatable as a model can be; room for the prompt also where a character is a token, and an end to endless answers.
OPTIONS: dict[str, Any] = {"temperature": 0, "seed": 1, "num_ctx": 8192, "num_predict": 700}
#: A request that fails in passing is tried so often.
ATTEMPTS = 2
#: After so many failures in a row the rest of the chats is not asked for: each may take the whole time limit.
FAILURES_IN_A_ROW = 3

_THOUGHTS = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


class ModelWriter:
    """Of one night. `failed`: chat → why it has no text."""

    def __init__(self, night: Night, model: str) -> None:
        self._night, self._model = night, model
        self._archive: Archive = read_texts(night.archive_dir)
        self._cache = TextCache(night.settings.hmem_night_dir / CACHE)
        self._new: list[WrittenText] = []
        self._gave_up: str | None = None
        self._failures_in_a_row = self.asked = self.reused = 0
        self.failed: dict[str, str] = {}
        self._server: OllamaServer | None = None
        self._digest = self._ask_digest()

    def _ask_digest(self) -> str:
        """The model's digest; if the server does not return it, that of the last text by this model: archived texts stay valid."""
        try:
            self._server = open_ollama(self._night.settings)
            return self._server.digest(self._model)
        except EmbeddingError as error:
            self._gave_up = str(error)
            known = [text.digest for text in self._archive.texts.values() if text.model == self._model]
            return known[-1] if known else ""

    def write(self, chat_id: str, chunk_ids: list[str], prompt: str) -> str | None:
        """The model's text, tidied; None if there is none (see `failed`)."""
        key = self._key(chat_id, chunk_ids, prompt)
        if known := self._archive.texts.get(key):
            self.reused += 1
            return tidy(known.text)
        found = self._cache.get(key) or self._asked(key, chat_id, prompt)
        if found is None:
            return None
        self._new.append(found)
        return tidy(found.text)

    def _key(self, chat_id: str, chunk_ids: list[str], prompt: str) -> str:
        made_from = [chat_id, chunk_ids, prompt, self._model, self._digest, sorted(OPTIONS.items())]
        return f"sha256:{hashlib.sha256(orjson.dumps(made_from)).hexdigest()}"

    def _asked(self, key: str, chat_id: str, prompt: str) -> WrittenText | None:
        if self._server is None or self._gave_up:
            self.failed[chat_id] = self._gave_up or ""
            return None
        try:
            answer = well_formed(self._server.chat(self._model, prompt, OPTIONS, ATTEMPTS))
            reason = None if tidy(answer) else "the answer is empty"
        except EmbeddingError as error:
            reason = getattr(error, "reason", str(error))
        self.asked += 1
        if reason is not None:
            self._count_failure(chat_id, reason)
            return None
        self._failures_in_a_row = 0
        text = WrittenText(key, self._model, self._digest, chat_id, answer)
        self._cache.put(text)
        crash_point("summarise:text-cached")
        return text

    def _count_failure(self, chat_id: str, reason: str) -> None:
        self.failed[chat_id] = reason
        self._failures_in_a_row += 1
        if self._failures_in_a_row == FAILURES_IN_A_ROW:
            self._gave_up = f"{FAILURES_IN_A_ROW} failures in a row before it, the last one: {reason}"

    def archive(self) -> None:
        """Tonight's texts into the archive, in one file."""
        if self._new:
            write_texts(self._night.archive_dir, self._night.run, self._new)
            crash_point("summarise:texts-archived")
        self._cache.clear()

    def result(self) -> dict[str, Any]:
        """`model` is recorded in the release if it was reachable; otherwise the next night rebuilds, to ask it again."""
        reachable = self._gave_up is None or self._failures_in_a_row > 0
        return {
            "model": self._model if reachable or not self.failed else None,
            "asked": self.asked,
            "reused": self.reused,
            "without_model": len(self.failed),
            "without_model_reasons": dict(Counter(self.failed.values())),
            "failed": self.failed,
            "texts": read_texts(self._night.archive_dir).segments,
        }

    def close(self) -> None:
        self._cache.close()
        if self._server is not None:
            self._server.close()


def tidy(answer: str) -> str:
    """Plain lines without thoughts, headings and blank lines, at most WRITTEN_CHARACTERS."""
    lines: list[str] = []
    room = WRITTEN_CHARACTERS
    for line in clean(_THOUGHTS.sub("", answer)).split("\n"):
        plain = shorten(line.strip().lstrip("#").strip(), room)
        if plain:
            lines.append(plain)
            room -= len(plain) + 1
        if room < 2:
            break
    return "\n".join(lines)


_SCHEMA = "CREATE TABLE IF NOT EXISTS texts (key TEXT PRIMARY KEY, record BLOB) WITHOUT ROWID"


class TextCache:
    """`cache.sqlite`: what a model wrote tonight, until it is archived. A night that is killed does not ask for it again."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path)
        self._connection.execute(_SCHEMA)

    def get(self, key: str) -> WrittenText | None:
        row = self._connection.execute("SELECT record FROM texts WHERE key = ?", (key,)).fetchone()
        return WrittenText.from_json(orjson.loads(row[0])) if row else None

    def put(self, text: WrittenText) -> None:
        with self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO texts VALUES (?,?)", (text.key, orjson.dumps(text.to_json()))
            )

    def clear(self) -> None:
        """Delete the texts, which are archived now: no second place may store a chat's words."""
        with self._connection:
            self._connection.execute("DELETE FROM texts")

    def close(self) -> None:
        self._connection.close()
