"""Reminders and scheduled questions: `/remind`, `/every`, and what sends them to the minute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shared.hooks import hook

if TYPE_CHECKING:
    from dispatcher.answering.hooks import Core
    from dispatcher.memory.day.parts import DayParts
    from dispatcher.memory.hooks import FeatureTable, TagDefinition
    from dispatcher.memory.typed.actions import Effect
    from dispatcher.memory.typed.tags import AnswerTags, Tag


@hook
def menu() -> Mapping[str, str]:
    from shared.text.translations import later

    return {
        "remind": later("reminders: set, show, delete"),
        "every": later("questions that I answer at set times"),
    }


@hook
def answer_tag() -> TagDefinition:
    from dispatcher.memory.hooks import TagDefinition

    taught = "`[REMIND CODE: text | WHEN: 2026-11-14T07:00 | EVERY: mon]` (or: day, weekday, month on 24)"
    return TagDefinition("REMIND", ("WHEN", "EVERY"), taught, _planned)


def _planned(day: DayParts, answer: AnswerTags, tag: Tag) -> Effect:
    from dispatcher.features.schedules.wording import planned_reminder  # the day store's libraries, late

    return planned_reminder(day, answer, tag)


@hook
def day_table() -> FeatureTable:
    from dispatcher.features.schedules.table import TABLE

    return TABLE


@hook
def dispatcher(core: Core) -> object:
    from dispatcher.features.schedules.part import SchedulesPart

    return SchedulesPart(core)
