"""`/memory why`: what was injected for the last answer, stored in Redis for a day and shown in plain words in the chat.

The record also has the figures and the technical reasons, for `hmem memory why --json`; the text in the chat names no file, no setting and no part
of the program.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from dispatcher.health.metrics import degraded_kind
from dispatcher.prompt.context import Context, hit_date, rounded
from shared.search.types import SHOWN_WORDS, Hit
from shared.text.dates.calendar_words import ENGLISH
from shared.text.format import one_line, shorten
from shared.turns.records import RecordRefused, dumps, loads_object

#: The longest line that is shown, and the most lines of facts and of recalled turns each; the record has some more.
CHARACTERS, LINES = 140, 8
RECORD_CHARACTERS, RECORD_FACTS, RECORD_MISSED = 200, 40, 5
#: Words and meaning are both named if the lesser one adds this share of what the other does.
BOTH = 0.5
#: How long the last answer is explained in the chat. The owner's page shows older ones, too.
SHOWN_SECONDS = 86_400.0
#: By kind of what was missing (metrics.py).
MISSING: Mapping[str, str] = {
    "vectors": "the search by meaning, so I searched by words only",
    "keywords": "the search by words",
    "text": "the earlier messages themselves, or room for them",
    "summary": "the summary of this chat",
    "day": "notes and messages since last night",
    "memory": "all of my memory",
    "release": "messages from before today",
    "other": "part of my memory",
}
NOTHING = (
    "There is nothing to explain: I gave no answer within the last day, or something was forgotten since then and the explanation was "
    "deleted with it."
)
UNREADABLE = "I cannot read the explanation of my last answer: another program has overwritten it. My next answer will have one again."


def why_record(context: Context, task_id: str = "", at: float | None = None) -> bytes:
    """JSON for `hcli:mem:why`: the context without its text, with its facts, and each hit shortened; `missed`: the best that were left out.

    `at` is the time of the answer in POSIX seconds.
    """
    parts = {part.name: part.text for part in context.parts}
    noted = [line for name in ("facts", "relevant") for line in parts.get(name, "").splitlines()]
    facts = dict.fromkeys(line.removeprefix("- ") for line in noted if line.startswith("- "))
    more = {
        "facts": [shorten(one, RECORD_CHARACTERS) for one in facts][:RECORD_FACTS],
        "summary_at": context.summary_at if "summary" in parts else None,
        "missing": _kinds(context),
        "nothing_plain": context.no_recall_plain,
        "hits": [_hit(hit, context) for hit in context.used],
        "missed": [_hit(hit, context) for hit in context.cut[:RECORD_MISSED]],
        "task_id": task_id,
        "at": at,
    }
    return dumps(context.outline() | more)


def _kinds(context: Context) -> list[str]:
    kinds = (degraded_kind(reason, context.release_run) for reason in context.degraded)
    return sorted({kind for kind in kinds if kind is not None})


def _hit(hit: Hit, context: Context) -> dict[str, Any]:
    return {
        "date": hit_date(hit, context.zone),
        "score": round(hit.score, 4),
        "words": rounded(hit.words),
        "meaning": rounded(hit.meaning),
        "speaker": hit.who,
        "because": "time" if context.by_time else _because(hit.words, hit.meaning),
        "text": shorten(one_line(hit.chunk.text), RECORD_CHARACTERS),
    }


def _because(words: float | None, meaning: float | None) -> str:
    """What the turn was found by, judged by the parts of the score that people see."""
    adds = {"words": SHOWN_WORDS * (words or 0.0), "meaning": (1 - SHOWN_WORDS) * (meaning or 0.0)}
    most = max(adds.values())
    return (
        " and ".join(name for name, share in adds.items() if most > 0 and share >= BOTH * most)
        or "neighbouring messages"
    )


def why_text(raw: bytes | None) -> str:
    """What was injected for the last answer, as text for people; `raw` is the record in Redis."""
    if raw is None:
        return NOTHING
    try:
        record = loads_object(raw)
        at = record.get("at")
        if at is not None and time.time() - at > SHOWN_SECONDS:
            return NOTHING
        return "\n".join(_lines(record))
    except (RecordRefused, KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return UNREADABLE


def _lines(record: dict[str, Any]) -> list[str]:
    names = [part["name"] for part in record["parts"]]
    lines = [
        *_facts(record["facts"]),
        _summary(record["summary_at"]),
        *_recalled(record["hits"], record["nothing_plain"]),
    ]
    if "recent" in names:
        lines.append("The conversation so far.")
    if record["missing"]:
        lines.append(f"Not available at that time: {'; '.join(MISSING[kind] for kind in record['missing'])}.")
    return ["For my last answer I was given this from memory.", *lines]


def _facts(facts: Sequence[str]) -> list[str]:
    if not facts:
        return ["Facts and goals: none."]
    return ["Facts and goals:", *_some([f"- {shorten(one_line(one), CHARACTERS)}" for one in facts])]


def _summary(made: str | None) -> str:
    return (
        f"Summary of earlier conversations: as of {_day(made)}." if made else "Summary of earlier conversations: none."
    )


def _recalled(hits: Sequence[Mapping[str, Any]], nothing: str | None) -> list[str]:
    if not hits:
        return [f"Earlier messages: none, because {nothing or 'nothing was found'}."]
    lines = [
        f"- {_day(hit['date'])}, {hit['speaker']}: {shorten(one_line(hit['text']), CHARACTERS)} ({hit['because']})"
        for hit in hits
    ]
    return ["Earlier messages, and what each was found by:", *_some(lines)]


def _some(lines: list[str]) -> list[str]:
    left = len(lines) - LINES
    return lines if left <= 0 else [*lines[:LINES], f"… and {left} more"]


def _day(moment: str) -> str:
    at = datetime.fromisoformat(moment)
    return f"{at.day} {ENGLISH.months[at.month - 1]} {at.year}"
