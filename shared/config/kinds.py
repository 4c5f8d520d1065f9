"""Vector indexes and embedders, which register themselves: each is a folder whose `feature.py` says what it is, and nothing else names it.

The rest is imported when it is used: INDEX in `index.py` of an index (`shared/vectors/base.py`), `open_embedder` in `embedder.py` of an embedder.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from shared.hooks import features, specification


@dataclass(frozen=True)
class IndexKind:
    """`name`: in NIGHT_INDEXES and MEMORY_BACKEND; `place`: its file or folder in a release; `inside`: a pattern of its files in that folder, which
    matches no "..", with bounds for length and depth; `part`: of pyproject.toml (packages.py), which it needs.

    `server`: gives the address of its server, of the settings, of an index that is on one, where `place` is a small file with its name there.
    `preferred`: it comes before all others.
    """

    name: str
    place: str
    inside: str | None = None
    part: str | None = None
    server: Callable[[Any], str | None] | None = None
    preferred: bool = False

    @property
    def files(self) -> str:
        """A pattern of the names of its files in a release; no others are received (shared/delivery/takeover.py)."""
        return re.escape(self.place) + (f"/(?:{self.inside})" if self.inside else "")


@dataclass(frozen=True)
class EmbedderKind:
    """`name`: in EMBEDDER; `part`: as of an index; `again`: how to get a model of it again; `model`: EMBED_MODEL where that is unset."""

    name: str
    part: str
    again: str
    model: str = "all-minilm"


@specification(fails="closed")
def vector_index() -> IndexKind | None:
    """The vector index of this folder."""


@specification(fails="closed")
def embedder() -> EmbedderKind | None:
    """The embedder of this folder."""


@cache
def indexes() -> dict[str, IndexKind]:
    """By name, the preferred one first."""
    return {
        one.name: one for one in sorted(features().ask(vector_index), key=lambda one: (not one.preferred, one.name))
    }


@cache
def embedders() -> dict[str, EmbedderKind]:
    """By name."""
    return {one.name: one for one in features().ask(embedder)}


def memory_backends() -> list[str]:
    """What MEMORY_BACKEND may be."""
    return ["auto", "none", "summary", *indexes()]


def place_of(index: str) -> str:
    """Its path in a release."""
    return indexes()[index].place


def served() -> dict[str, Callable[[Any], str | None]]:
    """The indexes that are on a server, with what gives its address."""
    return {one.name: one.server for one in indexes().values() if one.server}
