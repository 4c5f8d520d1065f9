"""`/forget` in the chat: a preview, a question, and only what was shown is hidden."""

from __future__ import annotations

import json
import time
from contextlib import closing, nullcontext
from datetime import datetime, timedelta

import pytest

from dispatcher.answering.commands.forget import ForgetCommand, parse
from dispatcher.memory.day.memory import DayMemory
from tests.dispatcher.bots.telegram.conftest import one_talk
from tests.servers.telegram_messages import Shown, mention
from tests.support.day.telegram_bot import GROUP, Stage, keys_of, labels, last, press, requests, say, sees
from tests.support.machine import wait_for

OWNER, MEMBER = ({"id": number, "is_bot": False, "first_name": name} for number, name in ((7, "Ada"), (8, "Bea")))


stage = one_talk(OWNERS="7", CHAT_TIMEZONE="Europe/Berlin")


def tombstones(stage: Stage, chat: int) -> list[dict[str, object]]:
    path = stage.world.root / "state" / "forgotten.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [one for line in lines if (one := json.loads(line))["chat_id"] == str(chat)]


def remembered(stage: Stage, chat: int, words: str) -> bool:
    """Once all that was said is in the day store."""
    wait_for(lambda: not stage.redis.exists(f"hcli:mem:unconsolidated:{chat}"), "consolidation")
    return words in stage.world.command("hmem", "history", str(chat), check=False).stdout


@pytest.mark.parametrize(("text", "command"), [
    ("", ForgetCommand("explain")),
    ("last", ForgetCommand("last")),
    ("ALL", ForgetCommand("all")),
    ("task:tg-1-2", ForgetCommand("task", "tg-1-2")),
    ('"today"', ForgetCommand("words", "today")),
    ("today at noon", ForgetCommand("words", "today at noon")),
    ("yes 0123456789abcdef", ForgetCommand("yes", "0123456789abcdef")),
    ("yes 0123456789abcdeF", ForgetCommand("words", "yes 0123456789abcdeF")),
    ("no more\n tea", ForgetCommand("words", "no more tea")),
])  # fmt: skip
def test_what_is_asked(text: str, command: ForgetCommand) -> None:
    assert parse(text) == command


def test_what_was_shown_is_forgotten_and_nothing_else(stage: Stage, chat: int) -> None:
    stage.world.root.joinpath("answers.json").write_text(
        '{"my parrot is called Coco": "Nice. [REMEMBER CODE: The parrot is called Coco]"}'
    )
    say(stage, chat, "my parrot is called Coco", "Nice.")
    say(stage, chat, "the boiler was repaired", "All right.")
    shown = say(stage, chat, "/forget coco", "To be forgotten")
    assert 'To be forgotten: 1 message, and 1 entry of my memory with "coco"' in shown.text
    assert "Ada: my parrot is called Coco" in shown.text
    assert labels(shown) == ["Forget these 1", "Cancel"]
    say(stage, chat, "I bought Coco a mirror", "All right.")  # after the preview
    stage.api.press(chat, "Forget these 1", {"id": chat, "is_bot": False, "first_name": "Ada"})
    wait_for(lambda: any("Forgotten: 1 message" in text for text in stage.api.texts(chat)), "the forgetting")
    stage.quiet()
    (stone,) = tombstones(stage, chat)
    assert len(stone["turn_ids"]) == 1  # type: ignore[arg-type]
    assert not remembered(stage, chat, "is called Coco")
    assert remembered(stage, chat, "a mirror"), "it was not shown"
    assert remembered(stage, chat, "boiler")
    assert "Coco" not in say(stage, chat, "/memory", "Facts:").text
    say(stage, chat, "what is my pet?", "All right.")
    assert "is called Coco" not in json.dumps(requests(stage)[-1])
    assert not requests(stage)[-1]["resumed"], "the conversation began anew"


def test_today_and_a_cancellation(stage: Stage, chat: int) -> None:
    say(stage, chat, "a thing of today", "All right.")
    shown = say(stage, chat, "/forget today", "since midnight")
    digest = shown.buttons[0][0]["callback_data"].rpartition(" ")[2]
    press(stage, chat, "Cancel", "Nothing was forgotten.")
    assert "no longer valid" in say(stage, chat, f"/forget yes {digest}", "no longer valid").text
    assert remembered(stage, chat, "a thing of today")
    say(stage, chat, "/forget today", "since midnight")
    press(stage, chat, "Forget these 2", "Forgotten: 2 messages.")
    assert "found nothing" in say(stage, chat, "/forget today", "found nothing").text


def test_the_whole_chat_after_a_second_question(stage: Stage, chat: int) -> None:
    say(stage, chat, "one thing", "All right.")
    say(stage, chat, "/memory add The key is under the mat", "number 1")
    shown = say(stage, chat, "/forget all", "2 messages, and 1 entry of my memory of this chat")
    assert labels(shown) == ["Forget everything…", "Cancel"]
    asked = press(stage, chat, "Forget everything…", "Really forget this whole chat")
    assert tombstones(stage, chat) == []
    assert labels(asked) == ["Yes, forget everything", "No"]
    press(stage, chat, "Yes, forget everything", "Forgotten: 2 messages, and 1 entry")
    stones = tombstones(stage, chat)
    assert stones[0]["turn_ids"] is None
    assert not any("erase" in stone for stone in stones)
    assert "mat" not in say(stage, chat, "/memory", "Facts:").text
    say(stage, chat, "a new beginning", "All right.")
    assert remembered(stage, chat, "a new beginning")
    assert not remembered(stage, chat, "one thing")


def test_a_confirmation_is_for_this_chat_this_person_and_a_while(stage: Stage, chat: int) -> None:
    say(stage, chat, "the safe opens with 4711", "All right.")
    shown = say(stage, chat, "/forget 4711", "To be forgotten: 1 message")
    digest = shown.buttons[0][0]["callback_data"].rpartition(" ")[2]
    other = stage.new_chat()
    assert "no longer valid" in say(stage, other, f"/forget yes {digest}", "no longer valid").text
    (key,) = keys_of(stage.redis, f"hcli:mem:selection:{digest}:*")
    assert 0 < stage.redis.ttl(key) <= 600
    assert b"4711" not in (stage.redis.get(key) or b""), "ids, no words"
    changed = json.loads(stage.redis.get(key) or b"")
    changed["turn_ids"].append("tg-1-1:user")
    stage.redis.set(key, json.dumps(changed))
    press(stage, chat, "Forget these 1", "no longer valid")
    stage.redis.delete(key)
    assert "no longer valid" in say(stage, chat, f"/forget yes {digest}", "no longer valid").text
    assert tombstones(stage, chat) == []


def test_in_a_group_only_an_owner_forgets(stage: Stage) -> None:
    say(stage, GROUP, "/memory add the gate is green", "number", user=MEMBER)
    for command in ("/forget", "/forget gate", "/forget all", "/forget yes 0123456789abcdef"):
        say(stage, GROUP, command, "only an owner may make me forget something", user=MEMBER)
        assert labels(last(stage, GROUP)) == []
    assert labels(say(stage, GROUP, "/forget all", "To be forgotten", user=OWNER))


def test_a_forgotten_message_is_not_asked_again(stage: Stage, chat: int) -> None:
    answer = say(stage, chat, "my locker opens with 1379", "All right.")
    task = answer.buttons[0][1]["callback_data"].rpartition(" ")[2]
    say(stage, chat, "/forget last", "the last exchange")
    press(stage, chat, "Forget these 2", "Forgotten: 2 messages")
    count = len(requests(stage))
    say(stage, chat, f"/retry {task}", "no message of yours")
    say(stage, chat, f"/why {task}", "nothing to explain")
    assert len(requests(stage)) == count


SECRET_SAID = "my PIN is 4711, please forget that again"


def say_and_take_back(stage: Stage, chat: int) -> Shown:
    answers = json.dumps({SECRET_SAID: "Gladly. [FORGET CODE: the PIN 4711]"})
    stage.world.root.joinpath("answers.json").write_text(answers)
    say(stage, chat, "the plumber comes on Thursday at 10 and needs the key", "All right.")
    return say(stage, chat, SECRET_SAID, "I found no memory like")


def test_a_message_that_wants_itself_forgotten_is_offered(stage: Stage, chat: int) -> None:
    answer = say_and_take_back(stage, chat)
    assert not remembered(stage, chat, "nothing")
    shown = press(stage, chat, "Forget this message", "To be forgotten: 2 messages")
    assert SECRET_SAID in shown.text
    assert shown.id != answer.id
    press(stage, chat, "Forget these 2", "Forgotten: 2 messages")
    assert not remembered(stage, chat, "4711")
    assert remembered(stage, chat, "plumber")


def in_digest(stage: Stage, chat: int, *words: str) -> list[bool]:
    digests = pytest.importorskip("dispatcher.features.digest.digest", reason="without the feature")
    assert not remembered(stage, chat, "nothing")  # all of it has reached the day store
    settings = stage.world.settings()
    tomorrow = datetime.now(settings.timezone).date() + timedelta(1)
    with closing(DayMemory(settings, nullcontext)) as day:
        digest = digests.digest_text(day, None, str(chat), tomorrow, time.time() + 86_400) or ""
    return [one in digest for one in words]


@pytest.mark.parametrize(("who", "group"), [(OWNER, GROUP - 1), (MEMBER, GROUP - 2)], ids=["owner", "member"])
def test_in_a_group_who_may_forget_is_offered_it_and_no_digest_says_it(
    stage: Stage, who: dict[str, object], group: int
) -> None:
    answers = {SECRET_SAID: "Gladly. [FORGET CODE: the PIN 4711]"}
    stage.world.root.joinpath("answers.json").write_text(json.dumps(answers))
    for text, words in (("the plumber needs the key on Thursday", "All right."), (SECRET_SAID, "Gladly.")):
        said = f"@memory_bot {text}"
        shown = say(stage, group, said, words, user=who, entities=mention(said))
    assert in_digest(stage, group, "plumber", "4711") == [True, False]
    if who is MEMBER:
        assert "only an owner may make me forget" in shown.text
        assert labels(shown) == []
        return
    stage.api.press(group, "Forget this message", who)
    sees(stage, group, "To be forgotten: 2 messages")


def test_a_message_that_wants_itself_forgotten_is_in_no_digest(stage: Stage, chat: int) -> None:
    say_and_take_back(stage, chat)
    assert in_digest(stage, chat, "plumber", "4711") == [True, False]
