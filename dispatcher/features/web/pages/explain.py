"""*Why*: what was injected for each of the last answers. *Try*: what would be injected for a message now, with other settings if wanted."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field, ValidationError
from redis.exceptions import RedisError
from starlette.responses import Response

from dispatcher.features.web.reading.markdown import readable_answers
from dispatcher.features.web.requests.asked import Asked
from dispatcher.memory.tombstones import hidden_by
from dispatcher.prompt.preview import preview
from dispatcher.queue.consolidation.chat_turns import waiting
from shared.config.kinds import memory_backends
from shared.errors import InvalidInput
from shared.system.command import translate
from shared.turns.records import RecordRefused, loads_object
from shared.wire import keys
from shared.wire.ids import LATEST_TIMESTAMP

#: Characters of a message that is tried, and about so many of an answer that is shown.
MESSAGE_CHARACTERS, ANSWER_CHARACTERS = 4000, 1500


class _Part(BaseModel):
    name: str
    tokens: int


class _HitShown(BaseModel):
    date: str
    speaker: str
    text: str
    score: float
    because: str = ""
    words: float | None = None
    meaning: float | None = None


class Explanation(BaseModel):
    """A record of `answering/commands/explanation.py`, as it is shown: whoever may write to Redis may have written it."""

    parts: list[_Part]
    hits: list[_HitShown]
    missed: list[_HitShown] = []
    facts: list[str] = []
    degraded: list[str] = []
    task_id: str = ""
    at: float | None = Field(None, ge=0, lt=LATEST_TIMESTAMP, allow_inf_nan=False)
    tokens: int = 0
    release: int | None = None
    why: str | None = None
    nothing_why: str | None = None


def why(asked: Asked) -> Response:
    chat_id, task = asked.chat(), asked.value("task")
    records, notes = _records(asked, chat_id)
    chosen = next((one for one in records if one["task_id"] == task), records[0] if records and not task else None)
    texts: dict[str, str] = {}
    with asked.memory() as memory:
        if records:
            ids = [f"{one['task_id']}:{role}" for one in records for role in ("user", "asst")]
            gone = hidden_by(memory.day.forgotten.of(chat_id)).turn_ids
            found = memory.day.turns.named(chat_id, ids) if memory.day.wanted else []
            texts = {turn.turn_id: turn.remembered for turn in waiting(asked.redis, chat_id)[1]}
            texts |= {one.turn.turn_id: one.turn.remembered for one in found}
            texts = {turn: text for turn, text in texts.items() if turn not in gone}
        answer = texts.get(f"{chosen['task_id']}:asst") if chosen else None
        return asked.chat_page(
            memory,
            "why.html",
            "Why",
            records=records,
            chosen=chosen,
            texts=texts,
            answer=readable_answers([answer], characters=ANSWER_CHARACTERS)[0] if answer else None,
            notes=notes,
        )


def _records(asked: Asked, chat_id: str) -> tuple[list[dict[str, Any]], list[str]]:
    """(the answers' records, the newest first; what went wrong)."""
    try:
        raw: Any = asked.redis.lrange(keys.why(chat_id), 0, -1)
    except RedisError as error:
        return [], [str(translate(error))]
    found, unreadable = [], 0
    for one in reversed(raw):
        try:
            found.append(
                Explanation.model_validate(loads_object(one)).model_dump()
            )  # which also reads half a character
        except (RecordRefused, ValidationError):
            unreadable += 1
    return found, [f"{unreadable} records cannot be read: another program has overwritten them."] if unreadable else []


def try_prompt(asked: Asked) -> Response:
    chat_id, message = asked.chat(), asked.value("text").strip()
    budget = asked.number("budget", asked.settings.memory_tokens, 1, 200_000)
    backend = asked.value("backend") or asked.settings.memory_backend
    if backend not in (backends := memory_backends()):
        raise InvalidInput(f"There is no backend {backend}. Choose one of {', '.join(backends)}.")
    if len(message) > MESSAGE_CHARACTERS:
        raise InvalidInput(f"The message has more than {MESSAGE_CHARACTERS} characters. Shorten it.")
    day, who = asked.date("date"), asked.value("who").strip()
    now = day.replace(hour=12).timestamp() if day else None  # from which "last week" is counted
    found, slow = None, list[str]()
    with asked.memory(vectors=bool(message)) as memory:
        if message:
            settings = asked.settings.model_copy(update={"memory_tokens": budget, "memory_backend": backend})
            found, slow = preview(memory, settings, asked.redis, chat_id, message, now=now, who=who)
        return asked.chat_page(
            memory,
            "try.html",
            "Try",
            text=message,
            budget=budget,
            backend=backend,
            backends=backends,
            who=who,
            found=found,
            slow=slow,
        )
