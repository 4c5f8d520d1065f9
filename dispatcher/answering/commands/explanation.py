"""`/why`: what was injected for the last answer, stored in Redis for a day and shown in plain words in the chat.

The record also has the figures and the technical reasons, for `hmem context CHAT --json`; the text in the chat names no file, no setting and no part
of the program.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from dispatcher.prompt.context import ITEM, MISSED, Context, degraded_kind, hit_date, rounded
from shared.search.types import SHOWN_WORDS, Hit
from shared.text.format import one_line, shorten
from shared.text.translations import later, tr
from shared.text.translations.dates import long_date
from shared.turns.records import RecordRefused, dumps, loads_object

#: The longest line that is shown, and the most lines of facts and of recalled turns each; the record has some more.
CHARACTERS, LINES = 140, 8
RECORD_CHARACTERS, RECORD_FACTS = 200, 40
#: Words and meaning are both named if the lesser one adds this share of what the other does.
BOTH = 0.5
#: What a turn was found by.
FOUND_BY = later("words"), later("meaning"), later("words and meaning"), later("time"), later("neighbouring messages")
#: How long the last answer is explained in the chat. The owner's page shows older ones, too.
SHOWN_SECONDS = 86_400.0
#: By kind of what was missing (`degraded_kind`).
MISSING: Mapping[str, str] = {
    "vectors": later("the search by meaning, so I searched by words only"),
    "keywords": later("the search by words"),
    "text": later("the earlier messages themselves, or room for them"),
    "summary": later("the summary of this chat"),
    "day": later("notes and messages since last night"),
    "memory": later("all of my memory"),
    "release": later("messages from before today"),
    "other": later("part of my memory"),
}
NOTHING = later(
    "There is nothing to explain: I gave no answer within the last day, or something was forgotten since then and the explanation was "
    "deleted with it."
)
UNREADABLE = later(
    "I cannot read the explanation of my last answer: another program has overwritten it. My next answer will have one again."
)


def why_record(context: Context, task_id: str = "", at: float | None = None) -> bytes:
    """JSON for `hcli:mem:why`: the context without its text, with its facts, and each hit shortened; `missed`: the best that were left out.

    `at` is the time of the answer in POSIX seconds.
    """
    parts = {part.name: part.text for part in context.parts}
    noted = [line for name in ("profile", "facts") for line in parts.get(name, "").splitlines()]
    facts = dict.fromkeys(line[found.end() :] for line in noted if (found := ITEM.match(line)))
    more = {
        "facts": [shorten(one, RECORD_CHARACTERS) for one in facts][:RECORD_FACTS],
        "summary_at": context.summary_at if "summary" in parts else None,
        "missing": sorted({*filter(None, (degraded_kind(one, context.release_run) for one in context.degraded))}),
        "nothing_plain": context.no_recall_plain,
        "hits": [_hit(hit, context) for hit in context.used],
        "missed": [_hit(hit, context) for hit in context.cut[:MISSED]],
        "task_id": task_id,
        "at": at,
    }
    return dumps(context.outline() | more)


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
        return tr(NOTHING)
    try:
        record = loads_object(raw)
        at = record.get("at")
        if at is not None and time.time() - at > SHOWN_SECONDS:
            return tr(NOTHING)
        return "\n".join(_lines(record))
    except (RecordRefused, KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return tr(UNREADABLE)


def _lines(record: dict[str, Any]) -> list[str]:
    names = [part["name"] for part in record["parts"]]
    lines = [*_facts(record["facts"]), _summary(record["summary_at"])]
    lines += _recalled(record["hits"], record["nothing_plain"])
    if "recent" in names:
        lines.append(tr("The conversation so far."))
    if record["missing"]:
        missing = "; ".join(tr(MISSING[kind]) for kind in record["missing"])
        lines.append(tr("Not available at that time: {missing}.").format(missing=missing))
    return [tr("For my last answer I was given this from memory."), *lines]


def _facts(facts: Sequence[str]) -> list[str]:
    if not facts:
        return [tr("Facts and goals: none.")]
    return [tr("Facts and goals:"), *_some([f"- {shorten(one_line(one), CHARACTERS)}" for one in facts])]


def _summary(made: str | None) -> str:
    if not made:
        return tr("Summary of earlier conversations: none.")
    return tr("Summary of earlier conversations: as of {day}.").format(day=_day(made))


def _recalled(hits: Sequence[Mapping[str, Any]], nothing: str | None) -> list[str]:
    if not hits:
        return [
            tr("Earlier messages: none, because {reason}.").format(reason=tr(nothing or later("nothing was found")))
        ]
    lines = [
        f"- {_day(hit['date'])}, {hit['speaker']}: {shorten(one_line(hit['text']), CHARACTERS)} ({tr(hit['because'])})"
        for hit in hits
    ]
    return [tr("Earlier messages, and what each was found by:"), *_some(lines)]


def _some(lines: list[str]) -> list[str]:
    left = len(lines) - LINES
    return lines if left <= 0 else [*lines[:LINES], tr("… and {count} more").format(count=left)]


def _day(moment: str) -> str:
    return long_date(datetime.fromisoformat(moment))
