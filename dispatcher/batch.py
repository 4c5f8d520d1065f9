"""Many questions in one process, in the format that recall is scored with.

In: lines of `{"qid", "chat_id", "question", "now"}`. Out: lines of `{"qid", "hits": [[turn id, …], …], "ms"}`, best first, and with
budgets also `"contexts": {"500": text, …}`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dispatcher.context import RECALLED_HITS, compose
from shared.errors import InvalidInput
from shared.recall import OpenRelease
from shared.records import RecordRefused, chat_id_of, loads_object
from shared.settings import Settings


def read_questions(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InvalidInput(f"The batch file cannot be read: {error}.") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = loads_object(line)
            yield {"qid": record["qid"], "chat_id": chat_id_of(record["chat_id"]), "question": str(record["question"])}
        except (RecordRefused, KeyError) as error:
            raise InvalidInput(f"{path} line {number}: {error}. A line is {{qid, chat_id, question, now}}.") from error


def answer_batch(
    settings: Settings, release: OpenRelease, path: Path, k: int, budgets: list[int]
) -> Iterator[dict[str, Any]]:
    for record in read_questions(path):
        started = time.perf_counter()
        recalled = release.recall(record["chat_id"], record["question"], max(k, RECALLED_HITS) if budgets else k)
        answer: dict[str, Any] = {
            "qid": record["qid"],
            "hits": [list(hit.chunk.turn_ids) for hit in recalled.hits[:k]],
            "ms": (time.perf_counter() - started) * 1000,
        }
        if budgets:
            summary = (release.summary(record["chat_id"]) if settings.memory_summary else None) or ""
            answer["contexts"] = {
                str(budget): compose(
                    recalled, summary.strip(), budget=budget, zone=settings.timezone, run=release.run
                ).text
                for budget in budgets
            }
        yield answer
