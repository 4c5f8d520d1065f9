"""Acting on the tags of an answer, and on `/memory`: each effect once for (task id, number), whatever dies in between.

A write is planned outside the transaction (it may call an embedder and search the release), against one revision of the chat's memories. If
the revision has changed by the time of the transaction, the write is planned again. An effect and its outcome are one transaction of the store,
so a task that runs again reads its earlier outcome and gives the same answer. The tombstone is written first, under a unique id (repeating it
changes nothing): what is to be forgotten is hidden before anything else changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from dispatcher.memory.dates.fact_dates import ends
from dispatcher.memory.relevance import coverage
from dispatcher.memory.store.whose import is_own, is_own_or_shared, speaker_of
from dispatcher.memory.typed.judging import Draft, store_drafts
from dispatcher.memory.typed.memories import GroundMoved
from dispatcher.memory.typed.sentences import (
    CORRECTED,
    DONE,
    FORGOTTEN,
    FORGOTTEN_AND_BACK,
    NO_GOAL_LIKE,
    NO_MEMORY_LIKE,
    NO_NUMBER,
    NO_NUMBER_TO_FORGET,
    NO_OPEN_GOAL,
    NOTED_FOR,
    WHICH_GOAL,
    WHICH_MEMORY,
    quoted,
    saved,
    unclear,
)
from dispatcher.memory.typed.tags import Tag, TagKind
from dispatcher.memory.withholding import Hidden, TurnTexts, hidden_with
from shared.errors import InvalidInput
from shared.text.translations import tr
from shared.turns.records import ROLES, Task, Tombstone

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from sqlalchemy import Connection

    from dispatcher.memory.store.actions import Actions
    from dispatcher.memory.store.memories import Memories, Memory
    from dispatcher.memory.store.schedules import Schedules
    from dispatcher.memory.tombstones import Forgotten
    from dispatcher.memory.typed.memories import MemoryMatch, Remembering

    #: Writes the effect of one tag and returns its outcome; GroundMoved if the plan is out of date.
    Effect = Callable[[Connection], "Outcome"]

#: Characters of a tombstone's id, as of a task's (shared/turns/records.py).
LONGEST_ID = 100


@dataclass(frozen=True)
class Outcome:
    """The result of one tag: a sentence for the person ("" for none), and the ids of the forgotten turns."""

    say: str = ""
    forgotten: tuple[str, ...] = ()

    def to_json(self) -> str:
        return orjson.dumps({"say": self.say, "forgotten": self.forgotten}).decode()

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        record: dict[str, Any] = orjson.loads(text)
        return cls(record["say"], tuple(record["forgotten"]))


@dataclass(frozen=True)
class Acted:
    """The result of all tags of an answer: sentences for the person, and the ids of the forgotten turns."""

    sentences: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)


class Acting:
    """Raises StoreUnavailable if the store cannot be reached: nothing of the tag was done then, and it may be tried again."""

    def __init__(
        self,
        memories: Memories,
        actions: Actions,
        remembering: Remembering,
        forgotten: Forgotten,
        zone_of: Callable[[str], ZoneInfo],
        repeating: Callable[[str, str], Sequence[str]],
        texts: TurnTexts | None = None,
        schedules: Schedules | None = None,
    ) -> None:
        """`repeating(chat, text)` returns the turns that repeat a text; `texts` reads their text. Without it whole turns are hidden.

        `schedules`: where the reminders go.
        """
        self._schedules = schedules
        self._memories, self._actions, self._remembering = memories, actions, remembering
        self._forgotten, self._zone_of, self._repeating, self._texts = forgotten, zone_of, repeating, texts

    def on_tags(self, task: Task, session: str, tags: Sequence[Tag], now: float, refusal: str = "") -> Acted:
        """Act on every tag of an answer; `now` is the time of the answer. `refusal`: why what others have told is not touched, "" if it may be."""
        outcomes = [
            self._once(task, tag.number, tag.kind.value, partial(self._plan, task, session, tag, now, refusal), now)
            for tag in tags
        ]
        sentences = list(dict.fromkeys(outcome.say for outcome in outcomes if outcome.say))
        return Acted(sentences, [turn for outcome in outcomes for turn in outcome.forgotten])

    def add(self, task: Task, text: str, now: float, *, kind: str = "fact", **more: Any) -> Outcome:
        """`/memory add`, and `hmem memory add` with `more`: deadline (POSIX seconds), importance (1 to 5), priority."""
        if kind == "fact":
            more.setdefault("deadline", ends(text, now, self._zone_of(task.chat_id)))

        def plan() -> Effect:
            planned = self._remembering.plan(task.chat_id, _kind(kind), text, now=now, **speaker_of(task), **more)

            def effect(connection: Connection) -> Outcome:
                memory, new = self._remembering.carry_out(planned, connection)
                return Outcome(saved(memory, planned.corrected, new=new))

            return effect

        return self._once(task, 0, "add", plan, now)

    def correct(self, task: Task, number: int, text: str, now: float, source_turn: str | None = None) -> Outcome:
        """`hmem memory correct N`, `/memory edit N`: a new memory replaces this one, which stays known as what was believed before. A goal keeps
        its deadline, and each its speaker."""

        def plan() -> Effect:
            known = self._remembering.of_chat(task.chat_id)
            old = next((one for one in known.memories if one.number == number), None)
            if old is None:
                return _sentence_only(tr(NO_NUMBER).format(number=number))
            until = old.deadline if old.type != "fact" else ends(text, now, self._zone_of(task.chat_id))
            more = {
                "deadline": until,
                "importance": old.importance,
                "priority": old.priority,
                "source_turn": source_turn,
                "user_id": old.user_id,
                "name": old.name,
            }
            planned = self._remembering.plan(task.chat_id, old.type, text, now=now, **more)
            planned = replace(planned, same=None, replaces=False, corrected=(old,))

            def effect(connection: Connection) -> Outcome:
                memory, _ = self._remembering.carry_out(planned, connection)
                return Outcome(tr(CORRECTED).format(number=memory.number, text=quoted(memory), old=number))

            return effect

        return self._once(task, 0, "correct", plan, now)

    def store_all(self, task: Task, drafts: Sequence[Draft], now: float) -> None:
        """Store new memories, all or none: one batch of an imported file."""

        def effect(connection: Connection) -> Outcome:
            store_drafts(self._memories, task.chat_id, drafts, connection)
            return Outcome()

        self._once(task, 0, "import", lambda: effect, now)

    def done(self, task: Task, number: int, now: float) -> Outcome:
        """`hmem memory done N`."""

        def effect(connection: Connection) -> Outcome:
            goal = self._memories.by_number(task.chat_id, number, connection=connection)
            if goal is None or not self._memories.complete(task.chat_id, goal.memory_id, now, connection=connection):
                return Outcome(tr(NO_OPEN_GOAL).format(number=number))
            return Outcome(tr(DONE).format(text=quoted(goal)))

        return self._once(task, 0, "done", lambda: effect, now)

    def forget(self, task: Task, number: int, now: float) -> Outcome:
        """`/memory forget N`."""

        def plan() -> Effect:
            known = self._remembering.of_chat(task.chat_id)
            memory = next((one for one in known.every if one.number == number), None)
            if memory is None:
                return _sentence_only(tr(NO_NUMBER_TO_FORGET).format(number=number))
            return self._forgetting(task, 0, memory, known.stored, now)

        return self._once(task, 0, "forget", plan, now)

    def _once(self, task: Task, number: int, kind: str, plan: Callable[[], Effect], now: float) -> Outcome:
        """The outcome of the plan, or the earlier outcome. GroundMoved means that another writer has made progress, so the loop ends."""
        done = self._actions.outcome(task.chat_id, task.task_id, number)
        while done is None:
            effect = plan()
            with suppress(GroundMoved):
                done = self._actions.apply_once(
                    task.chat_id, task.task_id, number, kind, partial(_outcome_text, effect), now=now
                )
        return Outcome.from_json(done)

    def _plan(self, task: Task, session: str, tag: Tag, now: float, refusal: str) -> Effect:
        if tag.kind is TagKind.DONE:
            return self._completing(task, tag, now, all_too=not refusal)
        if tag.kind is TagKind.FORGET:
            return self._forgetting_matching(task, tag, now, refusal)
        if tag.kind is TagKind.REMIND:
            return self._reminding(task, tag, now)
        return self._keeping(task, session, tag, now)

    def _keeping(self, task: Task, session: str, tag: Tag, now: float) -> Effect:
        kind = {TagKind.REMEMBER: "fact", TagKind.GOAL: "goal", TagKind.PREFERENCE: "preference"}[tag.kind]
        zone = self._zone_of(task.chat_id)
        deadline, undated = _deadline(tag, now, zone)
        until = ends(tag.text, now, zone) if tag.kind is TagKind.REMEMBER else None
        planned = self._remembering.plan(
            task.chat_id,
            _kind(kind),
            tag.text,
            now=now,
            deadline=until if deadline is None else deadline,
            priority=tag.priority,
            session=session or None,
            source_turn=f"{task.task_id}:user",
            **speaker_of(task),
        )
        replaced = "; ".join(quoted(one) for one in planned.corrected)
        say = tr(NOTED_FOR).format(replaced=replaced) if replaced else ""
        say = " ".join(filter(None, (say, undated)))

        def effect(connection: Connection) -> Outcome:
            self._remembering.carry_out(planned, connection)
            return Outcome(say)

        return effect

    def _reminding(self, task: Task, tag: Tag, now: float) -> Effect:
        from dispatcher.memory.typed.scheduling import add_reminder, read_tag

        if self._schedules is None:
            return _sentence_only(tr("I cannot set reminders here."))
        table, zone = self._schedules, self._zone_of(task.chat_id)
        try:
            due = read_tag(tag, now, zone)
        except InvalidInput as error:
            return _sentence_only(tr("I set no reminder: {reason}").format(reason=error))

        def effect(connection: Connection) -> Outcome:
            return Outcome(add_reminder(table, task, tag.text, due, now, zone, connection))

        return effect

    def _match(self, task: Task, text: str, kinds: Collection[str] | None, *, all_too: bool) -> MemoryMatch:
        """What the person means: their own and the chat's first; those of others only if `all_too`."""
        of_theirs = partial(is_own_or_shared, user=task.user_id)
        match = self._remembering.match(task.chat_id, text, kinds, of_theirs if task.in_group else None)
        return self._remembering.match(task.chat_id, text, kinds) if all_too and not match.memories else match

    def _completing(self, task: Task, tag: Tag, now: float, *, all_too: bool) -> Effect:
        match = self._match(task, tag.text, {"goal"}, all_too=all_too)
        if not match.clear:
            return _sentence_only(unclear(NO_GOAL_LIKE, WHICH_GOAL, tag.text, match))
        goal = match.memories[0]

        def effect(connection: Connection) -> Outcome:
            self._remembering.check(task.chat_id, match.stored, connection)
            self._memories.complete(task.chat_id, goal.memory_id, now, connection=connection)
            return Outcome(tr(DONE).format(text=quoted(goal)))

        return effect

    def _forgetting_matching(self, task: Task, tag: Tag, now: float, refusal: str) -> Effect:
        if refusal:
            match = self._remembering.match(task.chat_id, tag.text, None, partial(is_own, user=task.user_id))
            if not match.memories:
                return _sentence_only(refusal)
        else:
            match = self._match(task, tag.text, None, all_too=True)
        if not match.clear:
            return _sentence_only(unclear(NO_MEMORY_LIKE, WHICH_MEMORY, tag.text, match))
        memory = match.memories[0]
        detail = None
        if all(coverage(tag.text, memory.text) >= coverage(tag.text, one) for one in memory.wordings):
            detail = self._remembering.detail(memory.text, tag.text)
        return self._forgetting(task, tag.number, memory, match.stored, now, detail)

    def _forgetting(
        self, task: Task, number: int, memory: Memory, stored: str, now: float, detail: tuple[str, str] | None = None
    ) -> Effect:
        """Forget a memory, or one clause of it (`detail`: the clause, the rest), with the turns that repeat it and the exchange that asks."""
        known = self._remembering.of_chat(task.chat_id)
        name = tombstone_id(memory, task.task_id, number)
        gone = self._hidden(task, memory, memory.texts if detail is None else detail[:1], name)
        tombstone = Tombstone(name, task.chat_id, now, turn_ids=frozenset(gone.turns))
        others = [one for one in known.every if one is not memory and not set(gone.turns).isdisjoint(sources_of(one))]
        rest = self._remembering.remaining(memory, detail[1], gone.sources_left(memory)) if detail else None
        replaced = [one for one in known.shown if one.superseded_by == memory.memory_id]
        valid = rest is None and memory.memory_id not in known.superseded
        again = "; ".join(map(quoted, replaced)) if valid else ""

        def effect(connection: Connection) -> Outcome:
            self._remembering.check(task.chat_id, stored, connection)
            self._forgotten.add(tombstone)
            if rest:
                new = self._memories.add(task.chat_id, rest, connection=connection)
                self._memories.inherit(task.chat_id, memory.memory_id, new.memory_id, connection=connection)
            self._memories.delete(task.chat_id, memory.memory_id, connection=connection)
            for one in others:
                self._memories.set_sources(task.chat_id, one.memory_id, gone.sources_left(one), connection=connection)
            if self._texts:
                self._texts.keep(gone.rests, connection)
            return Outcome(tr(FORGOTTEN_AND_BACK if again else FORGOTTEN).format(again=again), gone.turns)

        return effect

    def _hidden(self, task: Task, memory: Memory, texts: Sequence[str], tombstone_id: str) -> Hidden:
        """Which parts of turns are hidden with the wordings `texts` of a memory. What somebody else said of themselves in the same words stays."""
        turn_ids = sources_of(memory)
        sources = [turn.rpartition(":")[0] for turn in turn_ids if turn.endswith(":user")]
        answers = [turn for turn in turn_ids if not turn.endswith(":user")]
        again = [turn for text in texts for turn in self._repeating(task.chat_id, text)]
        asked = dict.fromkeys([*(f"{name}:{role}" for name in sources for role in ROLES), *answers, *again])
        asked |= dict.fromkeys(map(_question_of, again)) if memory.user_id else {}
        known = self._texts.read(task.chat_id, list(asked)) if self._texts else {}
        if memory.user_id:
            said_by = {one: turn.user_id for one in again if (turn := known.get(_question_of(one)))}
            again = [one for one in again if said_by.get(one) == memory.user_id]
        return hidden_with(texts, sources, answers, again, task.task_id, known, tombstone_id)


def _deadline(tag: Tag, now: float, zone: ZoneInfo) -> tuple[float | None, str]:
    """(POSIX seconds of a goal's deadline, a sentence if it is not a date or has passed)."""
    from dispatcher.memory.dates.user_dates import deadline_of, undated_text

    if not tag.deadline:
        return None, ""
    try:
        return deadline_of(tag.deadline, now, zone).at, ""
    except InvalidInput as error:
        return None, undated_text(tag.deadline, error)


def _outcome_text(effect: Effect, connection: Connection) -> str:
    return effect(connection).to_json()


def _sentence_only(sentence: str) -> Effect:
    return lambda _connection: Outcome(sentence)


def _question_of(turn_id: str) -> str:
    return f"{turn_id.rpartition(':')[0]}:user"


def sources_of(memory: Memory) -> list[str]:
    """Ids of the turns that a memory comes from."""
    return memory.source_turn.split() if memory.source_turn else []


def tombstone_id(memory: Memory, task_id: str, number: int) -> str:
    """An id for each (task id, tag number) that names the memory without its words, so that the memory is no longer shown (memories.py)."""
    mark = f"f{number}-{memory.uid}-"
    if len(mark) + len(task_id) > LONGEST_ID:
        return mark + hashlib.sha256(task_id.encode()).hexdigest()[:32]
    return mark + task_id


def _kind(name: str) -> Any:
    from dispatcher.memory.store.memories import MemoryType

    return MemoryType(name)
