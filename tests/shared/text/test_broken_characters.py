"""One broken record stops nothing: half a character passes through everything, and what fails all the same is set aside by chat."""

from __future__ import annotations

import json
import sqlite3

import pytest

from dispatcher.bots.telegram.rendering import plain_parts
from nightly.archive import chat_chunks
from nightly.cli.status import sentence
from shared.errors import StepTimeout
from shared.text.format import cut, cut_end, shorten
from shared.turns.chunk import Chunk
from shared.turns.chunking import chunks_of, passages
from shared.turns.records import Task, Turn, well_formed
from tests.support.day.forgetting_world import hmem
from tests.support.night.whole_archive import read_archive
from tests.support.world import World

HALF = "my boiler secret \ud83d is in the cellar"


def turns_in_redis(world: World) -> int:
    return len(list(world.redis.scan_iter(match="hcli:memory:*")))


@pytest.mark.parametrize(
    ("said", "text"), [("plain", "plain"), ("Да 🙂", "Да 🙂"), ("x \ud83d y", "x \ufffd y"), ("\udc00", "\ufffd")]
)
def test_text_is_well_formed_and_what_was_said_is_kept(said: str, text: str) -> None:
    assert well_formed(said) == text
    turn = Turn("t", "user", "7", said, 1.0, said, said)
    assert (turn.content, turn.name, turn.session) == (text, text, text)
    assert {json.loads(turn.to_json())[name] for name in ("content", "name", "session")} == {said}
    assert Turn.parse(b"hcli:memory:t:user", turn.to_json()).to_json() == turn.to_json()
    task = Task("t", "7", said)
    assert (task.message, task.said) == (text, said)


def test_the_two_halves_of_a_character_become_it() -> None:
    assert well_formed("\ud83d\ude42 \ude42") == "🙂 \ufffd"


@pytest.mark.slow
def test_a_chat_with_half_a_character_is_archived_found_and_forgotten(light: World) -> None:
    key = light.say("bad", HALF, chat_id="7")
    raw = light.redis.get(key)
    light.say("other", "the neighbours keep a tortoise", chat_id="8")
    light.night()
    archive = read_archive(light.night_dir / "archive")
    assert archive.versions["bad:user"][0].to_json() == raw, "byte for byte"
    assert "boiler secret" in light.command("hmem", "search", "7", "boiler").stdout

    light.say("waiting", HALF, chat_id="7")
    assert hmem(light, "forget", "--chat=7", "--yes").returncode == 0
    light.say("new", "a hedgehog came", chat_id="8")
    assert light.night()[-1]["new"] == 1
    assert turns_in_redis(light) == 0
    assert not [path for path in light.root.rglob("*") if path.is_file() and b"boiler secret" in path.read_bytes()]
    assert "hedgehog" in light.command("hmem", "search", "8", "hedgehog").stdout


@pytest.mark.slow
def test_a_turn_that_cannot_be_cut_is_set_aside_and_named(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    light.say("bad", "this one breaks the cutter", chat_id="7")
    light.say("good", "this one is cut", chat_id="7")
    light.say("other", "the neighbours keep a tortoise", chat_id="8")
    cut = chunks_of

    def failing(turn: Turn) -> list[Chunk]:
        if turn.task_id == "bad":
            raise IndexError("a defect of ours")
        return cut(turn)

    monkeypatch.setattr(chat_chunks, "chunks_of", failing)
    monkeypatch.setattr("nightly.archive.erasing.chunks_of", failing)
    (night,) = light.night()
    assert night["set_aside"] == {"bad:user": {"chat_id": "7", "reason": "IndexError"}}
    assert "skipped in chat 7: 1 × a turn that cannot be chunked (IndexError)" in sentence(night)
    assert turns_in_redis(light) == 0, "its bytes are archived"
    assert "tortoise" in light.command("hmem", "search", "8", "tortoise").stdout

    assert hmem(light, "forget", "--turn", "bad:user", "--yes", "--later").returncode == 28
    assert light.night()[-1]["erased"] == 1
    monkeypatch.undo()
    assert "bad:user" not in read_archive(light.night_dir / "archive").versions


def test_what_is_no_fault_of_a_turn_stops_the_night(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    light.say("t", "hello")
    light.say("t2", "hello again")
    for error in (StepTimeout("too long"), OSError(28, "full"), MemoryError(), sqlite3.OperationalError("disk")):

        def failing(turn: Turn, error: Exception = error) -> list[Chunk]:
            raise error

        monkeypatch.setattr(chat_chunks, "chunks_of", failing)
        with pytest.raises(type(error)):
            light.night()
    monkeypatch.undo()
    assert light.night()[-1]["set_aside"] == {}


@pytest.mark.parametrize("one", ["👨‍👩‍👧", "🇩🇪", "👍🏽", "e\u0301", "नि", "각"])
def test_what_is_one_character_for_a_reader_is_never_divided(one: str) -> None:
    text, size = f"see {one * 40}", len(one)
    for characters in range(1, len(text)):
        left = cut(text, characters)
        assert len(left) <= characters
        assert left == f"see {one * ((characters - 4) // size)}"[:characters]
        assert cut_end(f"{one * 40} seen", characters) == f"{one * ((characters - 5) // size)} seen"[-characters:]
    assert shorten(text, 20 + 5 * size).removeprefix("see ").rstrip("…").replace(one, "") == ""
    said = one * (9_000 // size)
    for parts in (passages(said), [part.text for part in plain_parts(said)]):
        assert "".join(parts) == said
        assert len(parts) > 1
        assert not any(part.replace(one, "") for part in parts)
