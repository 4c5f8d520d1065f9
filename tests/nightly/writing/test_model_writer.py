"""Summaries written by a model through the real `ollama` client: archived, reused, put right, and never in the way of a night."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from dispatcher.memory.session_summary import SummaryWriter
from nightly.archive.segments import read_texts
from nightly.writing.summary_answer import WRITTEN_CHARACTERS, facts, put_back, tidy
from shared.errors import ArchiveDamaged
from shared.ranking.extractive_summary import summarise as extract
from shared.release.manifest import read_manifest, verify
from shared.system.files import sha256_file
from shared.turns.records import Tombstone, Turn
from tests.nightly.steps.test_news import step
from tests.servers.ollama_api import DIGEST, OllamaApi
from tests.support.machine import free_port, slowness
from tests.support.night.indexes.chat_tables import summaries
from tests.support.night.whole_archive import read_archive
from tests.support.samples import chunk
from tests.support.world import World

NOTES = "2026-11-20 Noor's boiler showed F28.\nThe engineer took 110."

EMPTY = "the answer is empty, or has no whole line"
UNFAITHFUL = "most lines of the answer are repeated, or not from the chat"

LINES = "".join(f"- {line}\n" for line in NOTES.split("\n"))


@pytest.fixture
def ollama() -> Iterator[OllamaApi]:
    with OllamaApi({"llama3.2:latest": DIGEST}) as api:
        api.chat_reply = NOTES
        yield api


@pytest.fixture
def written(light: World, ollama: OllamaApi) -> World:
    """A world without vectors whose summaries a model writes, with three turns in two chats."""
    light.environment |= {"SUMMARY_MODEL": "llama3.2", "OLLAMA_URL": ollama.url}
    light.say("t1", "The boiler stopped and its display shows F28 since Thursday.", timestamp=1_707_500_000.0)
    light.say("t2", "The engineer took 110 and left his number 0170-555 with Leila.", timestamp=1_707_600_000.0)
    light.say("t3", "The heron was seen at the pond near Hamburg at 09:15.", chat_id="77")
    return light


def summary(world: World, chat: str = "9912") -> str:
    return summaries((world.memory_dir / "current").resolve())[chat]


def summarised(world: World) -> dict[str, Any]:
    """What the newest night's step said."""
    return step(world, "summarise")


def test_a_model_writes_the_summary_and_it_is_archived(written: World, ollama: OllamaApi) -> None:
    written.night()
    text = summary(written)
    assert "Notes written by the model llama3.2." in text
    assert LINES in text
    for message in ("hello", "what does the boiler show?"):
        assert LINES in written.command("hmem", "context", "9912", message).stdout
    prompt = ollama.asked()[-1]
    assert "2024-02-09 user: The boiler stopped" in prompt
    fence = re.search(r'<record id="(\w{16})">', prompt)
    assert fence is not None
    assert prompt.count(fence[1]) == 2
    (body, *_) = [body for path, body in ollama.requests if path == "/api/chat"]
    assert (body["model"], body["stream"], body["options"]["temperature"]) == ("llama3.2", False, 0)
    archive = read_archive(written.night_dir / "archive")
    assert {text.chat_id: text.text for text in archive.texts.values()} == {"9912": NOTES, "77": NOTES}
    manifest = verify((written.memory_dir / "current").resolve())
    assert manifest.summary_model == "llama3.2"
    path = written.night_dir / "archive" / "texts-1.jsonl"
    assert manifest.segments == {
        "seg-1.jsonl": sha256_file(path.with_name("seg-1.jsonl")),
        path.name: sha256_file(path),
    }
    assert json.loads(written.command("hmem-night", "verify", "--json").stdout)["texts"] == 2
    assert b"boiler" not in (written.night_dir / "cache.sqlite").read_bytes(), "the archive is the one place"


@pytest.mark.slow
def test_what_is_written_is_not_asked_for_again(written: World, ollama: OllamaApi) -> None:
    written.night()
    (second,) = written.night()
    assert not second["published"], "nothing new: nothing is built, nothing is asked"
    written.say("t4", "The pond is frozen now and the heron has left it.", chat_id="77")
    written.night()
    assert len(ollama.asked()) == 3, "only the chat that went on"
    assert (summarised(written)["asked"], summarised(written)["reused"]) == (1, 0), "the other chat keeps its text"
    first = {chat: summary(written, chat) for chat in ("9912", "77")}
    ollama.chat_reply = "something else"
    (written.memory_dir / "current").unlink()
    (written.night_dir / "cache.sqlite").unlink()
    written.environment |= {"HMEM_MEMORY_DIR": str(written.root / "second"), "OLLAMA_URL": f"http://127.0.0.1:{free_port()}"}  # fmt: skip
    written.night()
    assert len(ollama.asked()) == 3
    second_dir = (written.root / "second" / "current").resolve()
    assert summaries(second_dir) == first, "a rebuild gives the same, even without the server"
    assert read_manifest(second_dir).summary_model == "llama3.2"


@pytest.mark.slow
def test_another_model_or_another_version_writes_anew(written: World, ollama: OllamaApi) -> None:
    written.night()
    ollama.models["llama3.2:latest"] = "0" * 64
    written.say("t4", "The pond is frozen now and the heron has left it.", chat_id="77")
    written.night()
    assert len(ollama.asked()) == 4, "another digest: both chats"
    ollama.models["qwen3:latest"] = DIGEST
    (third,) = written.night(summary_model="qwen3")
    assert third["published"], "another model is another release"
    assert len(ollama.asked()) == 6
    assert "by the model qwen3" in summary(written)
    (fourth,) = written.night(summary_model=None)
    assert fourth["published"]
    assert "As they were said" in summary(written)
    assert sorted(path.name for path in (written.night_dir / "archive").glob("texts-*")) == [
        f"texts-{run}.jsonl" for run in (1, 2, 3)
    ]


@pytest.mark.slow
def test_a_text_about_forgotten_turns_is_not_reused(written: World, ollama: OllamaApi) -> None:
    ollama.chat_reply = "Leila has the number."
    written.night()
    assert "Leila" in summary(written)
    written.redis.rpush("hcli:mem:tombstones", Tombstone("s1", "9912", 0.0, turn_ids=frozenset({"t2:user"})).to_json())
    ollama.chat_reply = "The boiler shows F28."
    written.night()
    assert "Leila" not in ollama.asked()[-1]
    assert "Leila" not in summary(written)
    assert (summarised(written)["asked"], summarised(written)["reused"]) == (1, 0), "the other chat keeps its text"


@pytest.mark.slow
@pytest.mark.parametrize("point", ["summarise:text-cached", "summarise:texts-archived"])
def test_a_killed_night_does_not_ask_again(written: World, ollama: OllamaApi, point: str) -> None:
    done = written.command("hmem-night", "run", check=False, HMEM_CRASH_AT=point)
    assert done.returncode == -signal.SIGKILL
    asked = len(ollama.asked())
    assert asked == (1 if point.endswith("cached") else 2)
    ollama.chat_reply = "Said by another night."
    written.night()
    assert len(ollama.asked()) == 2
    manifest = verify((written.memory_dir / "current").resolve())
    assert list(manifest.segments) == ["seg-1.jsonl", "texts-1.jsonl"]
    assert len(read_texts(written.night_dir / "archive").texts) == 2


@pytest.mark.slow
def test_a_night_that_goes_on_with_another_model_adds_a_file(written: World, ollama: OllamaApi) -> None:
    written.command("hmem-night", "run", check=False, HMEM_CRASH_AT="summarise:texts-archived")
    ollama.models["qwen3:latest"] = DIGEST
    written.night(summary_model="qwen3")
    assert "by the model qwen3" in summary(written)
    names = {path.name for path in (written.night_dir / "archive").iterdir()}
    assert names == {"seg-1.jsonl", "texts-1.jsonl", "texts-1.2.jsonl"}
    assert set(read_manifest((written.memory_dir / "current").resolve()).segments) == names
    (empty,) = written.night(summary_model="qwen3")
    assert not empty["published"]


@pytest.mark.slow
def test_a_chat_whose_text_fails_keeps_its_sentences(written: World, ollama: OllamaApi) -> None:
    ollama.poison = {"heron": "500"}
    done = written.command("hmem-night", "run")
    assert (
        "summary made of extracted sentences, without the model: 1 × llama runner process has terminated" in done.stdout
    )
    assert "user: The heron was seen at the pond near Hamburg at 09:15." in summary(written, "77")
    assert LINES in summary(written)
    assert summarised(written)["failed"] == {"77": "llama runner process has terminated"}
    ollama.poison.clear()
    written.say("t9", "Another thing altogether was said in here.")
    written.night()
    assert "Notes written by the model" in summary(written, "77"), "the next build asks again"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "fault", "reason"),
    [
        ("", "ok", "empty"),
        ("<think>What shall I say", "ok", "empty"),
        ("x", "hang", "no answer within {limit:g} s"),
        ("x", "drop", "connection"),
        ("x", "html", "Expecting value"),
    ],
)
def test_a_model_never_stops_the_night(written: World, ollama: OllamaApi, reply: str, fault: str, reason: str) -> None:
    ollama.chat_reply, ollama.faults = reply, [fault] * 4
    if fault == "hang":
        written.environment["OLLAMA_TIMEOUT"] = f"{slowness():.1f}"
    (night,) = written.night()
    assert (night["published"], sum(night["without_model"].values())) == (True, 2)
    reason = reason.format(limit=float(written.environment.get("OLLAMA_TIMEOUT", "0")))
    assert all(reason in why for why in night["without_model"])
    assert "As they were said" in summary(written)
    assert written.redis.keys("hcli:memory:*") == []


def test_a_model_that_is_away_has_its_chance_the_next_night(written: World, ollama: OllamaApi) -> None:
    ollama.models.clear()
    (night,) = written.night()
    assert all("ollama pull llama3.2" in why for why in night["without_model"])
    assert ollama.asked() == []
    ollama.models["llama3.2:latest"] = DIGEST
    (night,) = written.night()
    assert night["published"]
    assert LINES in summary(written)


@pytest.mark.slow
def test_after_three_failures_in_a_row_the_rest_is_not_asked(written: World, ollama: OllamaApi) -> None:
    for chat in range(10):
        written.say(f"c{chat}", "The same thing is said in every chat of these.", chat_id=f"c{chat}")
    ollama.faults = ["ok", *["html"] * 6]
    (night,) = written.night()
    assert len(ollama.asked()) == 1 + 3 * 2
    assert sum(night["without_model"].values()) == 11
    assert any("3 failures in a row" in why for why in night["without_model"])


def test_a_damaged_file_of_texts_is_named(written: World) -> None:
    written.night()
    path = written.night_dir / "archive" / "texts-1.jsonl"
    path.write_bytes(path.read_bytes().replace(b"engineer", b"Engineer"))
    with pytest.raises(ArchiveDamaged, match=r"texts-1\.jsonl"):
        read_archive(written.night_dir / "archive")


def test_what_the_model_dropped_is_put_back(written: World, ollama: OllamaApi) -> None:
    ollama.chat_reply = "The boiler is broken, somebody came for 110."
    written.night()
    text = summary(written)
    notes, _, also = text.partition("Also said, word for word:")
    assert "F28" not in notes
    assert "- 2024-02-09 user: The boiler stopped and its display shows F28 since Thursday." in also
    assert "0170-555 with Leila" in also
    result = summarised(written)
    assert (result["put_back"], result["left_out"]) == (2, 0)
    assert result["failed"] == {"77": UNFAITHFUL}, "nobody says 110 in that chat"
    assert len(text) < 2400, "inside the default budget's share"


SAID = [
    chunk("Yesterday the engineer Olaf came from Kiel.", number=1),
    chunk("It was 110 euros and not 1100 at 09:15 on 2026-11-27.", number=2),
    chunk("Everything is at https://example.org/a?b=1, as she said.", number=3),
    chunk("Nothing in here is worth looking up again.", number=4),
]


@pytest.mark.parametrize(
    ("written_text", "back"),
    [
        ("", [0, 1, 2]),
        ("Olaf of KIEL: 110, 1100, 09:15, 2026-11-27; https://example.org/a?b=1.", []),
        ("Olaf of Kiel. https://example.org/a?b=1. 1100, 09:15, 2026-11-27", [1]),
        ("Olaf of Kiel: 110, 1100, 09:15, 27 November 2026. https://example.org/a?b=1", [1]),
        ("olaf: 110, 1100, 09:15, 2026-11-27; https://example.org/a?b=1", [0]),
        ("Olaf of Kiel: 110, 1100, 09:15, 2026-11-27; https://example.org/a", [2]),
    ],
)
def test_names_numbers_dates_and_links_count(written_text: str, back: list[int]) -> None:
    chosen = extract(SAID)
    found, no_room = put_back(chosen, written_text, 700)
    assert [SAID[n].text for n in back] == [sentence.text for sentence in found]
    assert no_room == 0


def test_what_has_no_room_is_counted() -> None:
    chosen = extract(SAID)
    assert put_back(chosen, "", 0) == ([], 7)
    found, no_room = put_back(chosen, "", 90)
    assert [sentence.text for sentence in found] == [SAID[1].text]
    assert no_room == 3


def test_facts_of_a_sentence() -> None:
    assert facts('Then Jean-Luc said: "Bring it to Bob/Anna", I think.') == {"jean", "luc", "bob", "anna"}
    assert facts("E28, 192.168.1.1 and -3.5 %: call +49 170.") == {"e28", "192.168.1.1", "3.5", "49", "170"}


def test_an_answer_is_tidied() -> None:
    answer = "<think>well\nnow</think>\n# Notes\n\n- one\x1b[31m\n" + "word " * 1000
    tidied = tidy(answer, "")
    assert tidied.lines[:2] == ("Notes", "- one")
    assert len(tidied.text) <= WRITTEN_CHARACTERS
    assert tidy("<think>" + "never done " * 99, "").fault == EMPTY


READ = """You keep the notes of a chat bot.
- Facts only.
<record id="0123456789abcdef">
The newest turns:
2026-05-28 Noor: The engineer took 110 and left 0170-555, see https://example.org/a.
2026-05-28 assistant: Until 9:15 then.
</record id="0123456789abcdef">
"""


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("Settled: the engineer took 110 on 2026-05-27.", True),
        ("He left 0170/555, and comes at 09:15, for 2 of 12 rooms: https://example.org/a.", True),
        ("- 2026-05-28 Noor: The engineer took 110 and left 0170-555, see https://example.org/a.", True),
        ("2026-05-28 Noor: The engineer took 110", True),
        ("2026-05-28 Settled: the engineer has come.", True),
        ("Noor: has the number of the engineer.", True),
        ("The engineer took 210.", False),
        ("Call 0170-556.", False),
        ("It is at https://example.org/b.", False),
        ("2026-05-28 Noor: The engineer took nothing.", False),
        ("2026-05-28 Noor: Until 9:15 then.", False),
        ("2026-05-29 assistant: Until 9:15 then.", False),
        ("The newest turns:", False),
        ("- Facts only.", False),
        ('</record id="0123456789abcdef">', False),
    ],
)
def test_a_line_that_the_chat_does_not_bear_out_is_left_out(line: str, kept: bool) -> None:
    tidied = tidy(f"{line}\nIt is about the engineer.\nAnd about Noor.", READ)
    assert (line in tidied.lines, tidied.left_out) == (kept, not kept)
    assert tidied.fault is None


def test_an_answer_that_goes_round_in_circles_is_refused() -> None:
    assert tidy("He came.\n" * 3, READ).fault == UNFAITHFUL
    assert tidy("He came.\n" * 2, READ).lines == ("He came.",)
    endless = "".join(f"He came, and went again for the {number}th time.\n" for number in range(10, 90))
    assert tidy(endless, READ).fault is None, "what has no room is no fault"


def test_of_an_answer_that_was_cut_off_only_whole_lines_count(written: World, ollama: OllamaApi) -> None:
    ollama.chat_reply, ollama.cut = "The boiler was repaired.\nThe engineer took 11", True
    written.night()
    assert "- The boiler was repaired.\n" in summary(written)
    assert "took 11\n" not in summary(written)
    ollama.chat_reply = "The engineer took 11"
    written.say("t4", "And so on and so forth.")
    (night,) = written.night()
    assert night["without_model"] == {EMPTY: 1}
    assert "As they were said" in summary(written)


def test_the_prompt_is_bounded_and_newest_turns_win(light: World, ollama: OllamaApi) -> None:
    light.environment |= {"SUMMARY_MODEL": "llama3.2", "OLLAMA_URL": ollama.url}
    for number in range(60):
        light.say(f"t{number:02}", f"turn{number:02} " + "was about something long " * 30, timestamp=1e9 + number)
    light.night()
    (prompt,) = ollama.asked()
    assert len(prompt) < 8000
    newest = prompt.partition("The newest turns:")[2]
    assert re.findall(r"turn\d\d", newest)[-1] == "turn59"
    assert "turn00" not in newest


def test_a_long_session_of_the_day_is_summed_up_by_the_same_model_or_by_its_own_sentences(
    written: World, ollama: OllamaApi
) -> None:
    turns = [Turn("t9", "user", "9912", "The boiler stopped and its display shows F28.", 1_707_500_000.0)]
    own = "- 2024-02-09 user: The boiler stopped and its display shows F28."
    settings = written.settings(session_summaries="ollama")
    assert SummaryWriter(settings).write(turns) == NOTES
    assert own.removeprefix("- ") in ollama.asked()[-1]
    away = written.settings(session_summaries="ollama", ollama_url=f"http://127.0.0.1:{free_port()}")
    for fallen_back in (away, written.settings(session_summaries="ollama", summary_model=None), written.settings()):
        assert SummaryWriter(fallen_back).write(turns) == own
