"""Many questions in one process, in the formats with which recall and prompts are scored.

In: lines of `{"qid", "chat_id", "question", "now", "user_id", "name"}`: `now` in POSIX seconds or ISO 8601, default: the clock; the last two, of who
asks, may be left out. Out: lines of `{"qid", "hits": [[turn id, …], …], "ms"}`, best first, a hit's own turns before others that say the same, with
`degraded` if something could not be searched. Of prompts also `"text"`, what a session that goes on would get, with its `"lines"`
(`Context.lines_json`), and `"contexts": {"500": text, …}` by budget.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from dispatcher.memory.day.read_for_prompt import PromptRequest
from dispatcher.prompt.assemble import PromptSources
from dispatcher.prompt.budget import compose, hits_for
from dispatcher.prompt.preview import PATIENT_DEADLINE_MS, asker
from shared.config.settings import Settings
from shared.errors import InvalidInput, StorageError
from shared.search.recall import OpenRelease
from shared.text.times import moment
from shared.turns.records import RecordRefused, chat_id_of, loads_object

if TYPE_CHECKING:
    from dispatcher.memory.day.memory import DayMemory

FORMAT = "A line is {qid, chat_id, question, now, user_id, name}, the last three as needed."


def read_questions(path: Path, zone: ZoneInfo) -> Iterator[tuple[Any, PromptRequest]]:
    """(qid, question) of each line."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InvalidInput(f"The batch file cannot be read: {error}.") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = loads_object(line)
            qid, chat_id, text = record["qid"], chat_id_of(record["chat_id"]), _question(record["question"])
            now, user, name = moment(record.get("now"), zone), _optional(record, "user_id"), _optional(record, "name")
            yield qid, PromptRequest(chat_id, text, count_access=False, now=now, user_id=user, name=name)
        except KeyError as error:
            raise InvalidInput(f"{path} line {number}: {error} is missing. {FORMAT}") from error
        except (RecordRefused, ValueError) as error:
            raise InvalidInput(f"{path} line {number}: {error}. {FORMAT}") from error


def _question(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("question must be a text that is not empty")
    return value


def _optional(record: dict[str, Any], name: str) -> str | None:
    value = record.get(name)
    if value is not None and (not isinstance(value, str | int) or isinstance(value, bool)):
        raise ValueError(f"{name} must be a text")
    return None if value is None else str(value)


def answer_batch(
    settings: Settings, release: OpenRelease, day: DayMemory, path: Path, k: int, budgets: list[int], who: str = ""
) -> Iterator[dict[str, Any]]:
    """An answer to each line of the file; without `budgets` there are no prompts. `who` asks where a line does not say it, as in `preview`.

    InvalidInput for a line that is not a question, StorageError if what was forgotten cannot be read.
    """
    settings = settings.model_copy(update={"memory_deadline_ms": max(settings.memory_deadline_ms, PATIENT_DEADLINE_MS)})
    for qid, request in read_questions(path, settings.timezone):
        started = time.perf_counter()
        if who and not (request.user_id or request.name):
            user, name = asker(day, request.chat_id, who)
            request = replace(request, user_id=user, name=name)
        today = day.context(request, settings)
        if today.unproven:
            raise StorageError(today.unproven)
        most = max([k, *map(hits_for, [*budgets, settings.memory_tokens] if budgets else ())])
        sources = PromptSources(request, settings, release, day, today)
        recalled = sources.recall(most)
        answer: dict[str, Any] = {
            "qid": qid,
            "hits": [[*hit.chunk.turn_ids, *hit.also] for hit in recalled.hits[:k]],
            "ms": (time.perf_counter() - started) * 1000,
        }
        if degraded := [*recalled.degraded, *today.degraded]:
            answer["degraded"] = degraded
        if budgets:
            given = sources.prompt_input(recalled)
            context = compose(given)
            answer |= {"text": context.text, "lines": context.lines_json()}
            answer["contexts"] = {str(budget): compose(replace(given, budget=budget)).text for budget in budgets}
        yield answer
