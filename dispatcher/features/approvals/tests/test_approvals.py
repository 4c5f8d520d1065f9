"""Before Claude uses a tool the chat is asked: who may answer, once, in time; and what happens in every other case."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator

import pytest

from dispatcher.features.approvals.questions import ToolDecision, ToolQuestion, shown_input
from dispatcher.features.approvals.tests.asking import BOB, GROUP, OWNER, Asking, asking, person, pressed_again
from tests.support.day.forgetting_world import forget_in_redis
from tests.support.day.telegram_bot import wait_until
from tests.support.world import SECRET

FREE, WITHOUT = 9921, 9922
#: A chat with a long input, and one that may have only its own tools, as a guest's.
TOO_LONG, LIMITED = 9938, 9945


@pytest.fixture(scope="module")
def here(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    with asking(redis_url, tmp_path_factory.mktemp("asking"), CHAT_TOOLS=f"{FREE}=Bash; {WITHOUT}=WebFetch") as made:
        yield made


def test_an_allowed_tool_runs_and_the_decision_is_recorded(here: Asking) -> None:
    chat = 9930
    question = here.asked(chat, "touch made.txt")
    assert question.text.startswith('Claude wants to use Bash:\n{\n "command": "touch made.txt",\n "description"')
    assert [one["text"] for row in question.buttons for one in row] == ["Allow", "Deny"]
    (block,) = json.loads(here.api.called("sendMessage", chat)[-1].params["entities"])
    assert block["type"] == "pre", "nothing in it formats"
    assert not here.made(chat, "made.txt")
    assert here.press(chat, "Allow") == "Your answer was recorded."
    here.ends(chat, question, "Allowed by Ada.")
    here.told(chat, "completed with no output")
    assert here.made(chat, "made.txt")
    record = here.records()[-1]
    told = {"chat_id": "9930", "user_id": "9930", "tool": "Bash", "decision": "allowed", "by": "9930", "name": "Ada"}
    assert {name: record[name] for name in told} == told
    given = {"command": "touch made.txt", "description": "does it"}
    assert record["input_sha256"] == hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()
    done = here.stage.world.command("hmem", "approvals", "--chat=9930", "--json")
    assert [one["decision"] for one in json.loads(done.stdout)] == ["allowed"]
    assert "Bash allowed by Ada" in here.stage.world.command("hmem", "approvals").stdout


def test_in_a_group_the_person_who_asked_or_an_owner_decides(here: Asking) -> None:
    question = here.asked(GROUP, "touch by-owner.txt", person(GROUP))
    assert here.press(GROUP, "Allow", BOB) == "Only the person who asked, or an owner, may answer this."
    assert here.open_question(GROUP)
    here.press(GROUP, "Allow", OWNER)
    here.ends(GROUP, question, "Allowed by Olga.")
    here.told(GROUP, "completed")
    record = here.records()[-1]
    assert (record["user_id"], record["by"]) == ("7", "77")
    question = here.asked(GROUP, "touch by-ada.txt", person(GROUP))
    here.press(GROUP, "Deny", person(GROUP))
    here.ends(GROUP, question, "Denied by Ada.")
    assert here.made(GROUP, "by-owner.txt")
    assert not here.made(GROUP, "by-ada.txt")


def test_a_press_counts_once_in_its_chat_alone(here: Asking) -> None:
    chat, other = 9933, 9934
    question = here.asked(chat, "touch made.txt")
    (allow, deny), theirs = question.buttons[0], here.asked(other, "touch made.txt")
    assert here.press(other, "Allow", data=allow["callback_data"]).startswith("Only the person")
    changed = deny["callback_data"].replace("deny", "allow")
    assert here.press(chat, "Allow", data=changed).startswith("Only the person")
    assert here.open_question(chat)
    assert here.open_question(other)
    here.press(chat, "Deny")
    for data in (
        allow["callback_data"],
        deny["callback_data"],
    ):  # the loopback finds a button by its label: another chat's
        here.api.update({"callback_query": pressed_again(chat, question.id, data)})
    here.ends(chat, question, "Denied by Ada.")
    here.api.update({"callback_query": pressed_again(chat, question.id, allow["callback_data"])})
    here.press(other, "Deny")
    here.ends(other, theirs, "Denied by Ada.")
    here.told(chat, "did not allow")
    assert not here.made(chat, "made.txt")


def test_answers_and_questions_without_a_signature_have_no_effect(here: Asking) -> None:
    chat = 9935
    forged = ToolQuestion(str(chat), str(chat), "t1", "Bash", "rm -rf /", time.time() + 60)
    here.redis.hset("hcli:mem:approvals:open", "0" * 20, forged.to_json("another secret of mine", "0" * 20))
    question = here.asked(chat, "touch made.txt")
    name = here.open_id()
    key = f"hcli:mem:approval:{name}"
    yes = ToolDecision("allowed", str(chat), str(chat), "Ada")
    here.redis.set(key, yes.to_json("another secret of mine", name))
    time.sleep(1)
    here.redis.set(key, yes.to_json(SECRET, "1" * 20))  # signed for another question
    time.sleep(1)
    assert here.open_question(chat)
    assert not here.made(chat, "made.txt")
    assert "rm -rf" not in "".join(here.api.texts(chat))
    here.redis.delete(key)
    assert not here.redis.hexists("hcli:mem:approvals:open", "0" * 20)
    here.press(chat, "Deny")
    here.ends(chat, question, "Denied by Ada.")


def test_chats_have_their_own_tools(here: Asking) -> None:
    here.say(FREE, "touch made.txt")
    here.told(FREE, "completed")
    assert here.made(FREE, "made.txt")
    assert not any("Claude wants" in one for one in here.api.texts(FREE))
    question = here.asked(WITHOUT, "git status")  # which the CLI itself takes for harmless
    here.press(WITHOUT, "Deny")
    here.ends(WITHOUT, question, "Denied by Ada.")
    assert {one["name"] for one in here.talk.model.requests[-1]["tools"]} >= {"Bash", "WebFetch"}


def test_an_input_is_shown_whole_and_as_it_is() -> None:
    hidden = "<b>x</b> \u202e https://example.org \u3164\u115f\u2800\ufe0f\U000e0100"
    shown = shown_input({"command": hidden + " " * 3_000 + "y" * 900}) or ""
    assert (
        "<b>x</b> \\u202e https://example.org \\u3164\\u115f\\u2800\\ufe0f\\U000e0100⟨3000 blanks⟩" + "y" * 900 in shown
    )


def test_an_input_that_cannot_be_shown_whole_is_denied_without_a_question(here: Asking) -> None:
    """Its harmless beginning would hide what it does."""
    here.say(TOO_LONG, "echo " + "😀" * 1_700 + "; touch made.txt")
    here.told(TOO_LONG, "too long for the person to see it whole")
    assert not any("Claude wants" in one for one in here.api.texts(TOO_LONG))
    assert not here.made(TOO_LONG, "made.txt")
    assert (here.records()[-1]["chat_id"], here.records()[-1]["decision"]) == (str(TOO_LONG), "failed")


def test_a_limited_chat_has_only_the_tools_that_are_named_for_it(here: Asking) -> None:
    """Neither the owner's tools nor questions that its people would answer themselves."""
    here.redis.hset(f"hcli:mem:chat:{LIMITED}", "access", "limited")
    here.say(LIMITED, "touch made.txt")
    wait_until(lambda: any("told: " in one for one in here.api.texts(LIMITED)), lambda: str(here.api.texts(LIMITED)))
    here.stage.quiet()
    assert not any("Claude wants" in one for one in here.api.texts(LIMITED))
    assert not here.made(LIMITED, "made.txt")
    assert "Bash" not in {one["name"] for one in here.talk.model.requests[-1]["tools"]}


def test_a_cancelled_answer_takes_its_question_back_and_the_records_are_bounded(here: Asking) -> None:
    chat = 9937
    here.redis.rpush("hcli:mem:approvals", *[json.dumps({"chat_id": "0"})] * 1_000)
    question = here.asked(chat, "touch made.txt")
    here.api.press(chat, "Stop", person(chat))
    here.ends(chat, question, "The answer was stopped or I am being restarted: denied.")
    assert here.records()[-1]["decision"] == "stopped"
    assert here.redis.llen("hcli:mem:approvals") == 1_000
    assert not here.made(chat, "made.txt")


def test_what_is_forgotten_of_a_chat_has_no_record(here: Asking) -> None:
    chat = 9938
    question = here.asked(chat, "touch secret-parrot.txt")
    here.press(chat, "Allow")
    here.ends(chat, question, "Allowed by Ada.")
    here.told(chat, "completed")
    others = len([one for one in here.records() if one["chat_id"] != str(chat)])
    forget_in_redis(here.redis, str(chat))
    assert [one["chat_id"] for one in here.records()].count(str(chat)) == 0
    assert len(here.records()) == others
    for key in here.redis.scan_iter("hcli:mem:approval:*"):
        assert f'"{chat}"'.encode() not in (here.redis.get(key) or b"")
