"""What features add to the memory of the day (shared/hooks.py): tables of the day store (store/feature_rows.py), tags of answers (typed/tags.py)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from shared.hooks import features, specification

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table


@dataclass(frozen=True)
class Coming:
    """What is to come at a time: `kind`: what it is, a word in English; `created`: when it was set, by `user_id` and `name`. POSIX seconds."""

    at: float
    chat_id: str
    kind: str
    text: str
    created: float
    user_id: str | None
    name: str | None


@dataclass(frozen=True)
class FeatureTable:
    """`table`, in `metadata` (tables.py): beside its own, it has the columns chat_id, number (in the chat), uid (for ever), text, created (POSIX
    seconds) and source_turn (the turn that asked for the row, or null). `kind`: of its events, 1 to 32 letters from a to z. `title`: what the rows
    are; `one` and `several` of them. `exported`: the columns in an export, of which the Double are times, in the zone of the row if it has one.
    `coming`: what is to come up to a time in these chats (None: in all), for prompts and the owner's page."""

    table: Table
    kind: str
    title: str
    one: str
    several: str
    exported: tuple[str, ...]
    coming: Callable[[Connection, Collection[str] | None, float], Iterable[Coming]]


@specification(fails="closed")
def day_table() -> FeatureTable | None:
    """A table of the day store. The core makes it in every store that lacks it, hands what changes in it to the archive and brings that back, and
    forgets, scans, exports and shows its rows with their chat. Called once."""


@dataclass(frozen=True)
class TagDefinition:
    """`word`: one of TAG_WORDS (shared/text/marks.py); `options`: what may follow its text; `taught`: a line of the prompt; `plan`: makes the Effect
    of a Tag in its AnswerTags, given the DayParts, which is carried out once, in one transaction with its record (typed/actions.py); None: the
    feature reads it in `answered`."""

    word: str
    options: tuple[str, ...] = ()
    taught: str = ""
    plan: Callable[[Any, Any, Any], Any] | None = None


@specification(fails="open")
def answer_tag() -> TagDefinition | None:
    """A tag that Claude may write for the feature. Called once; without it the tag is text."""


@cache
def feature_tables() -> tuple[FeatureTable, ...]:
    return tuple(features().ask(day_table))
