"""Reminders and scheduled questions: `/remind`, `/every`, and what sends them to the minute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shared.hooks import hook

if TYPE_CHECKING:
    from dispatcher.answering.hooks import Core
    from dispatcher.memory.store.feature_tables import FeatureTable
    from dispatcher.memory.typed.tags import TagOfFeature


@hook
def menu() -> Mapping[str, str]:
    from shared.text.translations import later

    return {
        "remind": later("reminders: set, show, delete"),
        "every": later("questions that I answer at set times"),
    }


@hook
def answer_tag() -> TagOfFeature:
    from dispatcher.features.schedules.wording import TAG

    return TAG


@hook
def day_table() -> FeatureTable:
    from dispatcher.features.schedules.table import TABLE

    return TABLE


@hook
def dispatcher(core: Core) -> object:
    from dispatcher.features.schedules.part import SchedulesPart

    return SchedulesPart(core)
