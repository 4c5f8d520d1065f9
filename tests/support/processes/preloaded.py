"""What the fork server imports and builds once: whatever a command of ours imports late, compiles, or builds at its first use."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from operator import attrgetter

import dispatcher
import nightly
import shared
from shared.config.settings import settings_from
from shared.release.manifest import shape
from shared.text.dates.calendar_words import WORDS
from shared.text.dates.named_times import rules

#: Programs of their own, which do something when they are imported.
PROGRAMS = ("__main__", "env")
#: Libraries that many commands import late.
LIBRARIES = """
apscheduler.schedulers.asyncio apscheduler.triggers.interval markdown_it numpy.ma rich.progress rich.table snowballstemmer structlog
telegramify_markdown
""".split()

for package in (shared, dispatcher, nightly):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if found.name.rpartition(".")[2] not in PROGRAMS and ".tests" not in found.name:
            import_module(found.name)
for name in LIBRARIES:
    import_module(name)
settings_from({})
shape().rebuild()
# Our bot's package leaves these models of aiogram unbuilt until they are first used.
for name in ("types.Update", "methods.SendMessage", "methods.EditMessageText"):
    attrgetter(name)(import_module("aiogram")).model_rebuild()
for language in WORDS:
    rules(language)
