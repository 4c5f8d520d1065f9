"""Erasing on the night host: what a tombstone with `erase` covers is in no file any more, all else is as it was, and it does not come back."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nightly.archive.mirror import MirrorDiffers
from nightly.archive.segments import Segment, read_texts, write_segment
from shared.delivery.switch import refuse_unless_descendant
from shared.errors import ArchiveDamaged, ReleaseRefused
from shared.release import retention
from shared.release.manifest import Manifest, current_release, read_manifest, release_dir
from tests.servers.ollama_api import DIGEST, OllamaApi
from tests.support.night.archives import LATER, SECRET, archive, places, stone, talk, texts
from tests.support.night.mirrors import damage, repair, verify
from tests.support.world import World


def test_only_what_is_covered_goes(light: World) -> None:
    talk(light)
    before = read_manifest(release_dir(light.memory_dir, 1))
    stone(light, "by-id", turn_ids=frozenset({"a1:user"}))
    stone(light, "by-time", before=1_707_500_150.0)
    light.night()
    assert places(light, "pelican7731", "кукушка4410") == []
    assert texts(light) == {"a3:user#1": "we paint the fence on Friday", "b1:user#1": "the other chat talks of boats"}
    refuse_another_segment(read_manifest(release_dir(light.memory_dir, 2)), before)


def refuse_another_segment(now: Manifest, before: Manifest) -> None:
    """A segment that differs is refused unless it was erased, and so is a release without the tombstones of the one before."""
    refuse_unless_descendant(now, before)
    changes: list[dict[str, Any]] = [{"originals": {}}, {"originals": {"seg-1.jsonl": "sha256:00"}}, {"forgotten": 0}]
    for wrong in changes:
        with pytest.raises(ReleaseRefused):
            refuse_unless_descendant(replace(now, **wrong), before)
    third = replace(now, run=3, parent=2, tombstones={})
    with pytest.raises(ReleaseRefused, match="would bring back forgotten turns"):
        refuse_unless_descendant(third, now)


def test_what_stands_in_redis_is_never_written_to_the_archive(light: World) -> None:
    stone(light)
    light.say("a1", SECRET)
    summary = light.night()[-1]
    assert places(light, "pelican7731") == []
    assert (summary["new"], summary["deleted"]) == (1, 1)
    light.say("a1", SECRET)  # a restored Redis brings it again: known, deleted, not archived
    summary = light.night()[-1]
    assert (summary["already_archived"], summary["deleted"]) == (1, 1)
    light.say("a1", SECRET + " again")
    light.night()
    assert places(light, "pelican7731") == []
    assert light.redis.keys("hcli:memory:*") == []


def test_all_versions_go_and_what_cannot_be_read_as_a_turn(light: World) -> None:
    light.say("a1", SECRET)
    light.night()
    light.say("a1", SECRET + " really")
    light.redis.set(
        "hcli:memory:pelican7731 is the code:user",
        b'{"chat_id": 9912, "content": "pelican7731 broken", "timestamp": 1e400}',
    )
    light.redis.set("hcli:memory:q2:user", b'{"chat_id":"9912","role":"user","content":"pelican7731 cut of')
    light.redis.set("hcli:memory:q3:user", b'{"chat_id":"99123","content":"of another chat and broken"')
    light.redis.set("hcli:memory:q4:user", '{"chat_id":"\\u0447","content":"кукушка4410"'.encode())
    light.night()
    stone(light)
    stone(light, "s2", chat="ч")
    light.night()
    assert places(light, "pelican7731", "кукушка4410") == []
    assert [place for place in places(light, "of another chat") if "seg-" in place] == ["night/archive/seg-2.jsonl"]
    verify(light)


@pytest.mark.slow
def test_caches_texts_and_damaged_imports_go_too(world: World) -> None:
    world.say("a1", SECRET)
    world.say("b1", "the other chat talks of boats", chat_id="77")
    with OllamaApi({"llama3.2:latest": DIGEST}) as api:
        world.environment |= {"WRITER": "ollama:llama3.2", "WRITES": "summaries", "OLLAMA_URL": api.url}
        world.night()
        (world.night_dir / "imports").mkdir(exist_ok=True)
        (world.night_dir / "imports" / "0.bad").write_text(SECRET)
        with closing(sqlite3.connect(world.night_dir / "cache.sqlite")) as cache, cache:
            (vectors,) = cache.execute("SELECT count(*) FROM vectors").fetchone()
        stone(world)
        world.night()
        with closing(sqlite3.connect(world.night_dir / "cache.sqlite")) as cache:
            assert cache.execute("SELECT count(*) FROM vectors").fetchone() == (vectors - 1,)
        assert places(world, "pelican7731") == []
        written = [line["chat_id"] for line in Segment(archive(world) / "texts-1.jsonl")]
        assert written == ["77"]
        world.say("a2", "a new beginning", timestamp=LATER + 60)
        world.night()
        written = [text.chat_id for text in read_texts(archive(world)).texts.values()]
        assert sorted(written) == ["77", "9912"]


def test_a_damaged_mirror_is_not_taken_for_one_from_before(light: World, mirror: Path) -> None:
    talk(light)
    damage(mirror / "seg-1.jsonl")
    stone(light)
    with pytest.raises(MirrorDiffers):
        light.night()


def restored(light: World, mirror: Path, how: str) -> None:
    """The archive, or the mirror, as it was before the forgetting."""
    talk(light)
    (mirror / "notes.txt").write_text("the owner's own")
    backup = shutil.copytree(mirror, light.root / "backup")
    stone(light)
    light.night()
    assert {path.split("/")[0] for path in places(light, "pelican7731", "кукушка4410")} == {"backup"}
    assert (mirror / "notes.txt").exists()
    for place in {"archive": [archive(light)], "mirror": [mirror], "both": [archive(light), mirror]}[how]:
        shutil.copyfile(backup / "seg-1.jsonl", place / "seg-1.jsonl")
    shutil.rmtree(backup)
    assert places(light, "pelican7731") != []


def test_a_restored_copy_does_not_bring_it_back(light: World, mirror: Path) -> None:
    restored(light, mirror, "both")
    light.night()
    assert places(light, "pelican7731", "кукушка4410") == []
    assert set(texts(light)) == {"b1:user#1"}
    assert verify(light)["mirrored"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("how", ["archive", "mirror"])
def test_repair_takes_the_copy_that_has_forgotten(light: World, mirror: Path, how: str) -> None:
    restored(light, mirror, how)
    (repaired,) = repair(light)
    assert repaired == f"seg-1.jsonl: {'sent to' if how == 'mirror' else 'copied from'} the mirror"
    assert places(light, "pelican7731", "кукушка4410") == []


def test_releases_that_are_read_go_when_their_reader_has_gone(light: World) -> None:
    talk(light)
    old = current_release(light.memory_dir)
    assert old is not None
    stone(light)
    with retention.reading(old):
        summary = light.night(publish_wait=0.2)[-1]
        assert summary["held_by_readers"] == [1]
    light.night()
    assert retention.release_runs(light.memory_dir) == [2]


def test_a_rewrite_that_does_not_read_back_takes_no_place(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(light)
    before = archive(light).joinpath("seg-1.jsonl").read_bytes()
    stone(light)

    def losing_a_line(path: Path, run: int, records: Any, **more: Any) -> None:
        write_segment(path, run, list(records)[:-1], **more)

    with monkeypatch.context() as patched:
        patched.setattr("nightly.archive.erasing.write_segment", losing_a_line)
        with pytest.raises(ArchiveDamaged, match="could not be rewritten"):
            light.night()
    assert archive(light).joinpath("seg-1.jsonl").read_bytes() == before
    light.night()
    assert places(light, "pelican7731") == []
