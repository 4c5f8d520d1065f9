"""What the fork server imports and builds once: whatever a command of ours imports late, compiles, or builds at its first use."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import dispatcher
import nightly
import shared
from shared.config.settings import Settings
from shared.release.manifest import shape
from shared.text.dates.calendar_words import WORDS
from shared.text.dates.named_times import rules

#: Programs of their own, which do something when they are imported.
PROGRAMS = ("__main__", "env")

for package in (shared, dispatcher, nightly):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if found.name.rpartition(".")[2] not in PROGRAMS and ".tests" not in found.name:
            import_module(found.name)
Settings.model_rebuild()
shape()
for language in WORDS:
    rules(language)
