"""A night does the chats that have news, and no others; its release is the one that a night of the whole archive makes. What the last night left is
noticed to be damaged, stale, of another archive or gone, and made again."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from nightly.index import previous
from nightly.steps import embed, summarise
from shared.errors import StorageError
from shared.ranking import extractive_summary
from shared.release.manifest import CHATS, read_manifest
from shared.system.files import sha256_bytes
from tests.nightly.test_crash_points import contents
from tests.support.night.archives import SECRET, places, stone
from tests.support.night.mirrors import damage
from tests.support.night.steps import replace_step
from tests.support.world import World

CHATS_OF_TALK = ("9912", "77", "-100123")
NOON = 1_707_500_000.0


def talk(world: World, count: int = 3) -> None:
    for chat in CHATS_OF_TALK:
        for number in range(count):
            words = f"heron {number} of {chat} was seen at the pond by Anna on day {number}."
            world.say(f"t{number}-{chat.strip('-')}", words, chat_id=chat, timestamp=NOON + 60 * number)


def step(world: World, name: str) -> dict[str, Any]:
    """The result of a step of the newest night."""
    newest = max((world.night_dir / "nights").iterdir(), key=lambda path: int(path.name))
    result: dict[str, Any] = orjson.loads((newest / name / "result.json").read_bytes())
    return result


def done(world: World) -> list[str]:
    """The chats that the newest night has done."""
    return list(step(world, "chunk")["accounts"])


def last(world: World) -> Path:
    (kept,) = (world.night_dir / "last").iterdir()
    return kept


def release(world: World) -> dict[str, Any]:
    """What the current release holds, and what its manifest says of every chat."""
    manifest = read_manifest((world.memory_dir / "current").resolve())
    ledger = {name: manifest.ledger[name] for name in ("turns", "chunks", "index", "not_embedded")}
    counts = {
        "sums": (manifest.chats, manifest.turns, manifest.chunks, manifest.forgotten),
        "erasing": manifest.erasing,
    }
    return contents(world) | ledger | counts


def refuse_unless_as_from_nothing(world: World) -> None:
    """Compare the current release with one that is made of the whole archive, without anything that earlier nights have left."""
    by_news = release(world)
    world.command("hmem-night", "backfill", "archive")
    assert step(world, "chunk")["everything"]
    assert step(world, "build").get("copied_forward", 0) == 0
    assert release(world) == by_news


def test_a_night_does_the_chats_with_news_and_its_release_is_as_from_nothing(world: World) -> None:
    talk(world)
    world.night()
    assert sorted(done(world)) == sorted(CHATS_OF_TALK)
    world.say("new", "an otter came to the pond", chat_id="77", timestamp=NOON + 1000)
    world.night()
    assert (done(world), step(world, "chunk")["chunks"], step(world, "embed")["embedded"]) == (["77"], 10, 1)
    assert step(world, "summarise")["summaries"] == 1
    world.say("first", "the first words of another chat", chat_id="5")
    world.say("t1-9912", "said again in other words", timestamp=NOON + 60)
    stone(world, "hides", "-100123", erase=False, turn_ids=frozenset({"t0-100123:user"}))
    world.night()
    assert done(world) == ["-100123", "5", "9912"]
    refuse_unless_as_from_nothing(world)


def test_a_forgetting_is_news_of_its_chat_and_of_no_other(world: World) -> None:
    """The other chats' rows stay; nothing that earlier nights have left has the words any more."""
    talk(world)
    world.night()
    world.say("new", "an otter came to the pond", chat_id="5", timestamp=NOON + 1000)
    world.night()
    assert places(world, "of 77 was seen") != []
    stone(world, chat="77")
    world.night()
    assert done(world) == ["77"]
    assert step(world, "archive")["erased"]["segments"] == 1
    assert places(world, "of 77 was seen") == []
    refuse_unless_as_from_nothing(world)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_nights_of_any_kind_give_the_release_from_nothing(world: World, seed: int) -> None:
    chance, said = random.Random(seed), 0
    for _ in range(12):
        for _ in range(chance.choice((0, 1, 4))):
            chat, number = chance.choice((*CHATS_OF_TALK, "5", "6")), chance.randrange(40)
            words = chance.choice(("OK", "OK", f"heron {said} at the pond of {chat}", "x" * 2000))
            world.say(f"t{number}-{chat.strip('-')}", words, chat_id=chat, timestamp=NOON + number)
            said += 1
        if chance.random() < 0.3:
            chat = chance.choice(CHATS_OF_TALK)
            ids = frozenset({f"t{chance.randrange(40)}-{chat.strip('-')}:user"})
            stone(world, f"s{said}", chat, erase=chance.random() < 0.5, turn_ids=ids, created_at=NOON + 50)
        if chance.random() < 0.2:
            shutil.rmtree(world.night_dir / "last", ignore_errors=True)
        world.night()
    refuse_unless_as_from_nothing(world)


def test_a_turn_that_is_hidden_leaves_nothing_in_what_is_kept(light: World) -> None:
    """It stays in the archive. The part that had it is made anew, from itself: the other chats are not looked at."""
    talk(light)
    light.say("a1", SECRET)
    light.night()
    stone(light, turn_ids=frozenset({"a1:user"}), erase=False)
    light.night()
    assert done(light) == ["9912"]
    assert [
        place for place in places(light, "pelican7731") if place.startswith(("night/last/", "memory/releases/2"))
    ] == []
    refuse_unless_as_from_nothing(light)


HARM: dict[str, Callable[[Path], object]] = {
    "the chats are damaged": lambda kept: damage(kept / CHATS),
    "a part is gone": lambda kept: (kept / "lexical" / "2.sqlite").unlink(),
}


@pytest.mark.parametrize("name", HARM)
def test_what_was_kept_and_is_damaged_or_gone_is_made_again(light: World, name: str) -> None:
    talk(light)
    light.night()
    light.say("more", "an otter", chat_id="77", timestamp=NOON + 2000)
    light.night()
    HARM[name](last(light))
    light.say("next", "a night heron", timestamp=NOON + 3000)
    light.night()
    assert sorted(done(light)) == sorted(CHATS_OF_TALK)
    refuse_unless_as_from_nothing(light)


def test_what_another_archive_left_is_not_believed(light: World, tmp_path: Path) -> None:
    talk(light)
    light.night()
    other = World(tmp_path / "other", light.redis, light.url, dict(light.environment))
    other.say("x1", "said elsewhere", chat_id="77")
    other.say("x2", "a chat that nobody here knows", chat_id="404")
    other.night()
    shutil.rmtree(light.night_dir / "last")
    shutil.copytree(other.night_dir / "last", light.night_dir / "last")
    light.say("next", "a night heron", timestamp=NOON + 3000)
    light.night()
    assert done(light) == ["-100123", "404", "77", "9912"]
    assert not places(light, "nobody here knows") or all(
        "other" in place for place in places(light, "nobody here knows")
    )
    refuse_unless_as_from_nothing(light)


def test_counts_that_do_not_fit_the_parts_stop_the_night(light: World) -> None:
    """Somebody has changed the counts and every checksum: the parts do not hold what is said of them."""
    talk(light)
    light.night()
    record, _ = previous._read_record(last(light))
    record["places"]["lexical"]["parts"]["1.sqlite"]["rows"] -= 1
    body = orjson.dumps(record, option=orjson.OPT_SORT_KEYS)
    (last(light) / previous.INDEX).write_bytes(sha256_bytes(body).encode() + b"\n" + body)
    light.say("next", "a night heron", timestamp=NOON + 3000)
    with pytest.raises(Exception, match="has 9 rows, and 10 were made"):
        light.night()


def test_a_night_whose_start_is_taken_away_begins_with_what_is_left(
    light: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(light)
    light.night()
    light.say("next", "a night heron", timestamp=NOON + 3000)

    def taking(night: Any, out: Path) -> dict[str, Any]:
        shutil.rmtree(light.night_dir / "last")
        return embed.run(night, out)

    with monkeypatch.context() as patch:
        replace_step(patch, "embed", taking)
        with pytest.raises(StorageError, match="was changed while this night ran"):
            light.night()
    light.night()
    refuse_unless_as_from_nothing(light)


def test_a_summary_that_fails_is_tried_again_by_the_next_night(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(light)
    real = extractive_summary.summarise
    with monkeypatch.context() as patch:
        patch.setattr(summarise, "summarise", lambda chunks: 1 / 0 if chunks[0].chat_id == "77" else real(chunks))
        light.night()
    light.say("next", "a night heron", timestamp=NOON + 3000)
    light.night()
    assert done(light) == ["77", "9912"]
    refuse_unless_as_from_nothing(light)
