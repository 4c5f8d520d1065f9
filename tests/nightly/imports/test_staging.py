"""What of an import is new, known, different or forgotten; and the files that wait for the night."""

from __future__ import annotations

import hashlib
import json
import tempfile
import tracemalloc
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson
import pytest

from nightly.archive.catalog import Catalog
from nightly.archive.chat_chunks import ChatReader
from nightly.archive.segments import RawRecord, write_segment
from nightly.imports.candidates import Candidate, turn_candidate
from nightly.imports.import_filter import ImportFilter, ImportVerdict
from nightly.imports.matching import NEAR_SECONDS
from nightly.imports.staging import StagedImport, StagedUnreadable, classify_by_file, open_filter, stage, staged_files
from nightly.night.folder import imports_dir
from shared.config.settings import load_settings
from shared.turns.records import FACT, Tombstone, Turn
from shared.wire import keys
from tests.support.night.whole_archive import read_archive
from tests.support.world import World

NOON = 1_770_638_400.0


def turn(task_id: str, content: str, at: float = NOON, role: str = "user", chat: str = "9912") -> Turn:
    return Turn(task_id, role, chat, content, at)


def raw(said: Turn) -> RawRecord:
    return RawRecord(f"hcli:memory:{said.turn_id}".encode(), "string", said.to_json())


def exact(said: Turn, unit: int = 0) -> Candidate:
    return Candidate("jsonl", unit, raw(said))


def other(said: Turn, unit: int = 0) -> Candidate:
    return turn_candidate("telegram", unit, said)


def archive(
    *turns: Turn, stones: Iterable[Tombstone] = (), erased: Mapping[str, tuple[str, float]] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """The lines of a segment. `erased`: turn id → its chat and time."""
    gone = [
        {"kind": "erased", "key": f"hcli:memory:{turn_id}", "chat_id": chat, "timestamp": at, "sha256": f"sha256:{turn_id.encode().hex()}"}
        for turn_id, (chat, at) in erased.items()
    ]  # fmt: skip
    said = [{"kind": "turn", **raw(one).to_json()} for one in turns]
    return [*gone, *said, *({"kind": "tombstone", "tombstone": orjson.loads(one.to_json())} for one in stones)]


def judged(
    known: list[dict[str, Any]],
    candidates: list[Candidate],
    exported: Iterable[RawRecord] = (),
    stones: Iterable[Tombstone] = (),
) -> list[tuple[Candidate, ImportVerdict]]:
    """The verdicts of the filter on an archive that says this."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "archive").mkdir()
        if known:
            write_segment(folder / "archive" / "seg-1.jsonl", 1, known)
        catalog = stack.enter_context(closing(Catalog(folder, print)))
        catalog.refresh()
        reader = stack.enter_context(ChatReader(catalog, folder / "archive"))
        judge = stack.enter_context(closing(ImportFilter(catalog, reader, folder)))
        judge.add_known(exported, stones)
        return [*classify_by_file(judge, candidates)]


def verdicts(known: list[dict[str, Any]], *candidates: Candidate, exported: Iterable[RawRecord] = ()) -> list[str]:
    return [str(verdict) for _, verdict in judged(known, [*candidates], exported)]


def test_the_same_bytes_the_same_id_and_neither() -> None:
    known = turn("a", "as it was said")
    candidates = (
        exact(known),
        exact(replace(known, content="changed")),
        other(replace(known, content="changed")),
        exact(turn("b", "new")),
    )
    assert verdicts(archive(known), *candidates) == ["known", "differs", "known", "new"]
    assert verdicts(archive(), *candidates, exported=[raw(known)]) == ["known", "differs", "known", "new"]


def test_all_versions_of_one_file_are_taken_in_order() -> None:
    first, second = turn("a", "first"), turn("a", "second")
    assert verdicts(archive(), exact(first), exact(second), exact(second), exact(first)) == [
        "new",
        "new",
        "known",
        "new",
    ]
    assert verdicts(archive(), exact(first), exact(second, 1)) == ["new", "differs"], "another file does not replace it"
    assert verdicts(archive(), exact(first), exact(turn("a", "second", chat="5"))) == ["new", "differs"], (
        "nor another chat"
    )


LONG = "It has two open ports, 22 and 443; both are filtered by the firewall. 🦉 Готово."


def test_the_same_words_at_about_that_time() -> None:
    known = archive(turn("a", f"## Ports\n\n{LONG}", role="asst"), turn("b", "Ok!"))
    asst: dict[str, Any] = {"role": "asst"}
    parts = [
        other(turn("x", "it has TWO open ports: 22 and 443", NOON + 60, **asst)),
        other(turn("y", "22 and 443 — both are filtered", **asst)),
    ]
    assert verdicts(known, *parts) == ["known", "known"]
    assert verdicts(known, other(turn("x", "two open", **asst))) == ["new"], "too short for a part"
    assert verdicts(known, other(turn("x", "it has two open ports: 22 and 443"))) == ["new"], "of the other side"
    assert verdicts(known, other(turn("x", "it has two open ports: 22 and 443", chat="5", **asst))) == ["new"], (
        "of another chat"
    )
    assert verdicts(known, other(turn("x", "it has two open ports: 22 and 443", NOON + NEAR_SECONDS + 1, **asst))) == [
        "new"
    ], "later"
    assert verdicts(known, exact(turn("x", LONG, **asst))) == ["new"], "with ids of the wire, the ids tell"


def test_what_was_said_twice_is_two_turns() -> None:
    twice = [other(turn("x", "ok")), other(turn("y", "OK", NOON + 5))]
    assert verdicts(archive(turn("b", "Ok!")), *twice) == ["known", "new"]
    assert verdicts(archive(), *twice) == ["new", "new"]
    assert verdicts(archive(), *twice, *(replace(one, unit=1) for one in twice)) == ["new", "new", "known", "known"]
    own = turn("x", "ok")
    assert verdicts(archive(own), *twice) == ["known", "new"], "its own earlier turn is none of another's"


def test_the_forgotten_stays_out() -> None:
    until_noon = Tombstone("s1", "9912", NOON + 1)
    by_id = Tombstone("s2", "9912", NOON, turn_ids=frozenset({"late:user"}))
    later = NOON + 5000
    known = archive(stones=[until_noon, by_id], erased={"gone:user": ("9912", later)})
    assert verdicts(known, exact(turn("x", "early")), other(turn("y", "early"))) == ["forgotten"] * 2
    assert verdicts(known, exact(turn("late", "by its id", later))) == ["forgotten"]
    assert verdicts(known, exact(turn("gone", "erased", later))) == ["forgotten"]
    near = other(turn("z", "other id, its time", later + 60))
    assert verdicts(known, near, other(turn("z2", "another side", later, role="asst"))) == ["forgotten", "new"]
    assert verdicts(known, exact(turn("z", "has ids of the wire", later + 60))) == ["new"]
    assert verdicts(known, other(turn("z", "elsewhere", later, chat="5"))) == ["new"]
    found = judged(archive(), [exact(turn("x", "early"))], stones=[until_noon])
    assert [verdict for _, verdict in found] == [ImportVerdict.FORGOTTEN]


# ------------------------------------------------------------------------------------------------------------- files


def test_a_staged_import_is_named_by_its_content(tmp_path: Path) -> None:
    candidates = [exact(turn("a", "Привет")), other(turn("b", "x"), 1), Candidate("jsonl", 0, RawRecord(b"k\xff", "hash", b"\x00\xff"))]  # fmt: skip
    paths = []
    for _ in range(2):
        with stage(tmp_path, "jsonl") as staging:
            for one in candidates:
                staging.add(one)
        paths.append(staging.path)
    assert paths[0] == paths[1]
    assert staged_files(tmp_path) == [paths[0]]
    assert [*StagedImport(staged_files(tmp_path)[0])] == candidates


def test_nothing_is_left_of_an_import_that_fails_or_holds_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stop"), stage(tmp_path, "jsonl") as staging:
        staging.add(exact(turn("a", "x")))
        raise ValueError("stop")
    with stage(tmp_path, "jsonl") as staging:
        pass
    assert staging.path is None
    assert [*tmp_path.iterdir()] == []


def test_damaged_and_half_imports_are_put_aside_and_the_night_goes_on(light: World) -> None:
    directory = imports_dir(light.settings())
    with stage(directory, "jsonl") as staging:
        staging.add(exact(turn("a", "staged")))
    assert staging.path
    content = staging.path.read_bytes()
    staging.path.unlink()
    damaged = {
        "flip": content.replace(b"staged", b"stored"),
        "cut": content[:-9],
        "short": content.splitlines(keepends=True)[0],
        "format": content.replace(b'"format":1', b'"format":9'),
        "junk": b"\xff\n",
    }
    for name, bad in damaged.items():
        path = directory / f"{name}.jsonl"
        path.write_bytes(bad)
        with pytest.raises(StagedUnreadable, match="does not match its name"):
            StagedImport(path)
        path.rename(directory / f"{hashlib.sha256(bad).hexdigest()}.jsonl")
        if name in ("format", "junk"):
            with pytest.raises(StagedUnreadable, match=r"a newer program|cannot be read"):
                StagedImport(directory / f"{hashlib.sha256(bad).hexdigest()}.jsonl")
    (directory / "flip.jsonl").write_bytes(damaged["flip"])
    (directory / "staging.part").write_bytes(b"half")
    (directory / ".staging.part.0123.tmp").write_bytes(b"half")
    light.say("t1", "of the day")
    (summary,) = light.night()
    assert summary["published"]
    assert {path.suffix for path in directory.iterdir()} == {".bad"}
    assert "flip.jsonl" in imports_of(light, summary["run"])["bad"]


def imports_of(world: World, run: int) -> dict[str, Any]:
    result = world.night_dir / "nights" / str(run) / "export" / "result.json"
    found: dict[str, Any] = json.loads(result.read_bytes())["imports"]
    return found


def test_the_night_takes_what_waits_and_clears_it_away(light: World) -> None:
    with stage(imports_dir(light.settings()), "jsonl") as staging:
        for one in (exact(turn("a", "staged")), exact(turn("old", "hidden", 1.0)), exact(turn("t1", "another"))):
            staging.add(one)
    light.push_tombstone(Tombstone("s", "9912", 5.0))
    light.say("t1", "of the day")
    (summary,) = light.night()
    assert (summary["exported"], summary["new"], summary["deleted"]) == (2, 2, 1)
    found = imports_of(light, summary["run"])
    assert {name: found[name] for name in ("new", "known", "differs", "forgotten")} == {
        "new": 1, "known": 0, "differs": 1, "forgotten": 1}  # fmt: skip
    held = read_archive(light.night_dir / "archive")
    assert sorted(held.versions) == ["a:user", "t1:user"]
    assert held.versions["t1:user"][0].content == "of the day"
    assert staged_files(imports_dir(light.settings())) == []
    assert light.night()[0]["exported"] == 0


def test_an_import_is_held_neither_by_who_stages_it_nor_by_who_judges_it(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    words = "x" * 4000
    tracemalloc.start()
    try:
        with stage(tmp_path / "imports", "jsonl") as staging:
            for number in range(2000):
                staging.add(exact(Turn(f"t{number}", "user", "5", words, float(number))))
        assert staging.path
        with ExitStack() as stack:
            catalog = stack.enter_context(closing(Catalog(tmp_path, print)))
            catalog.refresh()
            staged = StagedImport(staging.path)
            known = stack.enter_context(
                open_filter(load_settings(hmem_night_dir=tmp_path), catalog, tmp_path, [staged], [], [])
            )
            assert sum(verdict is ImportVerdict.NEW for _, verdict in classify_by_file(known, staged)) == 2000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < staging.path.stat().st_size / 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "catalog.sqlite", "imports"]


def test_facts_are_handed_over_in_few_calls(light: World) -> None:
    """A call for each takes minutes where Redis is far away."""
    with stage(imports_dir(light.settings()), "memories") as staging:
        for number in range(1_200):
            fact = Turn(f"f{number}", "user", "9912", f"likes number {number}", NOON, extra={FACT: True})
            staging.add(turn_candidate("memories", 0, fact))
    client: Any = light.redis
    before = client.info("commandstats").get("cmdstat_rpush", {"calls": 0})["calls"]
    light.night()
    assert client.llen(keys.TAGS) == 1_200
    assert client.info("commandstats")["cmdstat_rpush"]["calls"] - before <= 10
