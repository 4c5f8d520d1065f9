"""Acting on the tags of an answer: what each asks for is planned as an effect that is carried out once (actions.py)."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from dispatcher.memory.store.memories import MemoryType
from dispatcher.memory.store.whose import is_own, is_own_or_shared, speaker_of
from dispatcher.memory.typed.actions import Acting, Outcome, sentence_only
from dispatcher.memory.typed.matching import MemoryMatch
from dispatcher.memory.typed.sentences import (
    DONE,
    NEAR,
    NO_GOAL_LIKE,
    NO_MEMORY_LIKE_IT,
    NOT_SHOWN,
    NOTED_FOR,
    REPLACES_NOTHING,
    TOLD_BY_ANOTHER,
    WHICH_GOAL,
    WHICH_MEMORY,
    quoted,
    unclear,
)
from dispatcher.memory.typed.tags import AnswerTags, Tag, TagKind, tag_kinds
from shared.errors import InvalidInput
from shared.text.translations import tr

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from sqlalchemy import Connection

    from dispatcher.memory.store.memories import Memory
    from dispatcher.memory.typed.actions import Effect
    from shared.turns.records import Task

#: Kind of a tag → the type of the memory that it keeps.
_KEEPING: dict[str, str] = {TagKind.REMEMBER: "fact", TagKind.GOAL: "goal", TagKind.PREFERENCE: "preference"}
_EVERY_KIND = {*_KEEPING.values(), "completed_goal"}


@dataclass(frozen=True)
class Acted:
    """The result of all tags of an answer: sentences for the person, the ids of the forgotten turns, and whether a wish to forget is unmet."""

    sentences: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    unmet: bool = False


class TagActing(Acting):
    """Acting, with the tags of an answer."""

    def on_tags(self, answer: AnswerTags) -> Acted:
        """Act on every tag of an answer."""
        now = time.time()  # what an import brings was said long ago
        outcomes = [
            self.once(answer.task, tag.number, str(tag.kind), partial(self._plan, answer, tag), now)
            for tag in answer.tags
        ]
        sentences = list(dict.fromkeys(outcome.say for outcome in outcomes if outcome.say))
        forgotten = [turn for outcome in outcomes for turn in outcome.forgotten]
        return Acted(sentences, forgotten, any(outcome.unmet for outcome in outcomes))

    def _plan(self, answer: AnswerTags, tag: Tag) -> Effect:
        if tag.kind == TagKind.DONE:
            return self._completing(answer, tag)
        if tag.kind == TagKind.FORGET:
            return self._forgetting_matching(answer, tag)
        if plan := tag_kinds()[tag.kind].plan:
            effect: Effect = plan(self._day, answer, tag)
            return effect
        return self._remembering(answer, tag)

    def _remembering(self, answer: AnswerTags, tag: Tag) -> Effect:
        task, now = answer.task, answer.said_at
        kind, replaced, said = _KEEPING[tag.kind], None, list[str]()
        if (number := tag.replaces) is not None:
            replaced = self._named(answer, number, {kind})
            if replaced is None:
                said.append(tr(REPLACES_NOTHING).format(number=number or tag.options["REPLACES"]))
            elif answer.refusal and not is_own(replaced, task.user_id):
                replaced = None
                said.append(tr(TOLD_BY_ANOTHER).format(number=number))
        deadline, undated = _deadline(tag, now, self._day.zone_of(task.chat_id))
        whose = {} if _is_of_another(tag.options.get("ABOUT"), task) else speaker_of(task)
        planned = self._day.remembering.plan(
            task.chat_id,
            MemoryType(kind),
            tag.text,
            now=now,
            replaced=[replaced] if replaced else (),
            deadline=deadline,
            category="until" if tag.options.get("UNTIL") and deadline else None,
            priority=tag.priority,
            session=answer.session or None,
            source_turn=f"{task.task_id}:user",
            **whose,
        )
        if planned.corrected:
            said.append(tr(NOTED_FOR).format(replaced="; ".join(map(quoted, planned.corrected))))
        elif near := planned.near:
            said.append(tr(NEAR).format(number=near.number, text=quoted(near)))
        say = " ".join([*said, *([undated] if undated else [])])
        return self._keeping(planned, lambda *_: say)

    def _named(self, answer: AnswerTags, number: int, kinds: Collection[str]) -> Memory | None:
        """The valid memory of this number and these types, if it was shown."""
        if answer.shown is not None and number not in answer.shown:
            return None
        valid = self._day.remembering.of_chat(answer.task.chat_id).memories
        return next((one for one in valid if one.number == number and one.type in kinds), None)

    def _match(self, answer: AnswerTags, tag: Tag, kinds: Collection[str]) -> MemoryMatch:
        """What the person means: a number that was shown, else what the words match: their own and the chat's first; those of others only where
        nothing refuses it."""
        task = answer.task
        is_theirs = is_own if answer.refusal and tag.kind == TagKind.FORGET else is_own_or_shared
        if tag.target is not None:
            stored = self._day.remembering.of_chat(task.chat_id).stored
            one = self._named(answer, tag.target, kinds)
            found = [one] if one and (not answer.refusal or is_theirs(one, task.user_id)) else []
            return MemoryMatch(found, bool(found), stored)
        match = partial(self._day.remembering.match, task.chat_id, tag.text)
        theirs = match(lambda one: one.type in kinds and is_theirs(one, task.user_id))
        return theirs if theirs.memories or answer.refusal else match(lambda one: one.type in kinds)

    def _completing(self, answer: AnswerTags, tag: Tag) -> Effect:
        match, chat_id = self._match(answer, tag, {"goal"}), answer.task.chat_id
        if not match.clear:
            return sentence_only(_not_clear(tag, NO_GOAL_LIKE, WHICH_GOAL, match))
        goal = match.memories[0]

        def effect(connection: Connection) -> Outcome:
            self._day.remembering.check(chat_id, match.stored, connection)
            self._day.memories.complete(chat_id, goal.memory_id, answer.said_at, connection=connection)
            return Outcome(tr(DONE).format(text=quoted(goal)))

        return effect

    def _forgetting_matching(self, answer: AnswerTags, tag: Tag) -> Effect:
        match = self._match(answer, tag, _EVERY_KIND)
        if not match.clear:
            refused = answer.refusal if not match.memories else ""
            say = refused or _not_clear(tag, NO_MEMORY_LIKE_IT, WHICH_MEMORY, match)
            unmet = Outcome(say, unmet=not match.memories)
            return lambda _connection: unmet
        news = any(one.kind in _KEEPING for one in answer.tags)
        memory = match.memories[0]
        return self._forgetting(answer.task, tag.number, memory, match.stored, answer.said_at, brings_news=news)


def _deadline(tag: Tag, now: float, zone: ZoneInfo) -> tuple[float | None, str]:
    """(POSIX seconds of a tag's DEADLINE, ON or UNTIL; a sentence if it is not a date or has passed)."""
    from dispatcher.memory.dates.user_dates import deadline_of

    given = next((tag.options[name] for name in ("DEADLINE", "UNTIL", "ON") if name in tag.options), None)
    if given is None:
        return None, ""
    try:
        return deadline_of(given, now, zone), ""
    except InvalidInput as error:
        return None, tr("I saved it without a date: {why}").format(why=error)


def _is_of_another(about: str | None, task: Task) -> bool:
    """Whether what is told is about somebody else than who tells it: then it is the whole chat's."""
    return about is not None and about.casefold() != (task.name or "").casefold()


def _not_clear(tag: Tag, nothing: str, which: str, match: MemoryMatch) -> str:
    if tag.target is not None:
        return tr(NOT_SHOWN).format(number=tag.target)
    return unclear(nothing, which, tag.text, match)
