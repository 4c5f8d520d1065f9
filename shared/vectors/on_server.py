"""What indexes on a server share: each release has one of its own there, under a name that stands in a small file of the release.

    qdrant.json, redis.json    {"name": "hmem-17-5f0c2a91", "vectors": 101000, "dimensions": 384}

The file is in the manifest with its hash, so the release says which index is its own. A server that
does not answer makes the lookup poorer, never later: the first failure closes the index, every lookup says so at once, and it is opened
again by whoever opens vectors that are missing.
"""

from __future__ import annotations

import re
import secrets
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import orjson

from shared.config.kinds import place_of, served
from shared.config.settings import Settings
from shared.errors import IndexServerUnavailable, ReleaseRefused
from shared.release.manifest import prove_file, read_manifest
from shared.release.parts import Earlier
from shared.system.files import write_atomic
from shared.vectors.base import Builder, Checked, Corpus, builder_of
from shared.vectors.searching import AskingBackend, in_order

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

#: Seconds that a server has for one answer by day, and by night, where thousands of rows go in one request.
DAY_SECONDS, NIGHT_SECONDS = 2.0, 60.0


@dataclass(frozen=True)
class Served:
    """The index of one release on a server."""

    name: str
    vectors: int
    dimensions: int


def new_name(index_name: str, run: int) -> str:
    """A name that no attempt has used before."""
    return f"{index_name}-{run}-{secrets.token_hex(4)}"


def is_ours(name: str, index_name: str) -> bool:
    """Whether `new_name` may have made it."""
    head, _, token = name.rpartition("-")
    prefix, _, run = head.rpartition("-")
    return prefix == index_name and run.isdecimal() and bool(re.fullmatch(r"[0-9a-f]{8}", token))


def write_served(place: Path, served: Served) -> None:
    write_atomic(place, orjson.dumps(asdict(served), option=orjson.OPT_INDENT_2) + b"\n")


def read_served(place: Path) -> Served:
    """ReleaseRefused if the file is not there or not as it was written."""
    try:
        record = orjson.loads(place.read_bytes())
        return Served(str(record["name"]), int(record["vectors"]), int(record["dimensions"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReleaseRefused(f"{place} cannot be read ({error!r}). Run the night again.") from error


def served_names(release: Path) -> list[str]:
    """The names of a release's indexes on servers."""
    places = (release / place_of(name) for name in served())
    return [read_served(place).name for place in places if place.is_file()]


class ServedBuilder(Builder):
    """The builder of an index on a server, where each release has its own, named index; `place` is a small file with that name.

    Readers use the name in their release, so switching `current` also switches the index.
    """

    def __init__(self, settings: Settings, run: int) -> None:
        self._settings, self._run = settings, run

    def build(self, place: Path, corpus: Corpus, earlier: Earlier | None = None) -> None:  # noqa: ARG002 - it is on the server
        served = Served(new_name(self._settings.index_name, self._run), len(corpus), corpus.dimensions)
        self._put(served, corpus)
        write_served(place, served)

    def check(self, place: Path, scratch: Path, corpus: Corpus, earlier: Earlier | None = None) -> Checked:  # noqa: ARG002
        served = read_served(place)
        if (served.vectors, served.dimensions) != (len(corpus), corpus.dimensions):
            raise ReleaseRefused(f"{place} was written for other vectors than these. Run the night again.")
        return Checked(corpus.sizes(), self._compare(served, corpus))

    def left_over(self, named: Collection[str], newest: int | None = None) -> list[str]:
        """The names of the indexes of ours that are not among these, of runs up to `newest` (a later night may be building one now)."""
        ours = (name for name in self._names() if is_ours(name, self._settings.index_name) and name not in named)
        return sorted(name for name in ours if newest is None or int(name.rsplit("-", 2)[1]) <= newest)

    def sweep(self, named: Collection[str]) -> list[str]:
        """Remove those; returns the names of the removed ones."""
        gone = self.left_over(named)
        self._remove(gone)
        return gone

    @abstractmethod
    def _put(self, served: Served, corpus: Corpus) -> None:
        """Write the index."""

    @abstractmethod
    def _compare(self, served: Served, corpus: Corpus) -> int:
        """As `check` of `Builder`: how many of the probed vectors are stored but not reached by a search."""

    @abstractmethod
    def _names(self) -> Iterable[str]:
        """Of all indexes on the server, of whomever."""

    @abstractmethod
    def _remove(self, gone: Sequence[str]) -> None:
        """Remove these indexes."""


class ServedBackend(AskingBackend):
    """Searches the index of one release on a server. `errors`: what its client raises if the server is unavailable or refuses."""

    errors: ClassVar[tuple[type[Exception], ...]]

    @abstractmethod
    def _connect(self, served: Served) -> Any:
        """Find the index; IndexServerUnavailable, or ReleaseRefused if it is gone or holds something else. One of `errors` is mapped."""

    def _open_index(self) -> Any:
        # Nothing else of the release is read here.
        prove_file(self._release, read_manifest(self._release), place_of(self.name))
        served = read_served(self._place)
        try:
            return self._connect(served)
        except self.errors as error:
            raise self._unavailable(error) from error

    @abstractmethod
    def _found(self, index: Any, vector: Vectors, chat_id: str) -> Mapping[str, float]:
        """Similarities of the chat's chunks, by id, of no repeated chunk, and in a long chat of the nearest ones alone."""

    def _compared(self, index: Any, vector: Vectors, chat_id: str, chunk_ids: Sequence[str]) -> Vectors:
        """As in `AskingBackend`; one of `errors` closes the index."""
        try:
            return in_order(self._found(index, vector, chat_id), chunk_ids)
        except self.errors as error:
            unavailable = self._unavailable(error)
            if self._index is not index:  # closed meanwhile, and perhaps opened again
                return in_order({}, chunk_ids)
            self._why = str(unavailable)
            raise unavailable from error

    def _unavailable(self, error: Exception) -> IndexServerUnavailable:
        return IndexServerUnavailable(
            f"the {self.name} server is not available ({type(error).__name__}: {first_line(error)}). "
            "Check that it runs and that its address is right; until then only keyword search works"
        )


def first_line(error: Exception) -> str:
    """The message of a client library's error, short enough for a sentence."""
    return (str(error).strip().splitlines() or [""])[0][:200]


#: In HMEM_NIGHT_DIR: where indexes of ours are (nightly/index/servers.py).
SERVERS_FILE = "servers.json"


def servers(settings: Settings, releases: Sequence[Path] = ()) -> list[str]:
    """The servers that the settings know of, or one of these releases reads."""
    return [
        name
        for name in served()
        if name in settings.indexes
        or served()[name](settings)
        or any((one / place_of(name)).is_file() for one in releases)
    ]


def named_in(releases: Sequence[Path]) -> list[str]:
    """The names of all server indexes that these releases use; ReleaseRefused if one cannot be determined."""
    return [name for release in releases for name in served_names(release)]


def builder_on(settings: Settings, server: str) -> ServedBuilder:
    """What knows and removes our indexes there; HmemError if the server does not answer."""
    builder = cast(ServedBuilder, builder_of(server, settings, 0))
    builder.refuse_unless_usable()
    return builder
