"""Acting on the tags of an answer: what each asks for is planned as an effect that is carried out once (actions.py)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from dispatcher.memory.relevance import coverage
from dispatcher.memory.store.whose import is_own, is_own_or_shared, speaker_of
from dispatcher.memory.typed.actions import Acting, Outcome, kind_named, sentence_only
from dispatcher.memory.typed.matching import MemoryMatch
from dispatcher.memory.typed.sentences import (
    DONE,
    NEAR,
    NO_GOAL_LIKE,
    NO_MEMORY_LIKE_IT,
    NOT_SHOWN,
    NOTED_FOR,
    REPLACES_NOTHING,
    WHICH_GOAL,
    WHICH_MEMORY,
    quoted,
    unclear,
)
from dispatcher.memory.typed.tags import Tag, TagKind
from shared.errors import InvalidInput
from shared.text.translations import tr

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from sqlalchemy import Connection

    from dispatcher.memory.store.memories import Memory
    from dispatcher.memory.typed.actions import Effect
    from shared.turns.records import Task

#: Kind of a tag → the type of the memory that it keeps.
_KEEPING = {TagKind.REMEMBER: "fact", TagKind.GOAL: "goal", TagKind.PREFERENCE: "preference"}
_EVERY_KIND = {*_KEEPING.values(), "completed_goal"}


@dataclass(frozen=True)
class _Request:
    """An answer whose tags are acted on. `keeps`: one of them keeps something."""

    task: Task
    session: str
    now: float
    refusal: str
    shown: frozenset[int]
    keeps: bool


@dataclass(frozen=True)
class Acted:
    """The result of all tags of an answer: sentences for the person, and the ids of the forgotten turns."""

    sentences: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)


class TagActing(Acting):
    """Acting, with the tags of an answer."""

    def on_tags(
        self,
        task: Task,
        session: str,
        tags: Sequence[Tag],
        now: float,
        refusal: str = "",
        shown: frozenset[int] = frozenset(),
    ) -> Acted:
        """Act on every tag of an answer; `now` is the time of the answer. `refusal`: why what others have told is not touched, "" if it may be;
        `shown`: the numbers of memories that the model had before it: no tag names another."""
        request = _Request(task, session, now, refusal, shown, any(tag.kind in _KEEPING for tag in tags))
        outcomes = [
            self._once(task, tag.number, tag.kind.value, partial(self._plan, request, tag), now) for tag in tags
        ]
        sentences = list(dict.fromkeys(outcome.say for outcome in outcomes if outcome.say))
        return Acted(sentences, [turn for outcome in outcomes for turn in outcome.forgotten])

    def _plan(self, request: _Request, tag: Tag) -> Effect:
        if tag.kind is TagKind.DONE:
            return self._completing(request, tag)
        if tag.kind is TagKind.FORGET:
            return self._forgetting_matching(request, tag)
        if tag.kind is TagKind.REMIND:
            return self._reminding(request.task, tag, request.now)
        return self._keeping(request, tag)

    def _keeping(self, request: _Request, tag: Tag) -> Effect:
        task, now = request.task, request.now
        kind, replaced, said = _KEEPING[tag.kind], None, list[str]()
        if (number := tag.replaces) is not None:
            replaced = self._named(request, number, {kind})
            said += [] if replaced else [tr(REPLACES_NOTHING).format(number=number or tag.options["REPLACES"])]
        deadline, undated = _deadline(tag, now, self._zone_of(task.chat_id))
        whose = {} if _is_of_another(tag.options.get("ABOUT"), task) else speaker_of(task)
        planned = self._remembering.plan(
            task.chat_id,
            kind_named(kind),
            tag.text,
            now=now,
            replaced=replaced,
            deadline=deadline,
            category="until" if tag.options.get("UNTIL") and deadline else None,
            priority=tag.priority,
            session=request.session or None,
            source_turn=f"{task.task_id}:user",
            **whose,
        )
        if planned.corrected:
            said.append(tr(NOTED_FOR).format(replaced="; ".join(map(quoted, planned.corrected))))
        elif near := planned.near:
            said.append(tr(NEAR).format(number=near.number, text=quoted(near)))
        say = " ".join([*said, *([undated] if undated else [])])

        def effect(connection: Connection) -> Outcome:
            self._remembering.carry_out(planned, connection)
            return Outcome(say)

        return effect

    def _named(self, request: _Request, number: int, kinds: Collection[str]) -> Memory | None:
        """The valid memory of this number and these types, if it was shown."""
        if number not in request.shown:
            return None
        valid = self._remembering.of_chat(request.task.chat_id).memories
        return next((one for one in valid if one.number == number and one.type in kinds), None)

    def _reminding(self, task: Task, tag: Tag, now: float) -> Effect:
        from dispatcher.memory.typed.scheduling import add_reminder, read_tag

        if self._schedules is None:
            return sentence_only(tr("I cannot set reminders here."))
        table, zone = self._schedules, self._zone_of(task.chat_id)
        try:
            due = read_tag(tag, now, zone)
        except InvalidInput as error:
            return sentence_only(tr("I set no reminder: {reason}").format(reason=error))

        def effect(connection: Connection) -> Outcome:
            return Outcome(add_reminder(table, task, tag.text, due, now, zone, connection))

        return effect

    def _match(self, request: _Request, tag: Tag, kinds: Collection[str] | None) -> MemoryMatch:
        """What the person means: a number that was shown, else what the words match: their own and the chat's first; those of others only where
        nothing refuses it."""
        task, text = request.task, tag.text
        if tag.target is not None:
            stored = self._remembering.of_chat(task.chat_id).stored
            one = self._named(request, tag.target, kinds or _EVERY_KIND)
            allowed = one is not None and (not request.refusal or is_own(one, task.user_id))
            return MemoryMatch([one] if one and allowed else [], bool(one and allowed), stored)
        if request.refusal and kinds is None:
            return self._remembering.match(task.chat_id, text, None, partial(is_own, user=task.user_id))
        of_theirs = partial(is_own_or_shared, user=task.user_id)
        match = self._remembering.match(task.chat_id, text, kinds, of_theirs if task.in_group else None)
        if match.memories or request.refusal:
            return match
        return self._remembering.match(task.chat_id, text, kinds)

    def _completing(self, request: _Request, tag: Tag) -> Effect:
        match, chat_id = self._match(request, tag, {"goal"}), request.task.chat_id
        if not match.clear:
            return sentence_only(_not_clear(tag, NO_GOAL_LIKE, WHICH_GOAL, match))
        goal = match.memories[0]

        def effect(connection: Connection) -> Outcome:
            self._remembering.check(chat_id, match.stored, connection)
            self._memories.complete(chat_id, goal.memory_id, request.now, connection=connection)
            return Outcome(tr(DONE).format(text=quoted(goal)))

        return effect

    def _forgetting_matching(self, request: _Request, tag: Tag) -> Effect:
        match = self._match(request, tag, None)
        if request.refusal and not match.memories:
            return sentence_only(request.refusal)
        if not match.clear:
            return sentence_only(_not_clear(tag, NO_MEMORY_LIKE_IT, WHICH_MEMORY, match))
        memory = match.memories[0]
        detail = None
        if tag.target is None and all(
            coverage(tag.text, memory.text) >= coverage(tag.text, one) for one in memory.wordings
        ):
            detail = self._remembering.detail(memory.text, tag.text)
        return self._forgetting(
            request.task, tag.number, memory, match.stored, request.now, detail, brings_news=request.keeps
        )


def _deadline(tag: Tag, now: float, zone: ZoneInfo) -> tuple[float | None, str]:
    """(POSIX seconds of a tag's DEADLINE, ON or UNTIL; a sentence if it is not a date or has passed)."""
    from dispatcher.memory.dates.user_dates import deadline_of

    given = next((tag.options[name] for name in ("DEADLINE", "UNTIL", "ON") if name in tag.options), None)
    if given is None:
        return None, ""
    try:
        return deadline_of(given, now, zone).at, ""
    except InvalidInput as error:
        return None, tr("I saved it without a date: {why}").format(why=error)


def _is_of_another(about: str | None, task: Task) -> bool:
    """Whether what is told is about somebody else than who tells it: then it is the whole chat's."""
    return bool(about) and about is not None and about.casefold() != (task.name or "").casefold()


def _not_clear(tag: Tag, nothing: str, which: str, match: MemoryMatch) -> str:
    if tag.target is not None:
        return tr(NOT_SHOWN).format(number=tag.target)
    return unclear(nothing, which, tag.text, match)
