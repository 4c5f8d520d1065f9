"""Templates of plain text: for a model, a file or a terminal."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def templates(package: str, folder: str = "templates", **options: Any) -> Environment:
    """The Jinja templates in a folder of a package; a missing value is an error. `options`: Jinja's."""
    loader = PackageLoader(package, folder)
    return Environment(
        loader=loader, undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, **options
    )
