"""Many questions in one process, in the format that recall is scored with.

In: lines of `{"qid", "chat_id", "question", "now"}`, `now` in POSIX seconds or ISO 8601, or left out: the clock. Out: lines of `{"qid",
"hits": [[turn id, …], …], "ms"}`, best first, a hit's own turns before those that say the same, with `degraded` where something could not be
asked, and with budgets also `"contexts": {"500": text, …}`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from dispatcher.memory.tombstones import Forgotten, hidden_by
from dispatcher.prompt.assemble import of_release
from dispatcher.prompt.budget import hits_for
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.search.recall import OpenRelease
from shared.search.types import HiddenTurns, Query
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


def _question(said: object) -> str:
    if not isinstance(said, str) or not said.strip():
        raise ValueError("question must be a text that is not empty")
    return said


def answer_batch(
    settings: Settings, release: OpenRelease, path: Path, k: int, budgets: list[int]
) -> Iterator[dict[str, Any]]:
    forgotten = Forgotten(settings.hmem_state_dir)
    for record in read_questions(path, settings.timezone):
        started = time.perf_counter()
        hidden = HiddenTurns(*hidden_by(forgotten.of(record["chat_id"])))
        most = max([k, *map(hits_for, budgets)])
        query = Query(record["chat_id"], record["question"], most, now=record["now"], hidden=hidden)
        recalled = release.recall(query)
        answer: dict[str, Any] = {
            "qid": record["qid"],
            "hits": [[*hit.chunk.turn_ids, *hit.also] for hit in recalled.hits[:k]],
            "ms": (time.perf_counter() - started) * 1000,
        }
        if recalled.degraded:
            answer["degraded"] = recalled.degraded
        if budgets:
            about = (release, record["chat_id"], record["question"], recalled, settings)
            answer["contexts"] = {
                str(budget): of_release(*about, budget, forgotten=forgotten).text for budget in budgets
            }
        yield answer
