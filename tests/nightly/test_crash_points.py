"""Killed at every named point of every step and run again: the same release, nothing lost, nothing doubled, nothing left over."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from nightly.night.folder import unfinished_run
from nightly.pipeline import step_names
from shared.config.kinds import place_of
from shared.release.manifest import verify
from shared.release.parts import part_files
from shared.system.files import make_dir
from shared.vectors.vector_files import VectorFile, chats_in
from tests.chaos.checks.points import POINTS
from tests.chaos.harness.forked import night
from tests.nightly.archive.media.kept_media import PHOTO, send, waiting
from tests.support.night.archives import archive, chunks_in, places, stone
from tests.support.night.indexes.chat_tables import accounts, summaries
from tests.support.night.mirrors import files
from tests.support.world import Live, World

VECTORS = place_of("sqlite")
FORGOTTEN = b"\x89PNG of what is forgotten"


def contents(world: World) -> dict[str, Any]:
    """Ids, texts, vectors and summaries of the current release, read from verified files."""
    release = (world.memory_dir / "current").resolve()
    manifest = verify(release)
    chunks = {chunk.chunk_id: (chunk.chat_id, chunk.text) for chunk in chunks_in(release / "lexical")}
    vectors: dict[str, list[float]] = {}
    if manifest.indexes:
        assert manifest.embedding
        with closing(VectorFile(release / VECTORS, manifest.embedding.dimensions)) as file:
            for chat in {chat for part in part_files(release / VECTORS) for chat in chats_in(part)}:
                held = file.chat(chat)
                assert held is not None
                vectors |= {one: held.vectors[row].tolist() for one, row in held.rows.items()}
        assert set(vectors) == set(chunks)
    return {"chunks": chunks, "vectors": vectors, "summaries": summaries(release), "accounts": accounts(release)}


def _first_night(world: World) -> None:
    world.say("t1", "said before")
    send(world, "f1", FORGOTTEN, text="forgotten for good")
    world.night()


#: The points inside of steps, in the order in which a night passes them: some are passed by the first attempt alone.
INSIDE = {
    "archive": (
        "archive:segment-written", "catalog:changed", "erase:vectors-forgotten", "erase:segment-rewritten", "erase:media-removed",
        "archive:media-written", "archive:mirrored",
    ),
    "embed": ("embed:batch-cached",),
    "build": ("build:lexical-built", "build:closed"),
    "publish": (
        "publish:taken-over", "publish:named", "publish:brought", "publish:switched", "publish:kept-written",
        "publish:index-kept",
    ),
    "flush": ("flush:media-erased-there", "flush:media-mirrored", "flush:batch-deleted", "flush:media-deleted"),
}  # fmt: skip


def points_of(step: str) -> list[str]:
    return [f"{step}:begun", *INSIDE.get(step, ()), f"{step}:before-commit", f"{step}:after-commit"]


def test_every_point_is_one_at_which_nights_are_killed() -> None:
    assert sorted(point for step in step_names() for point in points_of(step)) == sorted(POINTS)


@pytest.mark.parametrize("step", step_names())
def test_a_kill_at_every_point_loses_and_doubles_nothing(
    light: World, step: str, begun: Callable[[Live], World]
) -> None:
    """One night is killed at each point of a step and goes on each time; after each death something more is said, and one turn was forgotten.
    A picture comes with all of it. Only the step that embeds has vectors: the others take a tenth of the time without."""
    if step == "embed":
        light.environment.clear()
        _first_night(light)
    else:
        light = begun(_first_night)
    mirror = light.root / "mirror"
    if step in ("archive", "flush"):
        mirror.mkdir()
        light.environment["ARCHIVE_MIRROR"] = str(mirror)
    stone(light, turn_ids=frozenset({"f1:user"}))
    light.redis.set("hcli:memory:bad:user", "{")
    said = {"t2": "said on the second day"}
    send(light, "t2", PHOTO, text=said["t2"])
    for number, point in enumerate(points_of(step), start=3):
        code, printed = night(light, HMEM_CRASH_AT=point)
        assert code == -signal.SIGKILL, f"{point}: {printed}"
        said[f"t{number}"] = f"said after {point}"
        send(light, f"t{number}", PHOTO, text=said[f"t{number}"])
    assert [path.name for path in (light.night_dir / "nights").iterdir() if path.name == "3"] == [], "one night"
    light.night()
    assert unfinished_run(light.settings()) is None
    media = [path for path in (light.night_dir / "archive" / "media").rglob("*") if path.is_file()]
    assert {path.name.partition(".")[0]: path.read_bytes() for path in media} == dict.fromkeys(said, PHOTO)
    found = sorted(text for _, text in contents(light)["chunks"].values())
    assert found == sorted(["said before", *(f"[picture]\n{text}" for text in said.values())])
    assert (waiting(light), light.redis.keys("hcli:memory:*")) == ([], [])
    assert places(light, "forgotten for good") == []
    assert not mirror.exists() or files(mirror) == files(archive(light))
    assert not list(light.memory_dir.glob("incoming/*"))
    assert not list(light.night_dir.rglob("*.tmp"))


@pytest.mark.slow
def test_from_redoes_the_rest_of_an_unfinished_night(light: World) -> None:
    light.say("t1", "something")
    light.command("hmem-night", "run", check=False, HMEM_CRASH_AT="publish:begun")
    light.command("hmem-night", "run", "--from", "chunk")
    assert [text for _, text in contents(light)["chunks"].values()] == ["something"]
    assert light.command("hmem-night", "run", "--from", "chunk", check=False).returncode == 24
    assert light.command("hmem-night", "run", "--from", "lunch", check=False).returncode == 24


@pytest.mark.slow
def test_a_kill_in_the_middle_of_a_file_leaves_nothing_behind(light: World) -> None:
    """Found by scripts/chaos: a half-written done.json kept its night from ever being finished, a half-written segment stayed for good."""
    light.say("t1", "something")
    assert light.command("hmem-night", "run", check=False, HMEM_CRASH_AT="restart:after-commit").returncode < 0
    halves = [
        light.night_dir / "nights" / "1" / ".done.json.0123abcd.tmp",
        light.night_dir / "archive" / ".seg-1.jsonl.0123abcd.tmp",
        make_dir(light.night_dir / "archive" / "media" / "00") / ".t1.00.0123abcd.tmp",
        light.memory_dir / ".pinned.0123abcd.tmp",
        *(light.night_dir / f".{name}.0123abcd.tmp" for name in ("erased.json", "servers.json")),
    ]
    others = light.night_dir / ".owner.pub.0123abcd.tmp"
    for half in (*halves, others):
        half.write_text("{")
    (light.memory_dir / ".current.0123abcd.tmp").symlink_to("releases/1")
    light.say("t2", "said after the death")
    light.night()
    assert unfinished_run(light.settings()) is None
    left = [*light.night_dir.rglob("*.tmp"), *light.night_dir.rglob(".*.tmp"), *light.memory_dir.glob(".*.tmp")]
    assert {*left} == {others}, "hmem forget may be writing it now"
