"""What the Claude CLI and its provider refuse for a while, or because of our memory: the message is answered all the same."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.day.hcli_bot import Bot
from tests.support.day.health import looks
from tests.support.day.telegram_bot import Stage, staged, wait_until
from tests.support.machine import wait_for
from tests.support.world import STAND_IN, World

#: A CLI that meets one trouble at each call (or the first at all, if it "lasts"), from a file, and is the stand-in when there are none left.
TROUBLED = f"""#!{sys.executable}
import json, os, pathlib, sys, time
troubles = pathlib.Path(os.environ["TROUBLES"])
left = json.loads(troubles.read_text())
if "-p" not in sys.argv or not left:
    os.execv(sys.executable, [sys.executable, {str(STAND_IN)!r}, *sys.argv[1:]])
if not left[0].get("lasts"):  # two calls at once read it
    troubles.write_text(json.dumps(left[1:]))
time.sleep(left[0].get("seconds", 0))
if "output" in left[0]:  # it has asked, so the session exists, and has the message
    sys.path.insert(0, {str(STAND_IN.parent)!r})
    import stand_in_claude
    at = sys.argv.index("--resume" if "--resume" in sys.argv else "--session-id") + 1
    with stand_in_claude.session_file(sys.argv[at]).open("a") as handle:
        handle.write(json.dumps({{"message": sys.stdin.read()}}) + "\\n")
    left = json.loads(json.dumps(left).replace("SESSION", sys.argv[at]))
print(left[0].get("output", ""))
print(left[0].get("errors", ""), file=sys.stderr)
sys.exit(left[0].get("code", 1))
"""
BUSY = {"errors": "Error: Session ID 6f1e1c9e-53a1-4a51-9d05-30f1a4c3b1a7 is already in use."}


def refused(status: int, words: str, **more: Any) -> dict[str, Any]:
    record = {"type": "result", "is_error": True, "api_error_status": status, "result": words}
    return {"output": json.dumps(record), **more}


NOT_PAID = refused(400, "API Error: 400 Third-party apps now draw from your extra usage, not your plan limits.")
OVERLOADED = refused(529, "API Error: 529 Overloaded.")
ENDED = refused(401, "Failed to authenticate. API Error: 401 OAuth token has expired.", lasts=True)


def trouble(world: World, *troubles: dict[str, Any]) -> None:
    Path(world.environment["TROUBLES"]).write_text(json.dumps(troubles))


def with_troubles(world: World) -> World:
    program, troubles = world.root / "troubled-claude", world.root / "troubles"
    program.write_text(TROUBLED)
    program.chmod(0o755)
    world.environment |= {"CLAUDE_BIN": str(program), "CLAUDE_ENV": "TROUBLES", "TROUBLES": str(troubles)}
    trouble(world)
    return world


@pytest.fixture
def troubled(light: World) -> World:
    return with_troubles(light)


@pytest.fixture
def stage(redis_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(redis_url, tmp_path) as made:
        with_troubles(made.world)
        yield made


def answer(world: World, task: str, message: str, *troubles: dict[str, Any]) -> str:
    trouble(world, *troubles)
    world.enqueue(task, message)
    wait_for(lambda: world.redis.exists(f"hcli:results:{task}"), "the answer")
    return str(json.loads(world.redis.get(f"hcli:results:{task}") or b"")["output"])


def test_a_busy_session_is_waited_for_and_a_memory_that_the_provider_refuses_is_left_out(troubled: World) -> None:
    troubled.say("old", "the parrot is called Alba")
    troubled.night()
    troubled.start_dispatcher()
    assert "Alba" in answer(troubled, "t1", "How is the parrot called?")
    session = troubled.redis.get("hcli:session:9912")
    assert "stand-in" in answer(troubled, "t2", "And the dog?", BUSY)
    assert troubled.redis.get("hcli:session:9912") == session
    said = answer(troubled, "t3", "How is the parrot called?", NOT_PAID)
    assert "stand-in" in said
    assert "Alba" not in said
    said = answer(troubled, "t4", "How is the parrot called?", NOT_PAID, NOT_PAID)
    assert "my owner has to look at it" in said
    assert "phrase" not in said
    assert troubled.redis.get("hcli:session:9912") == session, "it is kept"
    troubled.redis.delete("hcli:session:9912")  # /new
    anew = answer(troubled, "t5", "How is the parrot called?", NOT_PAID)
    assert "stand-in" in anew, "the refused question has begun its session, so this one has another"
    assert "Alba" not in anew
    assert "stand-in" in answer(troubled, "t6", "And the dog?")


POISONED = refused(
    400,
    'API Error: 400 {"message":"The request body is not valid JSON: no low surrogate in string: line 1 column 2906"}',
)


def knowing_nothing(session: str) -> dict[str, Any]:
    """An answer, and in the log that the conversation was not found."""
    record = {
        "type": "result",
        "is_error": False,
        "result": "Which boat?",
        "session_id": session,
        "num_turns": 1,
    }
    lost = "No conversation found with session ID: SESSION"
    return {"output": json.dumps(record), "errors": lost, "code": 0}


@pytest.mark.parametrize("lost", [
    knowing_nothing("SESSION"), knowing_nothing("00000000-0000-4000-8000-000000000000"), POISONED,
], ids=["same", "another", "poisoned"])  # fmt: skip
def test_a_conversation_that_is_lost_goes_on_in_a_new_session_that_knows_it(
    troubled: World, lost: dict[str, Any]
) -> None:
    troubled.start_dispatcher()
    answer(troubled, "t1", "My boat is called Pelican.")
    before = troubled.redis.get("hcli:session:9912")
    said = answer(troubled, "t2", "How is my boat called?", lost)
    assert "My boat is called Pelican." in said, "the stand-in says what it was given"
    assert "Which boat?" not in said
    after = troubled.redis.get("hcli:session:9912")
    assert after not in (before, None)
    assert "My boat" not in answer(troubled, "t3", "And how long is it?"), "the new session knows it"
    assert troubled.redis.get("hcli:session:9912") == after
    assert [asked_in(troubled, "9912").count(one) for one in ("How is my boat", "And how long")] == [1, 1]


# Questions that wait.


def held(world: World) -> dict[str, Any]:
    """Why questions of all chats wait."""
    return dict(json.loads(world.redis.hget("hcli:mem:holds", "") or b"{}"))


def hold_of_chat(world: World) -> dict[str, Any]:
    return dict(json.loads(world.redis.hget("hcli:mem:holds", "9912") or b"{}"))


def try_now(world: World, **more: float) -> None:
    """As if the time of the next try had come."""
    for chat, raw in world.redis.hgetall("hcli:mem:holds").items():
        world.redis.hset("hcli:mem:holds", chat, json.dumps(json.loads(raw) | {"next": time.time() - 1} | more))


def sees(stage: Stage, chat: int, words: str) -> None:
    wait_until(lambda: words in str(stage.api.texts(chat)), lambda: f"{words!r} in {stage.api.texts(chat)}")


def asked_in(world: World, chat: str) -> str:
    """What Claude was asked in the chat's session."""
    session: Any = world.redis.get(f"hcli:session:{chat}")
    (kept,) = world.root.rglob(f"{session.decode()}.jsonl")
    return kept.read_text()


def all_wait(world: World, questions: int) -> bool:
    """So many are in the queue, and nobody holds one."""
    return world.redis.llen("hcli:tasks") == questions and not world.redis.hlen("hcli:mem:busy")


def test_questions_wait_for_the_login_and_are_answered_each_once_and_in_order(stage: Stage) -> None:
    world, chats = stage.world, [stage.new_chat() for _ in range(3)]
    trouble(world, ENDED)
    stage.bot()
    for number, chat in enumerate((chats[0], chats[0], chats[1], chats[0], chats[2]), 1):
        stage.api.say(chat, f"question {number}")
        wait_for(lambda: len(stage.queued()) == number, "the question in the queue")  # noqa: B023
    dying = world.start_dispatcher(HMEM_CRASH_AT="answering:postponed")
    assert dying.process.wait(timeout=60) == -signal.SIGKILL
    for _ in range(2):
        world.start_dispatcher()
    wait_for(lambda: all_wait(world, 5) and held(world).get("next", 0) > time.time(), "all to wait")
    since = held(world)["since"]
    for chat in chats:
        sees(stage, chat, "I cannot answer yet: I am not logged in")
    assert sum("I answer it by myself" in text for text in stage.api.texts(chats[0])) == 1, "a chat is told once"
    assert not stage.redis.keys("hcli:memory:*")
    assert not stage.redis.keys("hcli:results:*")
    stage.api.say(chats[1], "/timezone")
    wait_for(
        lambda: len(stage.api.texts(chats[1])) == 2 and "…" not in stage.api.texts(chats[1]), "the command's answer"
    )
    try_now(world)
    wait_for(lambda: all_wait(world, 5) and held(world)["next"] > time.time(), "a try in vain")
    assert held(world)["since"] == since
    login = looks(world, "dispatcher")
    assert login.state == "warning"
    assert "I am not logged in any more" in login.sentence
    trouble(world)
    try_now(world)
    stage.quiet()
    assert not stage.redis.exists("hcli:mem:holds")
    asked = [json.loads(raw)["content"] for raw in stage.redis.lrange(f"hcli:session_history:{chats[0]}", 0, -1)]
    assert [one for one in asked if one.startswith("question")] == ["question 1", "question 2", "question 4"]
    for chat in chats:
        assert not [text for text in stage.api.texts(chat) if "Sorry" in text or text == "…"]
    assert len(stage.redis.keys("hcli:memory:*:asst")) == 5


def test_a_limit_is_waited_for_until_its_hour_and_who_waits_may_cancel(stage: Stage) -> None:
    world, chat = stage.world, stage.new_chat()
    ends = time.time() // 60 * 60 + 2 * 3600
    hour = time.strftime("%I:%M%p", time.gmtime(ends)).lstrip("0").lower()
    limit = refused(429, f"You've hit your limit · resets {hour} (UTC)", lasts=True)
    trouble(world, limit)
    stage.bot()
    world.start_dispatcher()
    stage.api.say(chat, "question 1")
    told = time.strftime("I am over my usage limit until %Y-%m-%d %H:%M (UTC)", time.gmtime(ends))
    sees(stage, chat, told)
    assert held(world)["next"] == pytest.approx(ends, abs=120)
    stage.api.say(chat, "/cancel")
    sees(stage, chat, "Cancelled.")
    stage.quiet()
    assert not stage.queued()
    stage.api.say(chat, "question 2")
    wait_for(lambda: all_wait(world, 1), "it to wait")
    trouble(world)
    try_now(world)
    sees(stage, chat, "stand-in")
    trouble(world, limit)
    long = {"submitted_at": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() - 11 * 3600))}
    assert "over my usage limit" in answer_of(world, "old", **long), "twelve hours are enough"


def test_a_question_that_waits_is_asked_as_it_was_edited_and_in_the_conversation_that_was_begun_meanwhile(
    stage: Stage,
) -> None:
    """Edited while Claude was asked in vain, so the new text came after it into the queue."""
    world, chat = stage.world, stage.new_chat()
    stage.bot()
    world.start_dispatcher()
    stage.api.say(chat, "My boat is called Pelican.")
    sees(stage, chat, "stand-in")
    trouble(world, ENDED | {"seconds": 3})
    stage.api.say(chat, "What does the boiler show?")
    asked = stage.api.newest(chat)
    wait_for(lambda: stage.redis.hlen("hcli:mem:busy"), "Claude to be asked")
    for text in ("What does the oven show?", "What does the radio show?"):
        stage.api.edit(chat, asked, text)
    wait_for(lambda: all_wait(world, 2) and held(world), "question and edit to wait")
    elsewhere = stage.queued()[-1] | {"task_id": "elsewhere", "chat_id": 5, "message": "What does the fridge show?"}
    stage.redis.hset("hcli:mem:busy", "5", "another:1")  # so it stays in the queue
    stage.redis.rpush("hcli:tasks", json.dumps(elsewhere))
    stage.api.say(chat, "/new")
    sees(stage, chat, "I started a new conversation")
    trouble(world)
    try_now(world)
    stage.quiet()
    turns = [json.loads(raw) for raw in stage.redis.lrange(f"hcli:session_history:{chat}", 0, -1)]
    question, answered = (one["content"] for one in turns)
    assert question == "What does the radio show?"
    assert "Pelican" not in answered
    assert "radio" in asked_in(world, str(chat))
    assert "boiler" not in asked_in(world, str(chat))
    assert sum("I remember the new text" in text for text in stage.api.texts(chat)) == 1


def awaited(world: World, task: str) -> None:
    world.redis.hset("hcli:mem:bot:waiting:main", task, "a bot of ours")


def answer_of(world: World, task: str, **more: Any) -> str:
    awaited(world, task)
    world.enqueue(task, "question", **more)
    wait_for(lambda: world.redis.exists(f"hcli:results:{task}"), "the answer")
    return str(json.loads(world.redis.get(f"hcli:results:{task}") or b"")["output"])


def test_a_service_that_is_overloaded_holds_one_chat_only(troubled: World) -> None:
    troubled.start_dispatcher()
    assert "stand-in" in answer(troubled, "t0", "My boat is called Pelican.")
    session = troubled.redis.get("hcli:session:9912")
    trouble(troubled, OVERLOADED)
    awaited(troubled, "t1")
    troubled.enqueue("t1", "question 1")
    wait_for(lambda: hold_of_chat(troubled), "it to wait")
    assert "stand-in" in answer_of(troubled, "t2", chat_id=77)
    assert troubled.redis.hkeys("hcli:mem:holds") == [b"9912"]
    trouble(troubled, OVERLOADED)
    try_now(troubled)
    wait_for(lambda: hold_of_chat(troubled).get("next", 0) > time.time(), "a try in vain")
    try_now(troubled)
    wait_for(lambda: troubled.redis.exists("hcli:results:t1"), "the answer")
    assert not troubled.redis.exists("hcli:mem:holds")
    assert b"My boat is called Pelican." in (troubled.redis.get("hcli:results:t1") or b"")
    assert troubled.redis.get("hcli:session:9912") != session
    assert asked_in(troubled, "9912").count("question 1") == 1, "what failed is in other sessions"


def test_what_a_message_itself_may_cause_holds_its_chat_for_an_hour_and_no_other_after_it(troubled: World) -> None:
    trouble(troubled, OVERLOADED | {"lasts": True})
    troubled.start_dispatcher()
    for task in ("t1", "t2"):
        awaited(troubled, task)
        troubled.enqueue(task, f"question {task}")
    wait_for(lambda: hold_of_chat(troubled).get("task") == "t1", "it to wait")
    troubled.redis.lpop("hcli:tasks")  # /cancel
    troubled.redis.hdel("hcli:mem:bot:waiting:main", "t1")
    wait_for(lambda: hold_of_chat(troubled).get("task") == "t2", "the other to be tried at once")
    assert hold_of_chat(troubled)["next"] == pytest.approx(time.time() + 60, abs=30)
    try_now(troubled, since=time.time() - 3600)
    wait_for(lambda: troubled.redis.exists("hcli:results:t2"), "the error")
    assert b"overloaded" in (troubled.redis.get("hcli:results:t2") or b"")
    trouble(troubled)
    far = {"since": time.time(), "next": time.time() + 20 * 3600, "why": "of a wrong clock"}
    troubled.redis.hset("hcli:mem:holds", "", json.dumps(far))
    assert "stand-in" in answer_of(troubled, "t3")


def test_what_only_looks_like_a_command_waits_like_any_question(troubled: World) -> None:
    """It is not answered without Claude: taken at once, it would be asked in vain without a pause."""
    trouble(troubled, ENDED)
    troubled.start_dispatcher()
    tasks: list[tuple[str, dict[str, Any]]] = [
        ("/why-not", {}), ("/why@home's", {}), ("/why", {"forward": {}}), ("/why", {"scheduled": True}),
    ]  # fmt: skip
    for number, (message, more) in enumerate(tasks):
        awaited(troubled, f"t{number}")
        troubled.enqueue(f"t{number}", message, chat_id=number + 1, **more)
    wait_for(lambda: all_wait(troubled, len(tasks)) and held(troubled), "all to wait")
    before = held(troubled)
    time.sleep(1)
    assert (all_wait(troubled, len(tasks)), held(troubled)) == (True, before)
    awaited(troubled, "command")
    troubled.enqueue("command", "/why@memory_bot", chat_id=1, forward=None, media=[], scheduled=False)
    wait_for(lambda: troubled.redis.exists("hcli:results:command"), "what is answered at once")


def test_a_bot_that_gives_up_by_itself_gets_the_error_at_once(troubled: World) -> None:
    trouble(troubled, ENDED)
    troubled.start_dispatcher()
    assert "not logged in any more" in Bot(troubled.redis).ask("question", 9912)
    assert not troubled.redis.exists("hcli:mem:holds")
