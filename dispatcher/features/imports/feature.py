"""`/import`: a file that the owner sends, brought into memory as `hmem import` does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shared.hooks import hook

if TYPE_CHECKING:
    from dispatcher.answering.hooks import Core


@hook
def menu() -> Mapping[str, str]:
    from shared.text.translations import later

    return {"import": later("bring in what another program knows")}


@hook
def dispatcher(core: Core) -> object:
    from dispatcher.features.imports.part import ImportPart

    return ImportPart(core)
