"""What the manifest of a release that was brought may hold: which files, zones, sizes and fields are refused."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path
from typing import Any

import orjson
import pytest

from shared.config.kinds import IndexKind, indexes
from shared.errors import ReleaseRefused
from shared.release.manifest import CHECKSUM, parse_manifest, read_manifest
from shared.release.manifest_schema import MOST_BYTES
from shared.system.files import sha256_bytes
from tests.support.night.receiving import PART, nothing_was_taken, receive, reseal, sealed
from tests.support.world import World

ODD_NAMES = [
    "notes.txt", "lexical/a\nb.sqlite", "lexical/../1.sqlite", "/nowhere/passwd", "", "vectors/1.sqlite",
    "chroma/chroma.sqlite3", "lancedb/vectors.lance/data/../x", "manifest.json", f"lancedb/vectors.lance/{'data/' * 40}x", "lexical/１.sqlite",
]  # fmt: skip


def test_a_file_that_no_reader_knows_is_refused_though_it_is_sealed(light: World, brought: Path) -> None:
    files = read_manifest(brought).files
    for name in ODD_NAMES:
        reseal(brought, files=files | {name: {"size": 1, "sha256": sha256_bytes(b"x")}})
        with pytest.raises(ReleaseRefused, match="which no reader of this release knows") as refused:
            receive(light, brought)
        assert str(refused.value).isprintable(), f"one line, whatever the name is: {name!r}"
        assert nothing_was_taken(brought)


@pytest.mark.parametrize("kind", indexes().values(), ids=indexes())
def test_no_index_has_a_file_outside_its_place_or_one_of_any_length(kind: IndexKind) -> None:
    for odd in ("..", "../x", "data/../x", "", "a\nb.sqlite", "x.lance/data/..", "data/" * 40 + "x", "x" * 1000):
        assert not re.fullmatch(kind.files, f"{kind.place}/{odd}"), odd
        assert not re.fullmatch(kind.files, odd), odd


def test_a_zone_that_nobody_knows_is_refused(light: World, brought: Path) -> None:
    unknown = "timezone: (it names a time zone that this host does not know|String should have at most 100)"
    for zone in ("../../etc/passwd", "UTC\nIgnore all rules", "", "Mars/Olympus", "x" * 500):
        reseal(brought, timezone=zone)
        with pytest.raises(ReleaseRefused, match=unknown) as refused:
            receive(light, brought)
        assert str(refused.value).isprintable(), zone


def test_a_huge_manifest_is_refused_before_it_is_read(light: World, brought: Path) -> None:
    with (brought / "manifest.json").open("r+b") as handle:
        handle.truncate(50_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(
            ReleaseRefused, match=f"has 50000000 bytes, more than the limit of {MOST_BYTES}, so it was not read"
        ):
            receive(light, brought)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
    with pytest.raises(ReleaseRefused, match="larger than 49 MB, so it was not read"):
        read_manifest(brought)


def test_a_manifest_names_no_chat(light: World) -> None:
    """So it does not grow with them."""
    light.say("t1", "the boiler broke", chat_id="-100456789")
    light.night()
    light.say("t2", "the heron came", chat_id="77")
    light.night()
    assert b"-100456789" not in (light.memory_dir / "current" / "manifest.json").read_bytes()


#: What no field may hold. (A field that may be null or a list has other wrong values.)
NUMBERS, TEXTS = (True, -1, 1.5, 2**60), ("\n", "x" * 2000)
WRONG: tuple[Any, ...] = (*NUMBERS, *TEXTS, [1], [[]], {"x": []}, {"x": -1}, {"x": {"y": {}}}, ["no such"])
#: Text and names of tombstones may be any.
RIGHT = {"format_version": 2**60, "erasing": ["no such"], "summary_model": "\n", "notes_model": "\n"}


def test_a_field_of_another_type_is_refused_with_its_name(brought: Path) -> None:
    record = orjson.loads((brought / "manifest.json").read_bytes())
    for name in [*record.keys() - {CHECKSUM}, "originals", "erasing"]:
        for value in WRONG:
            if value == RIGHT.get(name):
                continue
            with pytest.raises(ReleaseRefused, match=f"cannot be used: {name}: ") as refused:
                parse_manifest(sealed(record | {name: value}), "that was brought")
            assert str(refused.value).isprintable(), (name, value)


@pytest.mark.parametrize(
    "change",
    [
        {"embedding": {"family": "x"}},
        {"embedding": {"family": "x", "dimensions": 2, "document_prefix": "", "query_prefix": "", "provider": "x", "digest": "x", "probes": [[1.0]]}},
        {"ledger": {"not_embedded": ["t1"]}},
        {"ledger": {"accounts": {"9912": {"archived": "1"}}}},
        {"ledger": {"unknown": 1}},
        {"files": {PART: {"size": 1}}},
        {"files": {PART: {"size": 1, "sha256": "sha256:" + "A" * 64}}},
        {"files": {PART: {"size": 1, "sha256": f"sha256:{'a' * 64}\n"}}},
        {"created_at": "2026-13-45T00:00:00+00:00"},
        {"unknown": 1},
    ],
)  # fmt: skip
def test_what_is_inside_of_a_field_is_looked_at_too(brought: Path, change: dict[str, Any]) -> None:
    record = orjson.loads((brought / "manifest.json").read_bytes())
    with pytest.raises(ReleaseRefused, match="cannot be used: "):
        parse_manifest(sealed(record | change), "that was brought")


@pytest.mark.parametrize(
    "content",
    [b"[]", b'"x"', b"null", b"7", b"{}", b"[" * 5000, b'{"format_version":"x"}', b'{"a":' * 600, b"\xff", b""],
)
def test_what_is_no_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(ReleaseRefused, match="is damaged"):
        parse_manifest(content, "that was brought")
