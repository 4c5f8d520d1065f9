"""The formats that a backfill reads from files: whatever modules are in `readers/`."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from nightly.imports import hooks, readers
from nightly.imports.hooks import ImportFormat, import_formats
from shared.errors import InvalidInput
from shared.hooks import Hooks


@cache
def formats() -> dict[str, ImportFormat]:
    """By the name that `hmem-night backfill` takes."""
    names = sorted(one.name for one in pkgutil.iter_modules(readers.__path__, f"{readers.__name__}."))
    found = Hooks([(name, import_module(name)) for name in names], [hooks.__name__]).ask(import_formats)
    return {one.name: one for some in found for one in some}


def format_named(name: str) -> ImportFormat:
    """InvalidInput for an unknown one."""
    if name not in formats():
        raise InvalidInput(f"There is no format {name}. Formats are {', '.join(formats())}, and archive for a rebuild.")
    return formats()[name]
