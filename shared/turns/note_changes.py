"""What a model is asked and answers when it is to put a chat's notes in order: the night leaves it as a Dream, the day judges the changes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, OnErrorOmit
from pydantic_core import from_json

#: The most changes that are read of one answer, and characters of a new text.
MOST_CHANGES, TEXT_CHARACTERS = 50, 1_000


class Change(BaseModel):
    """One change: `notes` are numbers of memories, `messages` those of the request, from 1; `until`: a day as YYYY-MM-DD."""

    model_config = ConfigDict(extra="ignore")
    do: Literal["add", "replace", "end", "merge"]
    notes: list[int] = []
    text: Annotated[str, Field(max_length=TEXT_CHARACTERS)] = ""
    messages: list[int] = []
    until: str = ""


class Changes(BaseModel):
    """A whole answer."""

    model_config = ConfigDict(extra="ignore")
    changes: list[Change] = []


class Dream(BaseModel):
    """What a night leaves for one chat: a `prompt` for Claude, or a model's `answer`. `turns`: ids, by the numbers of the request; `notes`: numbers
    of the memories in it; `propose`: the owner decides; `tries`: how often Claude gave an error in place of an answer."""

    run: int
    chat_id: str
    at: float
    propose: bool
    turns: list[str]
    notes: list[int]
    model: str = ""
    prompt: str = ""
    answer: str = ""
    tries: int = 0


class _Readable(BaseModel):
    """The same without changes that cannot be read."""

    changes: list[OnErrorOmit[Change]]


def read_changes(answer: str) -> tuple[list[Change], int]:
    """The changes that can be read, and how many cannot. ValueError if the answer has no JSON object with a list of changes."""
    start, end = answer.find("{"), answer.rfind("}")
    record = from_json(answer[start : end + 1] if 0 <= start < end else answer, allow_partial=False)
    found = _Readable.model_validate(record).changes[:MOST_CHANGES]
    return found, len(record["changes"]) - len(found)


def refused_shape(answer: str, _: str = "") -> str | None:
    """What is wrong with the shape of an answer, or None."""
    try:
        read_changes(answer)
    except ValueError:
        return "the answer is not the JSON that was asked for"
    return None
