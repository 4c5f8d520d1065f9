"""The settings of features, which belong to them (shared/hooks.py) and are read with all others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from shared.hooks import feature_modules

CONFIG = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, validate_default=True, defer_build=True)


#: Subjects of settings, in their order; a feature may name another, which comes after them.
SUBJECTS = BOT, RECALL, SESSIONS, NIGHT, REPORTS, FILES = (
    "The bot", "What is recalled", "Conversations", "The night", "Reports", "Files and tools"
)  # fmt: skip


@dataclass(frozen=True)
class Touched:
    """In the `Annotated` of a setting that people change: the owner's page has it under its subject, and changes it there.

    `by_hand`: the page only shows it, since whoever has its link could misuse it: it says who may ask, what tools may do, where data goes, or what
    may be spent. What is a secret, a path or a command is never changed there.
    """

    subject: str
    by_hand: bool = False


class FeatureSettings(BaseModel):
    """One field a setting, and below it what it means, as in `Settings`."""

    model_config = CONFIG


Part = TypeVar("Part", bound=FeatureSettings)


@cache
def feature_settings() -> tuple[type[FeatureSettings], ...]:
    """The models of the features that are there."""
    modules = feature_modules("settings")
    return tuple(one for module in modules for one in vars(module).values() if _is_own(one, module.__name__))


def _is_own(value: object, module: str) -> bool:
    """Whether it is the model that this module defines."""
    return isinstance(value, type) and issubclass(value, FeatureSettings) and value.__module__ == module
