"""Many questions in one process, in the format with which recall is scored.

In: lines of `{"qid", "chat_id", "question", "now"}`, `now` in POSIX seconds or ISO 8601, default: the clock. Out: lines of `{"qid",
"hits": [[turn id, …], …], "ms"}`, best first, a hit's own turns before those that say the same, with `degraded` if something could not be
searched, and with budgets also `"contexts": {"500": text, …}`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from dispatcher.memory.day.context import DayContext
from dispatcher.memory.tombstones import Forgotten
from dispatcher.prompt.assemble import PromptRequest, prompt_input
from dispatcher.prompt.budget import compose, hits_for
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.text.times import moment
from shared.turns.records import RecordRefused, chat_id_of, loads_object


def read_questions(path: Path, zone: ZoneInfo) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InvalidInput(f"The batch file cannot be read: {error}.") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = loads_object(line)
            yield {
                "qid": record["qid"],
                "chat_id": chat_id_of(record["chat_id"]),
                "question": _question(record["question"]),
                "now": moment(record.get("now"), zone),
            }
        except KeyError as error:
            raise InvalidInput(
                f"{path} line {number}: {error} is missing. A line is {{qid, chat_id, question, now}}."
            ) from error
        except (RecordRefused, ValueError) as error:
            raise InvalidInput(f"{path} line {number}: {error}. A line is {{qid, chat_id, question, now}}.") from error


def _question(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("question must be a text that is not empty")
    return value


def answer_batch(
    settings: Settings, release: OpenRelease, path: Path, k: int, budgets: list[int]
) -> Iterator[dict[str, Any]]:
    forgotten = Forgotten(settings.hmem_state_dir)
    for record in read_questions(path, settings.timezone):
        started = time.perf_counter()
        request = PromptRequest(record["chat_id"], record["question"])
        today = DayContext(tombstones=tuple(forgotten.of(request.chat_id)))
        most = max([k, *map(hits_for, budgets)])
        query = Query(request.chat_id, request.message, most, now=record["now"], hidden=today.hidden)
        recalled = release.recall(query)
        answer: dict[str, Any] = {
            "qid": record["qid"],
            "hits": [[*hit.chunk.turn_ids, *hit.also] for hit in recalled.hits[:k]],
            "ms": (time.perf_counter() - started) * 1000,
        }
        if recalled.degraded:
            answer["degraded"] = recalled.degraded
        if budgets:
            given = prompt_input(request, settings, release, today, recalled, forgotten)
            answer["contexts"] = {str(budget): compose(replace(given, budget=budget)).text for budget in budgets}
        yield answer
