"""A week in one chat, through the real dispatcher and a real night each day: what the model is given at each point, and from which tier.

The dispatcher's clock is moved by libfaketime, so that each day is another one. The model is a script that says what the week asks for and
writes down every whole request: system prompt, message, and the history of a resumed session (tests/servers/scripted_claude.py).
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dispatcher.prompt.budget import TITLES
from tests.servers.messages_api import MessagesApi, tag_code
from tests.support.day.talking import CHAT, CLAUDE, Request, Talk
from tests.support.machine import wait_for
from tests.support.world import REAL_CLAUDE, REPOSITORY, SECRET, Dispatcher, World

LIBRARY = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY = (f"2026-11-{day:02} 09:00:00" for day in (2, 3, 4, 5, 6))
FACTS, SUMMARY, SO_FAR, RECALLED = (TITLES[name] for name in ("profile", "summary", "recent", "recalled"))


@pytest.fixture
def talk(world: World) -> Talk:
    world.environment |= {"CLAUDE_BIN": str(REPOSITORY / CLAUDE), "CONSOLIDATION_INTERVAL": "0.2"}
    # On a busy machine a lookup takes its time, and none of these tests is about that limit.
    world.environment |= {"MEMORY_DEADLINE_MS": "10000"}
    return Talk(world)


@contextmanager
def day(talk: Talk, clock: str) -> Iterator[Dispatcher]:
    """A dispatcher on a day of that week. The evening's session has run out by then, which Redis, whose clock is ours, does not know."""
    if shutil.which("faketime") is None:
        pytest.fail("faketime is not installed. Run scripts/setup --dev (or: apt-get install faketime).")
    talk.new_session()
    fake = {"LD_PRELOAD": str(LIBRARY), "FAKETIME": f"@{clock}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    dispatcher = talk.world.start_dispatcher(**fake)
    yield dispatcher
    talk.consolidated()
    assert dispatcher.stop() == 0
    assert b"Traceback" not in dispatcher.log.read_bytes(), dispatcher.log.read_text()


def remembered(request: Request) -> str:
    """What the night or the day tells of earlier turns: a turn that the summary tells is not recalled beside it."""
    return f"{request.part(SUMMARY)}\n{request.part(RECALLED)}"


def times(text: str, told: str) -> int:
    """How many recalled lines are this turn. The words of a question also stand behind a short answer to it."""
    return sum(line.endswith(f": {text}") for line in told.splitlines())


def released(world: World) -> bytes:
    """All bytes of the release in use."""
    files = [path for path in (world.memory_dir / "current").resolve().rglob("*") if path.is_file()]
    return b"".join(path.read_bytes() for path in sorted(files))


@pytest.mark.slow
def test_a_week(talk: Talk) -> None:
    with day(talk, MONDAY):
        _monday(talk)
    talk.world.night()
    with day(talk, TUESDAY):
        _tuesday(talk)
    talk.world.night()
    _wednesday(talk)
    talk.world.night()
    assert b" 4711" not in released(talk.world), "what is forgotten is in no file of the next release"
    assert b"heron" in released(talk.world)
    with day(talk, THURSDAY):
        _thursday(talk)
    talk.world.night()
    with day(talk, FRIDAY):
        _friday(talk)


def _monday(talk: Talk) -> None:
    """Nothing is remembered yet; what is said is kept at once, and found the same day."""
    first = talk.asked("I must file my tax return.", "I note it. [GOAL CODE: file the tax return | DEADLINE: Thursday]")
    assert (first.history, FACTS in first.system, RECALLED in first.system) == ([], False, False)
    talk.say("My landlord is called Weber.", "Noted.\n[REMEMBER CODE: the landlord is called Weber]")
    reply = talk.say("The code of my safe is 4711.", "I shall keep it.\n[REMEMBER CODE: the code of the safe is 4711]")
    assert reply == "I shall keep it.", "tags are not shown"
    talk.say("A heron came to the pond at noon.")
    goal = talk.asked("What are my plans?")
    assert goal.resumed
    assert len(goal.history) == 4
    assert "file the tax return (by Thursday 5 November 2026)" in goal.part(FACTS)
    assert RECALLED not in goal.system, "all of it stands in the resumed session"
    talk.consolidated()
    talk.new_session()
    same_day = talk.asked("When did the heron come to the pond?")
    assert not same_day.resumed
    assert times("A heron came to the pond at noon.", same_day.part(RECALLED)) == 1, (
        "from the day store: there is no release"
    )
    assert not (talk.world.memory_dir / "current").exists()


def _tuesday(talk: Talk) -> None:
    """Yesterday comes from the release; a fact is corrected."""
    morning = talk.asked("And the heron at the pond, when was that?")
    assert times("A heron came to the pond at noon.", remembered(morning)) == 1, (
        "release and day hold it, it comes once"
    )
    assert morning.part(SUMMARY), "the night's summary"
    assert "Weber" in morning.part(FACTS)
    tag = "[REMEMBER CODE: the landlord is called Klein | REPLACES: 2]"
    reply = talk.say("My landlord is Klein now, no longer Weber.", f"I correct that.\n{tag}")
    assert reply.endswith("Noted; this replaces: the landlord is called Weber")
    after = talk.asked("Who is my landlord?")
    assert "the landlord is called Klein" in after.part(FACTS)
    assert "Weber" not in after.part(FACTS)
    assert "4711" in after.part(FACTS)


def _wednesday(talk: Talk) -> None:
    """A fact is forgotten: it is in no request from then on, at once and after a restart."""
    with day(talk, WEDNESDAY):
        assert "Weber" not in talk.asked("Who is my landlord today?").part(FACTS)
        talk.say("What is the code of the safe?", "Your safe opens with 4711.")
        known = talk.asked("Thank you for the code.")
        assert "4711" in json.dumps(known.history), "it is told in the session that goes on"
        reply = talk.say(
            "Forget the code of the safe, please.", "As you wish.\n[FORGET CODE: the code of the safe is 4711]"
        )
        assert reply.startswith("As you wish.")
        assert "Forgotten." in reply
        _nothing_of_the_code(talk)
    with day(talk, WEDNESDAY.replace("09", "15")):
        _nothing_of_the_code(talk)


def _nothing_of_the_code(talk: Talk) -> None:
    for question in (
        "What is the code of the safe?",
        "Do you still know 4711's other digits, the safe's code?"[:13] + " my safe?",
    ):
        talk.will_answer(question, "I do not know it.")
        request = talk.asked(question)
        assert "4711" not in request.whole
        assert "the landlord is called Klein" in request.part(FACTS), "all else is still known"
    shown = talk.say("/memory")
    assert "4711" not in shown
    assert "the landlord is called Klein" in shown
    assert "file the tax return" in shown
    assert "heron" in remembered(talk.asked("Tell me about the heron at the pond."))


def _thursday(talk: Talk) -> None:
    """The goal of Monday is reached."""
    _nothing_of_the_code(talk)
    assert "file the tax return (by" in talk.asked("What is still to be done?").part(FACTS)
    assert "Done: file the tax return" in talk.say("The tax return is filed.", "Well done!\n[DONE CODE: tax return]")
    assert "Active Goals:" not in talk.asked("And now, what is to be done?").part(FACTS)
    shown = talk.say("/memory")
    assert "Active Goals:\n(none)" in shown
    assert "file the tax return (done, " in shown


def _friday(talk: Talk) -> None:
    request = talk.asked("What did I have to do about taxes this week, and who is my landlord?")
    assert "Active Goals:" not in request.part(FACTS)
    assert "the landlord is called Klein" in request.part(FACTS)
    assert "The tax return is filed." in remembered(request)
    assert "Weber" not in request.part(FACTS)
    assert "4711" not in request.whole
    stored = [key for key in talk.world.redis.keys("hcli:memory:*") if b"/memory" in (talk.world.redis.get(key) or b"")]
    assert stored == [], "commands are not stored as said"


def test_an_hour_ago_is_found_by_words_and_by_meaning_each_turn_once(talk: Talk) -> None:
    dispatcher = talk.world.start_dispatcher()
    ago = time.time() - 3600
    said = [
        "The plumber repaired the leaking boiler for 340 euros.",
        "My daughter's recital is in the Saint Cecilia chapel.",
    ]
    for number, text in enumerate(said):
        talk.say(text, at=ago + number)
    talk.say("It rained.", at=ago + 10)
    talk.embedded()
    talk.new_session()
    by_words = talk.asked("What did the plumber ask for the boiler?")
    assert times(said[0], by_words.part(RECALLED)) == 1
    talk.new_session()
    by_meaning = talk.asked("Where does my kid play her concert?")
    assert times(said[1], by_meaning.part(RECALLED)) == 1, "no word in common"
    again = talk.asked("Where exactly does my kid play her concert?")
    assert again.resumed
    talk.consolidated()
    told = talk.asked("Tell me where my kid does play her concert.")
    assert told.resumed
    assert "Where does my kid play" not in told.part(RECALLED), "what is in the resumed session is not told again"
    assert times(said[1], told.part(RECALLED)) == 1, "what is not, is"
    talk.world.night()
    wait_for(lambda: b"release" in dispatcher.log.read_bytes(), "the new release")
    for question in ("What did the plumber ask for the boiler repair?", "Where does my kid give her concert?"):
        talk.new_session()
        request = talk.asked(question)
        assert sum(times(text, remembered(request)) for text in said) >= 1
        assert all(times(text, remembered(request)) <= 1 for text in said), "the night has it too: it comes once"
    assert dispatcher.stop() == 0


@pytest.mark.slow
def test_a_long_session_is_summarised_and_ended(talk: Talk) -> None:
    talk.world.environment["SESSION_TOKENS"] = "150"
    dispatcher = talk.world.start_dispatcher()
    first = talk.asked("The wedding of Paula and Jonas is on 12 June in the old mill.")
    for number in range(8):
        request = talk.asked(
            f"Number {number}: the guests need rooms, a bus and a menu for the evening, please think of it all."
        )
        if request.session != first.session:
            break
        talk.consolidated()
    else:
        wait_for(lambda: not talk.world.redis.exists(f"hcli:session:{CHAT}"), "the session to end")
        request = talk.asked("What was the date of the wedding?")
    assert not request.resumed
    assert request.session != first.session
    assert "Paula and Jonas is on 12 June" in request.part(SO_FAR), "the summary goes with the new session"
    assert not talk.world.redis.exists(f"hcli:session:{CHAT}") or talk.asked("Go on.").resumed
    assert "Paula and Jonas is on 12 June" in talk.asked("And where was it?").part(SO_FAR)
    assert dispatcher.stop() == 0
    history = [json.loads(raw)["content"] for raw in talk.world.redis.lrange(f"hcli:session_history:{CHAT}", 0, -1)]
    assert first.message not in history, "the short list keeps only what is not in the summary"
    assert history[-2:] == ["And where was it?", "All right."]


def test_claude_may_write_the_summary_of_a_session(talk: Talk) -> None:
    talk.world.environment |= {"SESSION_TOKENS": "60", "WRITER": "claude", "WRITES": "sessions"}
    dispatcher = talk.world.start_dispatcher()
    talk.say("The wedding of Paula and Jonas is on 12 June in the old mill. " + "We need rooms, a bus and a menu. " * 6)
    wait_for(lambda: not talk.world.redis.exists(f"hcli:session:{CHAT}"), "the session to end")
    (asked,) = [request for request in talk.requests() if "<conversation>" in request.message]
    assert "Paula and Jonas is on 12 June" in asked.message
    assert (asked.resumed, asked.system) == (False, "")
    assert "All right." in talk.asked("What was the date of the wedding?").part(SO_FAR), "what the model wrote"
    assert dispatcher.stop() == 0
    assert b"without the model" not in dispatcher.log.read_bytes()


@pytest.mark.slow
def test_a_session_does_not_end_under_a_running_task(talk: Talk) -> None:
    dispatcher = talk.world.start_dispatcher()
    first = talk.asked("The wedding of Paula and Jonas is on 12 June in the old mill.")
    talk.consolidated()
    assert dispatcher.stop() == 0
    hold = talk.world.root / "hold"
    hold.touch()
    dispatcher = talk.world.start_dispatcher(SESSION_TOKENS="1")
    task_id = talk.send("The band of Felix plays there from eight.")
    wait_for(lambda: len(talk.requests()) == 2, "the question to be asked")
    talk.world.redis.sadd("hcli:mem:chats", CHAT)
    time.sleep(1)  # several rounds
    assert talk.world.redis.get(f"hcli:session:{CHAT}") == first.session.encode(), "in use"
    hold.unlink()
    talk.reply(task_id)
    assert talk.requests()[-1].resumed
    wait_for(lambda: not talk.world.redis.exists(f"hcli:session:{CHAT}"), "the session to end afterwards")
    after = talk.asked("What was it about?")
    assert not after.resumed
    assert "Paula and Jonas" in after.part(SO_FAR)
    assert "The band of Felix" in after.part(SO_FAR), "the summary is of the whole session"
    assert after.part(SO_FAR).count("Paula and Jonas") == 1, "and the only one of it"
    assert dispatcher.stop() == 0


@pytest.mark.slow
def test_the_real_cli_is_told_nothing_that_was_forgotten(world: World) -> None:
    """The same with the installed Claude CLI: what reaches the model's server."""
    replies = {
        "My locker is number 8850.": "Kept.\n[REMEMBER CODE: the locker is number 8850]",
        "My cat is called Minka.": "Kept.\n[REMEMBER CODE: the cat is called Minka]",
        "Forget my locker.": "Done.\n[FORGET CODE: the locker is number 8850]",
    }

    def reply(request: dict[str, Any]) -> str:
        said = json.dumps(request["messages"])
        newest = max(replies, key=said.rfind)
        answer = replies[newest].replace("CODE", tag_code(request))
        return answer if said.rfind(newest) > said.rfind("Which") else "All right."

    assert REAL_CLAUDE.exists(), "The Claude CLI is not installed. Run scripts/setup --dev --with-claude."
    with MessagesApi(reply) as api:
        world.environment |= {
            "CLAUDE_BIN": str(REAL_CLAUDE),
            "ANTHROPIC_BASE_URL": api.url,
            "CONSOLIDATION_INTERVAL": "0.2",
        }
        world.environment |= {"ANTHROPIC_API_KEY": SECRET, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        world.environment |= {"EMBEDDER": "none", "NIGHT_INDEXES": "none", "MEMORY_DEADLINE_MS": "10000"}
        talk = Talk(world)
        dispatcher = world.start_dispatcher()
        for message in list(replies)[:2]:
            assert talk.say(message) == "Kept."
        talk.say("Which locker is mine?")
        assert "8850" in json.dumps(api.requests[-1]["system"])
        assert "My locker is number 8850." in json.dumps(api.requests[-1]["messages"])
        assert "Forgotten." in talk.say("Forget my locker.")
        for moment in ("at once", "after a restart", "after the night"):
            if moment == "after a restart":
                assert dispatcher.stop() == 0
                dispatcher = world.start_dispatcher()
            if moment == "after the night":
                world.night()
            talk.say(f"Which locker is mine, {moment}?")
            assert "8850" not in json.dumps(api.requests[-1]), moment
            assert "the cat is called Minka" in json.dumps(api.requests[-1]["system"]), moment
        assert dispatcher.stop() == 0
