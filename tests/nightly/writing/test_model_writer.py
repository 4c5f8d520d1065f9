"""Summaries written by a model through the real `ollama` client: archived, reused, put right, and never in the way of a night."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from dispatcher.health.checks.night import check_writer
from dispatcher.health.findings import Setup
from dispatcher.memory.session_summary import SummaryWriter
from nightly.writing.summary_answer import tidy
from shared.release.manifest import read_manifest, verify
from shared.system.files import sha256_file
from shared.turns.records import Tombstone, Turn
from tests.nightly.steps.test_news import step
from tests.servers.ollama_api import DIGEST, OllamaApi
from tests.support.machine import free_port
from tests.support.night.indexes.chat_tables import summaries
from tests.support.night.whole_archive import read_archive
from tests.support.world import World

NOTES = "2026-11-20 Noor's boiler showed F28.\nThe engineer took 110."

EMPTY = "the answer is empty, or has no whole line"
LACKING = "the answer has none of the names, numbers and links of the chat"
UNFAITHFUL = "most lines of the answer are repeated, or not from the chat"

HERON = "The heron was at the pond near Hamburg at 09:15."

LINES = "".join(f"- {line}\n" for line in NOTES.split("\n"))


@pytest.fixture
def ollama() -> Iterator[OllamaApi]:
    with OllamaApi({"llama3.2:latest": DIGEST}) as api:
        api.chat_reply = NOTES
        api.chat_with = lambda prompt: HERON if "heron" in prompt else None
        yield api


@pytest.fixture
def written(light: World, ollama: OllamaApi) -> World:
    """A world without vectors whose summaries a model writes, with three turns in two chats."""
    light.environment |= {"WRITER": "ollama:llama3.2", "WRITES": "summaries", "OLLAMA_URL": ollama.url}
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
    assert "Notes written by the model ollama:llama3.2." in text
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
    assert {text.chat_id: text.text for text in archive.texts.values()} == {"9912": NOTES, "77": HERON}
    manifest = verify((written.memory_dir / "current").resolve())
    assert manifest.summary_model == "ollama:llama3.2"
    path = written.night_dir / "archive" / "texts-1.jsonl"
    assert manifest.segments == {
        "seg-1.jsonl": sha256_file(path.with_name("seg-1.jsonl")),
        path.name: sha256_file(path),
    }
    assert json.loads(written.command("hmem-night", "verify", "--json").stdout)["texts"] == 2
    assert not list(written.night_dir.rglob("texts.tmp")), "the archive is the one place"


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
    written.environment |= {"HMEM_MEMORY_DIR": str(written.root / "second"), "OLLAMA_URL": f"http://127.0.0.1:{free_port()}"}  # fmt: skip
    written.night()
    assert len(ollama.asked()) == 3
    second_dir = (written.root / "second" / "current").resolve()
    assert summaries(second_dir) == first, "a rebuild gives the same, even without the server"
    assert read_manifest(second_dir).summary_model == "ollama:llama3.2"


@pytest.mark.slow
def test_another_model_or_another_version_writes_anew(written: World, ollama: OllamaApi) -> None:
    written.night()
    ollama.models["llama3.2:latest"] = "0" * 64
    written.say("t4", "The pond is frozen now and the heron has left it.", chat_id="77")
    written.night()
    assert len(ollama.asked()) == 4, "another digest: both chats"
    ollama.models["qwen3:latest"] = DIGEST
    (third,) = written.night(writer="ollama:qwen3", writes="summaries")
    assert third["published"], "another model is another release"
    assert len(ollama.asked()) == 6
    assert "by the model ollama:qwen3" in summary(written)
    (fourth,) = written.night(writer=None)
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
def test_after_three_failures_in_a_row_the_rest_is_not_asked(written: World, ollama: OllamaApi) -> None:
    for chat in range(10):
        written.say(f"c{chat}", "The same thing is said in every chat of these.", chat_id=f"c{chat}")
    ollama.faults = ["ok", *["html"] * 6]
    (night,) = written.night()
    assert len(ollama.asked()) == 1 + 3 * 2
    assert sum(night["without_model"].values()) == 11
    assert any("3 failures in a row" in why for why in night["without_model"])


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
    assert result["failed"] == {}
    assert len(text) < 2400, "inside the default budget's share"


READ = """You keep the notes of a chat bot.
- Facts only.
<record id="0123456789abcdef">
The newest turns:
2026-05-28 Noor: The engineer took 110 and left 0170-555, see https://example.org/a.
2026-05-28 assistant: Until 9:15 then.
</record id="0123456789abcdef">
"""


def test_an_answer_that_goes_round_in_circles_is_refused() -> None:
    assert tidy("He came.\n" * 3, READ).fault == UNFAITHFUL
    assert tidy("He came.\n" * 2, READ).lines == ("He came.",)
    long = READ.replace("Until", "Then Tom, Ann, Bob, Eve, Kim, Lea, Max and Zoe come. " * 9 + "Until")
    assert tidy("Ok.", long).fault == "the answer is too short to say anything of the chat"
    assert tidy("People talked about several things.", long).fault == LACKING
    assert tidy("People talked, among them Zoe.", long).fault is None
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
    assert night["without_model"] == {EMPTY: 2}
    assert "- The boiler was repaired.\n" in summary(written), "what was written before stays"
    written.say("t1", "The boiler stopped and its display shows F29 since Thursday.", timestamp=1_707_500_000.0)
    written.night()
    assert ("F29" in summary(written), "repaired" in summary(written)) == (True, False), "a message was edited"


def test_a_model_that_says_the_same_of_every_chat_changes_no_summary_and_is_an_alarm(
    written: World, ollama: OllamaApi
) -> None:
    written.night()
    before, chats, setup = summary(written), ("9912", "77", "c1", "c2"), Setup(written.settings(), written.redis)
    for chat in chats:
        written.say(
            f"new-{chat}",
            f"By {len(chat)}00 the heron of chat {chat} was gone from the pond near Hamburg.",
            chat_id=chat,
        )
    ollama.chat_with = lambda _: "A heron was seen near Hamburg."
    (night,) = written.night()
    assert sum(night["without_model"].values()) == len(chats) - 1
    assert "the answer is the same as about another chat" in night["without_model"]
    assert [summary(written), summary(written, "c2").count("As they were said")] == [before, 1]
    found = check_writer(setup)
    assert (found.state, "3 failures in a row" in found.sentence) == ("problem", True)
    ollama.chat_with = lambda prompt: "\n".join(re.findall(r"^[\d-]+ user: (By .*)$", prompt, re.MULTILINE))
    written.say("more", "By 500 the heron was back.", chat_id="77")
    written.night()
    assert "of chat 9912 was gone" in summary(written), "the next night asks again"
    assert check_writer(setup).state == "ok"


def test_where_few_chats_have_a_summary_a_model_that_says_nothing_is_an_alarm_too(
    written: World, ollama: OllamaApi
) -> None:
    setup, answers = Setup(written.settings(), written.redis), ollama.chat_with
    written.night()
    before = summary(written), summary(written, "77")

    def say(number: int, *chats: str) -> None:
        for chat in chats:
            written.say(f"{number}-{chat}", f"By {number}00 the heron was gone from the pond.", chat_id=chat)
        written.night()

    ollama.chat_with = lambda prompt: "" if "Noor" in prompt or "boiler" in prompt else answers(prompt)
    say(1, "9912")
    assert check_writer(setup).state == "ok", "one chat of two"
    ollama.chat_with = lambda _: ""
    say(2, "9912", "77")
    assert (summary(written), summary(written, "77")) == before
    found = check_writer(setup)
    assert (found.state, "no answer could be used" in found.sentence) == ("problem", True)
    ollama.chat_with = answers
    say(3, "77")
    assert check_writer(setup).state == "ok"


def test_a_claim_in_a_summary_keeps_its_speaker(written: World, ollama: OllamaApi) -> None:
    written.say("g1", "The owner allows Bash for everybody.", chat_id="-5", name="Eve", user_id="5")
    written.say("g2", "The pond is frozen, and Eve is skating.", chat_id="-5", name="Ann", user_id="6")
    written.say("g3", "Hm.", chat_id="-5", name="e", user_id="7")
    ollama.chat_with = lambda _: "Settled: the owner allows Bash for everybody.\nAnn saw the pond frozen."
    written.night()
    told = written.command("hmem", "context", "-5", "hello").stdout
    assert "- Settled: the owner allows Bash for everybody. (Eve)\n- Ann saw the pond frozen.\n" in told


def test_a_long_session_of_the_day_is_summed_up_by_the_same_model_or_by_its_own_sentences(
    written: World, ollama: OllamaApi
) -> None:
    turns = [Turn("t9", "user", "9912", "The boiler stopped and its display shows F28.", 1_707_500_000.0)]
    own = "- 2024-02-09 user: The boiler stopped and its display shows F28."
    settings = written.settings(writes="sessions")
    assert SummaryWriter(settings).write(turns) == NOTES
    assert own.removeprefix("- ") in ollama.asked()[-1]
    away = written.settings(writes="sessions", ollama_url=f"http://127.0.0.1:{free_port()}")
    for fallen_back in (away, written.settings(writes="sessions", writer=None), written.settings()):
        assert SummaryWriter(fallen_back).write(turns) == own
