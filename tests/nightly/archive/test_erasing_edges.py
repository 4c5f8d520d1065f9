"""Corners of forgetting for good: ids that two chats share, versions, bytes without a time, deaths, old programs, a mirror that may not delete."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import orjson
import pytest

from nightly.archive.segments import RawRecord
from nightly.imports.candidates import Candidate
from nightly.imports.import_filter import ImportVerdict
from shared.turns.records import Turn, dumps
from tests.nightly.imports.test_staging import archive as archive_lines
from tests.nightly.imports.test_staging import judged
from tests.support.day.forgetting_world import hmem
from tests.support.night.archives import SECRET, archive, places, stone, talk
from tests.support.night.whole_archive import read_archive
from tests.support.world import World


def holds(world: World, word: bytes) -> list[str]:
    return [path.name for path in archive(world).glob("*.jsonl") if word in path.read_bytes()]


def two_chats_one_id(world: World) -> None:
    world.say("t", "alpha words of the first chat", chat_id="first")
    world.say("k", "what the first chat keeps", chat_id="first")
    world.night()
    world.say("t", "beta words of the second chat", chat_id="second")  # quarantined: a turn moves to no other chat
    world.night()


@pytest.mark.slow
def test_an_id_that_two_chats_used_is_forgotten_in_both(light: World) -> None:
    two_chats_one_id(light)
    order, words = ("second", "first"), {"first": b"alpha words", "second": b"beta words"}
    for number, chat in enumerate(order):
        stone(light, f"s{number}", chat=chat, turn_ids=frozenset({"t:user"}))
        light.night()
        assert [bool(holds(light, words[one])) for one in order] == [False, number == 0]
    assert places(light, "alpha words", "beta words") == []
    assert [turn.content for turn in read_archive(archive(light)).turns()] == ["what the first chat keeps"]


@pytest.mark.slow
def test_a_version_that_was_replaced_does_not_come_back(light: World) -> None:
    light.say("t", "the first draft", timestamp=2000.0)
    light.night()
    light.say("t", "the last words", timestamp=900.0)
    light.night()
    stone(light, "hides", before=1000.0, erase=False)
    light.night()
    stone(light, "erases", before=1000.0)
    light.night()
    assert read_archive(archive(light)).turns() == []
    light.command("hmem-night", "export-archive", "--out", str(light.root / "out"))
    assert not list((light.root / "out").rglob("turns.jsonl"))


def test_words_without_a_time_that_come_later_are_not_destroyed(light: World) -> None:
    light.say("a", "old words")
    light.night()
    stone(light, created_at=time.time())
    light.night()
    odd = {
        "task_id": "n",
        "role": "user",
        "chat_id": "9912",
        "content": "a walrus much later",
        "timestamp": "2031-05-05",
    }
    light.redis.set("hcli:memory:n:user", dumps(odd))
    light.night()
    assert holds(light, b"walrus") == ["seg-3.jsonl"]


def test_an_import_of_another_chats_turn_is_not_taken_for_the_erased_one() -> None:
    turn = Turn("t", "user", "second", "words", 5000.0)
    raw = RawRecord(b"hcli:memory:t:user", "string", turn.to_json())
    ((_, verdict),) = judged(archive_lines(erased={"t:user": ("first", 1000.0)}), [Candidate("jsonl", 0, raw)])
    assert verdict is ImportVerdict.NEW


def test_a_night_that_was_killed_while_it_erased_is_searched_all_the_same(light: World) -> None:
    talk(light)
    (light.night_dir / "notes.txt").write_text(SECRET)
    stone(light)
    assert (
        light.command("hmem-night", "run", check=False, HMEM_CRASH_AT="erase:segment-rewritten").returncode
        == -signal.SIGKILL
    )
    assert light.night()[0]["still_found"] == [str(light.night_dir / "notes.txt")]
    assert "still in" in light.command("hmem-night", "status").stdout
    (light.night_dir / "notes.txt").unlink()
    assert places(light, "pelican7731") == []


@pytest.mark.slow
def test_a_release_that_cannot_be_read_does_not_stop_a_forgetting(light: World) -> None:
    talk(light)
    (light.memory_dir / "releases" / "1" / "lexical" / "1.sqlite").write_bytes(b"damaged")
    (light.root / "state").mkdir(exist_ok=True)
    (light.root / "state" / "left.txt").write_text(SECRET)
    done = hmem(light, "forget", "--chat=9912", "--yes", "--json")
    (record,) = orjson.loads(done.stdout)
    assert [one["place"] for one in record["scan"]["found"]] == [str(light.root / "state" / "left.txt")], record
    assert [place for place in places(light, "pelican7731") if "/forgetting/" not in place] == ["state/left.txt"]


@pytest.mark.slow
def test_an_answer_that_comes_between_question_and_forgetting_goes_too(light: World) -> None:
    """A task that runs when the owner is asked, and has ended when it is done."""
    from dispatcher.chat_data.forget.journal import Journal
    from dispatcher.chat_data.forget.request import ForgetRequest, Scope
    from dispatcher.chat_data.forget.select import Selector
    from dispatcher.chat_data.forget.steps import carry_out, open_context
    from shared.system.byte_scan import Needles

    light.redis.sadd("hcli:mem:workers", "w")
    light.redis.set("hcli:mem:lease:w", "1")
    task = {"task_id": "late", "chat_id": "9912", "message": "the zanzibar lighthouse question"}
    light.redis.hset("hcli:mem:inflight:w", "w:1", dumps(task))
    with open_context(light.settings(), light.redis, print) as context:
        asked = ForgetRequest("chat", "9912")
        journal = Journal(Scope(asked, []), Needles())
        selection = Selector(context.settings, context.client, context.store, context.tasks).select(
            asked, journal.forget_id
        )
        light.say("late", "the zanzibar lighthouse question", timestamp=time.time() - 5)
        light.say("late", "you asked of the zanzibar lighthouse", role="asst", timestamp=time.time() + 1)
        light.redis.hdel("hcli:mem:inflight:w", "w:1")
        light.redis.delete("hcli:mem:lease:w")
        journal.scope, journal.needles = selection.scope, Needles.of(selection.texts)
        journal.scope.chosen = True
        assert carry_out(context, journal)["complete"]
    assert not light.redis.exists("hcli:memory:late:asst")


@pytest.mark.slow
def test_code_of_the_current_directory_is_not_run(light: World) -> None:
    """A night starts processes of its own: what they import is what is installed."""
    hostile = light.root / "elsewhere"
    for package in ("shared", "nightly", "dispatcher"):
        (hostile / package).mkdir(parents=True)
        (hostile / package / "__init__.py").write_text("raise SystemExit('code of the current directory was run')")
    light.say("a", "words")
    before = Path.cwd()
    os.chdir(hostile)
    try:
        light.command("hmem-night", "run")
        light.command("hmem", "export", "9912", "--out", str(light.root / "out"))
        light.command("hmem", "forget", "--chat=9912", "--yes")
    finally:
        os.chdir(before)
    assert "words" in (light.root / "out" / "turns.jsonl").read_text()
