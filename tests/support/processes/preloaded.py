"""What the fork server imports and builds once: whatever a command of ours imports late, compiles, or builds at its first use."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module

from pydantic import BaseModel

import dispatcher
import nightly
import shared

#: Programs of their own, which do something when they are imported.
PROGRAMS = ("__main__", "env", "landlock_exec")


def load() -> None:
    """Every module, and the schema of every model (`defer_build` leaves it to the first use)."""
    for package in (shared, dispatcher, nightly):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name.rpartition(".")[2] not in PROGRAMS:
                import_module(found.name)
    for model in _models(BaseModel):
        if model.__module__.partition(".")[0] in ("shared", "dispatcher", "nightly"):
            model.model_rebuild()
    _compile_times()


def _models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for one in base.__subclasses__():
        yield one
        yield from _models(one)


def _compile_times() -> None:
    """The rules of times in each language are compiled for the first text in it."""
    from shared.text.dates.named_times import _rules
    from shared.text.dates.time_phrases import PHRASES

    for language in PHRASES:
        _rules(language)


load()
