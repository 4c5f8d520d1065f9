"""A check that cannot fail proves nothing: the oracle finds every fault that is planted, and none where there is none."""

from __future__ import annotations

import copy
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis

from shared.delivery.receiver import Receiver
from shared.release.manifest import MANIFEST, read_manifest, seal
from shared.release.parts import part_files
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
    release = (world.memory_dir / "current").resolve()
    with changed(release):
        (part,) = part_files(release / "lexical")  # since the second night has rewritten a turn of the first
        connection = sqlite3.connect(part)
        connection.execute(sql, values)
        connection.commit()
        connection.close()


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(bytes(content))


COPY_ROW = (
    "INSERT INTO chunks (chunk_id, chat_id, exchange, turn_ids, role, speaker, text, started_at, ended_at, passage, passages)"
    " SELECT {id}, {chat}, exchange, turn_ids, role, speaker, {text}, started_at, ended_at, {passage}, passages"
    " FROM chunks WHERE chunk_id = 't3:user#1'"
)


def copy_row(world: World, *, chat: str = "chat_id", text: str = "text", passage: str = "passage") -> None:
    edit(world, COPY_ROW.format(id="'copy'", chat=chat, text=text, passage=passage))


def deleted_before_the_archive(world: World, shadow: Shadow) -> None:
    world.redis.delete(shadow.say(world, "t9", "said and deleted by a pattern"))


def rewritten_and_deleted(world: World, shadow: Shadow) -> None:
    """A blind DEL: the archive has a value of this key, but not the last one."""
    world.redis.delete(shadow.say(world, "t1", "what was said last", chat_id=CHATS[1]))


def an_older_value_came_back(world: World, shadow: Shadow) -> None:
    key = shadow.say(world, "t9", "first")
    first = shadow.last()[key]
    shadow.say(world, "t9", "second")
    world.redis.set(key, first)


def a_segment_is_gone(world: World, shadow: Shadow) -> None:
    sorted((world.night_dir / "archive").iterdir())[0].unlink()


def a_chunk_is_missing(world: World, shadow: Shadow) -> None:
    edit(world, "DELETE FROM chunks WHERE chunk_id = 't2:user#1'")


def an_old_version_is_recalled(world: World, shadow: Shadow) -> None:
    edit(world, "UPDATE chunks SET text = 'the heron 3 stood at pond number3x' WHERE chunk_id = 't3:user#1'")


def the_words_do_not_find_it(world: World, shadow: Shadow) -> None:
    edit(world, "DELETE FROM postings")


def an_old_version_beside_the_new(world: World, shadow: Shadow) -> None:
    copy_row(world, text="'the heron 3 stood at pond number3x'", passage="2")


def a_chunk_twice(world: World, shadow: Shadow) -> None:
    copy_row(world)


def a_row_of_another_chat(world: World, shadow: Shadow) -> None:
    copy_row(world, chat="'9912'")


def never_said(world: World, shadow: Shadow) -> None:
    edit(world, "UPDATE chunks SET text = 'nobody said this' WHERE chunk_id = 't2:user#1'")


def a_turn_that_nobody_knows(world: World, shadow: Shadow) -> None:
    copy_row(world)
    edit(world, """UPDATE chunks SET turn_ids = '["x9:user"]' WHERE chunk_id = 'copy'""")


def a_flipped_byte(world: World, shadow: Shadow) -> None:
    flip(part_files((world.memory_dir / "current").resolve() / "lexical")[-1], 5000)


def a_flipped_byte_in_an_old_release(world: World, shadow: Shadow) -> None:
    flip(world.memory_dir / "releases" / "1" / "lexical" / "1.sqlite", 5000)


def a_flipped_byte_in_the_archive(world: World, shadow: Shadow) -> None:
    flip(world.night_dir / "archive" / "seg-1.jsonl", 200)


def current_leads_nowhere(world: World, shadow: Shadow) -> None:
    shutil.rmtree((world.memory_dir / "current").resolve())


def current_is_gone(world: World, shadow: Shadow) -> None:
    (world.memory_dir / "current").unlink()


def half_removed(world: World, shadow: Shadow) -> None:
    """What a kill in the middle of removing an old release leaves."""
    (world.memory_dir / "releases" / "1" / MANIFEST).unlink()


PLANTED: list[tuple[Callable[[World, Shadow], None], str]] = [
    (deleted_before_the_archive, "lost"),
    (rewritten_and_deleted, "lost"),
    (an_older_value_came_back, "lost"),
    (a_segment_is_gone, "lost"),
    (a_chunk_is_missing, "lost"),
    (an_old_version_is_recalled, "lost"),
    (an_old_version_beside_the_new, "doubled"),
    (a_chunk_twice, "doubled"),
    (a_row_of_another_chat, "doubled"),
    (never_said, "doubled"),
    (a_turn_that_nobody_knows, "doubled"),
    (a_flipped_byte, "torn"),
    (a_flipped_byte_in_an_old_release, "torn"),
    (a_flipped_byte_in_the_archive, "torn"),
    (current_leads_nowhere, "torn"),
    (current_is_gone, "torn"),
    (half_removed, "torn"),
]


@pytest.mark.parametrize(("plant", "kind"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_a_planted_fault_is_found(
    light: World, shadow: Shadow, plant: Callable[[World, Shadow], None], kind: str
) -> None:
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
    the_words_do_not_find_it(light, shadow)
    assert judge(light, shadow).clean
    assert judge(light, shadow, at_rest=True).lost > 0


def test_an_older_release_in_use_is_right_until_at_rest(light: World, shadow: Shadow) -> None:
    """After a rollback the archive holds what the release does not recall yet: nothing is lost, but it is not at rest."""
    settings = light.settings()
    Receiver(settings, settings.hmem_memory_dir).rollback(2)
    assert judge(light, shadow).clean
    assert judge(light, shadow, at_rest=True).lost > 0


def test_a_vector_too_few_or_too_many_is_found(world: World) -> None:
    from shared.vectors import chroma

    world.environment["NIGHT_INDEXES"] = "chroma"
    shadow = Shadow()
    for number in range(3):
        shadow.say(world, f"t{number}", f"the heron {number} stood at pond number{number}x")
    world.night()
    assert judge(world, shadow, at_rest=True, vectors=True).clean
    release = (world.memory_dir / "current").resolve()
    with changed(release):
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
