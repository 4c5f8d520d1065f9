"""Texts that a model writes by night: requested once for the same input, archived, and optional.

A text is identified by the hash of its input: the chat and its chunks, the prompt, the model's name and digest, the options. An archived text is
not requested again, so a rebuild gives the same release, even without the server. If the model fails, the step does without, and the next build
asks again.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from nightly.archive.segments import ArchivedTexts, WrittenText, read_texts, write_texts
from nightly.night.folder import Night, read_record
from nightly.writing.writers import open_writer
from shared.errors import EmbeddingError
from shared.system.faults import crash_point
from shared.system.files import make_dir, remove_tree, write_atomic
from shared.text.marks import harmless
from shared.text.templates import templates
from shared.turns.records import well_formed

if TYPE_CHECKING:
    from pydantic import BaseModel

    from nightly.writing.writers import NightWriter
    from shared.config.night_settings import Writer

TEMPLATES = templates("nightly.writing")
#: In the night's folder: what was written, until it is archived. A night that is killed does not ask for it again.
CACHED = "texts.tmp"
#: After so many failures in a row nothing more is requested: each may take the whole time limit.
FAILURES_IN_A_ROW = 3
OUT_OF_TIME = "WRITER_MINUTES were used up"


def prompt_of(template: str, record: str, **more: object) -> str:
    """What a model is asked: rules, and what was said as data inside a fence that is a hash of it."""
    harmless_record = harmless(record)
    fence = hashlib.sha256(harmless_record.encode("utf-8", "replace")).hexdigest()[:16]
    return TEMPLATES.get_template(template).render(fence=fence, record=harmless_record, **more)


class ModelTexts:
    """The texts of one step of a night. `failed`: what has no text → why; `unusable`: those of them whose answer was refused, or that were not asked
    for after such answers."""

    def __init__(
        self,
        night: Night,
        step: str,
        writer: Writer,
        options: dict[str, Any],
        *,
        refuse: Callable[[str, str], str | None],
        form: type[BaseModel] | None = None,
    ) -> None:
        """`refuse` says what is wrong with an answer to a prompt, or None.

        `form`: what the answer is JSON of. Then another version of the model does not write the texts again, and an invalid answer is archived as
        an empty text, so that this version of the model is not asked again; unless most answers of a night are.
        """
        self._night, self._step, self._writer, self.model = night, step, writer, str(writer)
        self._options, self._refuse = options, refuse
        self._schema = form.model_json_schema() if form else None
        self._archive: ArchivedTexts = read_texts(night.archive_dir)
        self._cached = make_dir(night.folder / CACHED)
        self._new: list[WrittenText] = []
        self._gave_up: str | None = None
        self._usable = 0  # answers of tonight
        self._said: dict[str, str] = {}  # tonight's answers → the chat
        self._failures_in_a_row = self.asked = self.reused = 0
        self._answered = False  # whether any answer of tonight could be used
        self._without = set[str]()  # the chats of the other answers
        self.failed: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.unusable = set[str]()
        self._server: NightWriter | None = None
        self._ends = time.monotonic() + 60 * night.settings.writer_minutes
        self._digest = self._ask_digest()

    @property
    def out_of_time(self) -> bool:
        """Whether WRITER_MINUTES are used up: what is not written yet waits for the next night."""
        return time.monotonic() >= self._ends

    def _ask_digest(self) -> str:
        """The model's digest; if the server does not return it, that of the last text by this model: archived texts stay valid."""
        try:
            self._server = open_writer(self._night, self._writer, 60 * self._night.settings.writer_minutes)
            return self._server.digest(self._writer.model)
        except EmbeddingError as error:
            self._gave_up = str(error)
            known = [text.digest for text in self._archive.texts.values() if text.model == self.model]
            return known[-1] if known else ""

    def known(self, chat_id: str, made_from: Sequence[str], prompt: str) -> str | None:
        """The text of this input if it was written before."""
        found = self._archive.texts.get(self._key(chat_id, made_from, prompt))
        if found is None and self._schema:
            found = self._archive.texts.get(self._key(chat_id, made_from, prompt, refused=True))
        return found.text if found else None

    def write(
        self, name: str, chat_id: str, made_from: Sequence[str], prompt: str, turns: Iterable[str] = ()
    ) -> str | None:
        """The model's text; None if there is none (`failed` says why, by `name`). `turns`: the ones it is made from; none: the whole chat."""
        if (found := self.known(chat_id, made_from, prompt)) is not None:
            self.reused += 1
            return found
        key = self._key(chat_id, made_from, prompt)
        text = _read_text(self._cache_of(key))
        if text is None:
            answer = self._asked(name, chat_id, prompt)
            if answer is None:
                return None
            if name in self.refused:
                key = self._key(chat_id, made_from, prompt, refused=True)
            text = WrittenText(key, self.model, self._digest, chat_id, answer, tuple(turns))
            write_atomic(self._cache_of(text.key), orjson.dumps(text.to_json()))
            crash_point(f"{self._step}:text-cached")
        self._new.append(text)
        return text.text

    def _cache_of(self, key: str) -> Path:
        return self._cached / f"{key.removeprefix('sha256:')}.json"

    def _key(self, chat_id: str, made_from: Sequence[str], prompt: str, *, refused: bool = False) -> str:
        version = "" if self._schema and not refused else self._digest
        made = [chat_id, list(made_from), prompt, self.model, version, sorted(self._options.items())]
        return f"sha256:{hashlib.sha256(orjson.dumps(made)).hexdigest()}"

    def _asked(self, name: str, chat_id: str, prompt: str) -> str | None:
        if self._server is None or self._gave_up:
            self.failed[name] = self._gave_up or ""
            if self.unusable or self.refused:
                self.unusable.add(name)
            return None
        if self.out_of_time:
            self.failed[name] = OUT_OF_TIME
            return None
        answer, unusable, reason = "", None, None
        try:
            answer = well_formed(self._server.chat(self._writer.model, prompt, self._options, self._schema))
            reason = unusable = self._refuse(answer, prompt) or self._repeated(answer, chat_id)
        except EmbeddingError as error:
            reason = getattr(error, "reason", str(error))
        self.asked += 1
        self._usable += reason is None and _says(answer)
        self._answered |= reason is None
        self._without |= {chat_id} if reason is not None else set()
        # a few chats of which it says nothing usable, each night again, are no reason not to ask about the others
        few = unusable is not None and (self._schema is not None or len(self.unusable) < self._usable)
        self._count(reason, few)
        if unusable is not None and self._schema:
            self.refused[name] = unusable
            return ""
        if unusable is not None:
            self.unusable.add(name)
        if reason is not None:
            self.failed[name] = reason
        return answer if reason is None else None

    def _repeated(self, answer: str, chat_id: str) -> str | None:
        """One that says nothing may be given of many chats."""
        same = self._said.setdefault(answer, chat_id) != chat_id and _says(answer)
        return "the answer is the same as about another chat" if same else None

    def _count(self, reason: str | None, few: bool) -> None:
        self._failures_in_a_row = 0 if reason is None else self._failures_in_a_row + 1
        if self._failures_in_a_row >= FAILURES_IN_A_ROW and not few:
            self._gave_up = f"{FAILURES_IN_A_ROW} failures in a row before it, the last one: {reason}"

    def archive(self) -> None:
        """Tonight's texts into the archive, in one file, and no other place; but no refusal of a night in which most answers say nothing."""
        if len(self.refused) >= FAILURES_IN_A_ROW * max(1, self._usable):
            last = list(self.refused.values())[-1]
            self._gave_up = f"{len(self.refused)} of {self.asked} answers could not be used, the last one: {last}"
            self.failed, self.refused = self.failed | self.refused, {}
            self._new = [text for text in self._new if text.text]
        if self._new:
            write_texts(self._night.archive_dir, self._night.run, self._new)
            crash_point(f"{self._step}:texts-archived")
        remove_tree(self._cached)

    def result(self) -> dict[str, Any]:
        """`model` is recorded in the release if it was reachable; otherwise the next night rebuilds, to ask it again."""
        reachable = self._gave_up is None or self._failures_in_a_row > 0
        return {
            "model": self.model if reachable or not self.failed else None,
            "gave_up": self._gave_up or self._silent(),
            "asked": self.asked,
            "reused": self.reused,
            "without_model": len(self.failed) + len(self.refused),
            "without_model_reasons": dict(Counter((*self.failed.values(), *self.refused.values()))),
            "texts": read_texts(self._night.archive_dir).segments,
        }

    def _silent(self) -> str | None:
        """Why it writes of no chat any more, where these are too few to give it up."""
        others = {one.chat_id for one in self._archive.texts.values() if one.model == self.model} - self._without
        if self._schema is not None or self._answered or others or not self._without:
            return None
        return f"no answer could be used, the last one: {list(self.failed.values())[-1]}"

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


def _read_text(path: Path) -> WrittenText | None:
    """None if it is not there, or damaged."""
    try:
        return WrittenText.from_json(read_record(path) or {})
    except (KeyError, TypeError):
        return None


def _says(answer: str) -> bool:
    return bool(WrittenText("", "", "", "", answer).sayings)
