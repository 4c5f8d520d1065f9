"""A check that cannot fail proves nothing: the oracle finds every fault that is planted, and none where there is none."""

from __future__ import annotations

import copy
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from redis import Redis

from shared.delivery.receiver import Receiver
from shared.release.manifest import MANIFEST, read_manifest, seal
from shared.release.parts import part_files
from tests.chaos.harness.damage import flipped
from tests.chaos.harness.oracle import Shadow, judge
from tests.chaos.harness.report import LIGHT
from tests.support.world import World

pytestmark = pytest.mark.chaos

CHATS = ("9912", "-100123")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> tuple[World, Shadow]:
    """Two days of two chats, one turn rewritten on the second; archived, released, flushed. Made once."""
    world = World(tmp_path_factory.mktemp("template"), Redis.from_url(redis_url), redis_url, dict(LIGHT))
    world.redis.flushall()
    made = Shadow()
    for number in range(6):
        made.say(world, f"t{number}", f"the heron {number} stood at pond number{number}x", chat_id=CHATS[number % 2])
    world.night()
    made.say(world, "t3", "the stork stood there after all, at pond number3y", chat_id=CHATS[1])
    made.say(world, "t3", "an answer of one side only", chat_id=CHATS[1], role="asst")
    world.night()
    assert judge(world, made, at_rest=True).clean
    world.redis.close()
    return world, made


@pytest.fixture
def shadow(light: World, template: tuple[World, Shadow]) -> Shadow:
    """The template's installation in this test's own place."""
    made, shadow = template
    for name in ("night", "memory"):
        shutil.copytree(made.root / name, light.root / name, symlinks=True)
    return copy.deepcopy(shadow)


@contextmanager
def changed(release: Path) -> Iterator[None]:
    """Change a release behind everybody's back, and seal it again: its hashes fit."""
    manifest = read_manifest(release)
    (release / MANIFEST).unlink()
    yield
    seal(release, manifest)


def edit(world: World, sql: str, *values: object) -> None:
    with changed(release := current(world)):
        (part,) = part_files(release / "lexical")  # since the second night has rewritten a turn of the first
        with closing(sqlite3.connect(part, isolation_level=None)) as connection:
            connection.execute(sql, values)


def flip(path: Path, at: int) -> None:
    path.write_bytes(flipped(path.read_bytes(), at))


COPY_ROW = (
    "INSERT INTO chunks (chunk_id, chat_id, exchange, turn_ids, role, speaker, text, started_at, ended_at, passage, passages)"
    " SELECT {id}, {chat}, exchange, turn_ids, role, speaker, {text}, started_at, ended_at, {passage}, passages"
    " FROM chunks WHERE chunk_id = 't3:user#1'"
)


def copy_row(world: World, *, chat: str = "chat_id", text: str = "text", passage: str = "passage") -> None:
    edit(world, COPY_ROW.format(id="'copy'", chat=chat, text=text, passage=passage))


def deleted(world: World, shadow: Shadow, task_id: str, **more: str) -> None:
    world.redis.delete(shadow.say(world, task_id, "said last, and deleted", **more))


def an_older_value_came_back(world: World, shadow: Shadow) -> None:
    key = shadow.say(world, "t9", "first")
    first = shadow.last()[key]
    shadow.say(world, "t9", "second")
    world.redis.set(key, first)


def a_turn_that_nobody_knows(world: World, shadow: Shadow) -> None:
    copy_row(world)
    edit(world, """UPDATE chunks SET turn_ids = '["x9:user"]' WHERE chunk_id = 'copy'""")


def current(world: World) -> Path:
    return (world.memory_dir / "current").resolve()


def set_text(world: World, chunk_id: str, text: str) -> None:
    edit(world, "UPDATE chunks SET text = ? WHERE chunk_id = ?", text, chunk_id)


OLD = "the heron 3 stood at pond number3x"
PLANTED: dict[str, tuple[Callable[[World, Shadow], object], str]] = {
    "deleted before the archive": (lambda world, shadow: deleted(world, shadow, "t9"), "lost"),
    "a blind DEL of what was rewritten": (lambda world, shadow: deleted(world, shadow, "t1", chat_id=CHATS[1]), "lost"),
    "an older value came back": (an_older_value_came_back, "lost"),
    "a segment is gone": (lambda world, _: min((world.night_dir / "archive").iterdir()).unlink(), "lost"),
    "a chunk is missing": (lambda world, _: edit(world, "DELETE FROM chunks WHERE chunk_id = 't2:user#1'"), "lost"),
    "an old version is recalled": (lambda world, _: set_text(world, "t3:user#1", OLD), "lost"),
    "an old version beside the new": (lambda world, _: copy_row(world, text=f"'{OLD}'", passage="2"), "doubled"),
    "a chunk twice": (lambda world, _: copy_row(world), "doubled"),
    "a row of another chat": (lambda world, _: copy_row(world, chat="'9912'"), "doubled"),
    "never said": (lambda world, _: set_text(world, "t2:user#1", "nobody said this"), "doubled"),
    "a turn that nobody knows": (a_turn_that_nobody_knows, "doubled"),
    "a flipped byte": (lambda world, _: flip(part_files(current(world) / "lexical")[-1], 5000), "torn"),
    "one in an old release": (lambda world, _: flip(world.memory_dir / "releases/1/lexical/1.sqlite", 5000), "torn"),
    "one in the archive": (lambda world, _: flip(world.night_dir / "archive/seg-1.jsonl", 200), "torn"),
    "current leads nowhere": (lambda world, _: shutil.rmtree(current(world)), "torn"),
    "current is gone": (lambda world, _: (world.memory_dir / "current").unlink(), "torn"),
    "a kill while an old release was removed": (lambda world, _: (world.memory_dir / "releases/1" / MANIFEST).unlink(), "torn"),
}  # fmt: skip


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(light: World, shadow: Shadow, fault: str) -> None:
    plant, kind = PLANTED[fault]
    plant(light, shadow)
    found = judge(light, shadow)
    assert getattr(found, kind) > 0, found


def test_at_rest_more_is_asked(light: World, shadow: Shadow) -> None:
    """What may be so while a night runs, and not after one that ended well."""
    key = shadow.say(light, "t9", "not exported yet")
    assert judge(light, shadow).clean
    found = judge(light, shadow, at_rest=True)
    assert found.lost > 0, found
    assert found.torn > 0, found
    light.redis.delete(key)
    shadow.said.pop(key)
    (light.memory_dir / "incoming" / "7.1").mkdir()
    assert judge(light, shadow).clean
    assert judge(light, shadow, at_rest=True).torn == 1


def test_a_turn_that_its_words_do_not_find_is_lost(light: World, shadow: Shadow) -> None:
    edit(light, "DELETE FROM postings")
    assert judge(light, shadow).clean
    assert judge(light, shadow, at_rest=True).lost > 0


def test_an_older_release_in_use_is_right_until_at_rest(light: World, shadow: Shadow) -> None:
    """After a rollback the archive holds what the release does not recall yet: nothing is lost, but it is not at rest."""
    settings = light.settings()
    Receiver(settings, settings.hmem_memory_dir).rollback(2)
    assert judge(light, shadow).clean
    assert judge(light, shadow, at_rest=True).lost > 0


def test_a_vector_too_few_or_too_many_is_found(world: World) -> None:
    from shared.vectors.chroma import index as chroma

    world.environment["NIGHT_INDEXES"] = "chroma"
    shadow = Shadow()
    for number in range(3):
        shadow.say(world, f"t{number}", f"the heron {number} stood at pond number{number}x")
    world.night()
    assert judge(world, shadow, at_rest=True, vectors=True).clean
    with changed(release := current(world)):
        client = chroma._client(release / "chroma")
        collection = client.get_collection(chroma.collection_name("9912"), embedding_function=None)
        collection.delete(ids=["t1:user#1"])
        collection.add(ids=["t1:asst#1"], embeddings=[[0.1] * 384])
        client.close()
    found = judge(world, shadow, vectors=True)
    assert (found.lost, found.doubled) == (1, 1), found


def test_a_quarantined_value_is_kept_and_never_recalled(light: World) -> None:
    shadow = Shadow()
    shadow.say(light, "t1", "something readable")
    shadow.put(light, b"hcli:memory:bad:user", b"{")
    light.night()
    assert judge(light, shadow, at_rest=True).clean
    light.redis.delete(shadow.put(light, b"hcli:memory:bad:user", b"{{"))
    assert judge(light, shadow).lost == 1


def test_a_write_whose_reply_was_lost_may_have_arrived_or_not(light: World) -> None:
    shadow = Shadow()
    key = shadow.say(light, "t1", "acknowledged")
    shadow.tried[key] = [shadow.last()[key].replace(b"acknowledged", b"perhaps here")]
    assert judge(light, shadow).clean
    light.redis.set(key, shadow.tried[key][0])
    light.night()
    assert judge(light, shadow).clean
