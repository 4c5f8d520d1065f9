"""The recall gate: what it asks, what it refuses, what it lets pass; and that a real night asks it."""

from __future__ import annotations

import json
import shutil

import pytest

from shared.delivery import receiver, trial
from shared.errors import ReleaseRefused
from shared.turns import chunking
from shared.turns.chunk import Chunk
from tests.support.world import World

FINDS, MISSES = True, False


def chunk(number: int, chat: str = "9912", text: str = "") -> Chunk:
    return Chunk(f"t{number}:user#1", chat, f"t{number}", (f"t{number}:user",), "user", "Noor", text or f"note {number}", 1.0, 1.0, 1, 1)  # fmt: skip


def test_new_chunks_ahead_of_the_right_one_do_not_count() -> None:
    ranked = [f"new{number}" for number in range(40)] + ["right"]
    assert trial.is_found(ranked, "right", {"right"})
    assert not trial.is_found(ranked, "right", {*ranked})


def test_three_of_three_lost_is_too_few_to_refuse_and_a_chat_gone_is_enough() -> None:
    assert not trial.verdict([FINDS] * 3, [MISSES] * 3, [])["refuse"]
    assert trial.verdict([], [], ["9912"])["refuse"]


def spoil(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of the chunker: each text is cut to nothing that anybody would ask for. Only the gate looks at it."""
    real = chunking.indexed_text
    monkeypatch.setattr("nightly.archive.chat_chunks.indexed_text", lambda chunk, zone: real(chunk, zone)[:4])
    monkeypatch.setattr(receiver, "TRIAL_MODULE", "tests.support.processes.gate_alone")


def talk(world: World, first: int = 0, count: int = 30) -> None:
    for number in range(first, first + count):
        world.say(f"t{number}", f"heron{number} pelican{number} cormorant{number}", timestamp=1_707_500_000.0 + number)


def test_a_night_that_finds_far_less_is_refused_until_the_owner_accepts(
    light: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(light)
    light.night()
    with monkeypatch.context() as patch:
        spoil(patch)
        light.say("t99", "one more")
        shutil.rmtree(light.night_dir / "last")
        with pytest.raises(ReleaseRefused, match=r"finds far less.*--accept"):
            light.night()
        assert light.redis.exists("hcli:memory:t99:user")
        assert (light.memory_dir / "current").readlink().name == "1"
        (finished, _) = light.night(accept=True)
        assert finished["gate"]["lost"] >= 20
    assert light.redis.keys("hcli:memory:*") == []


def test_a_loss_in_a_chat_with_news_is_noticed_among_many_other_chats(
    light: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        light.say(f"o{number}", f"stork{number} at the pond", chat_id=f"{number + 1}")
    talk(light)
    light.night()
    with monkeypatch.context() as patch:
        spoil(patch)
        light.say("t5", "said again in other words")
        with pytest.raises(ReleaseRefused, match=r"finds far less.*--accept"):
            light.night()


def test_a_current_release_that_cannot_be_asked_is_no_standard(light: World) -> None:
    talk(light, count=5)
    light.night()
    (light.memory_dir / "current" / "lexical" / "1.sqlite").write_bytes(b"no database")
    light.say("t99", "one more")
    (summary,) = light.night()
    assert "could not be searched" in summary["gate"]["warn"]
    told = json.loads(light.redis.get("hcli:mem:night:report") or b"")["nights"]
    assert [night["gate"] for night in told][-1] is None, "nothing was asked, and the report is written all the same"


def test_another_chats_row_is_refused_whatever_was_accepted(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(light, count=5)
    light.night()
    light.say("t99", "one more")
    monkeypatch.setattr(receiver, "TRIAL_MODULE", "tests.support.processes.foreign_row")
    with pytest.raises(ReleaseRefused, match="a row of another chat was returned"):
        light.night(accept=True)


def test_the_same_words_said_again_are_no_loss(light: World) -> None:
    """They come out once, under the newer turn."""
    talk(light, count=6)
    light.night()
    for number in range(6):
        light.say(f"again{number}", f"heron{number} pelican{number} cormorant{number}", timestamp=1_707_600_000.0)
    (summary,) = light.night()
    assert (summary["gate"]["found_before"], summary["gate"]["found_now"]) == (6, 6)
