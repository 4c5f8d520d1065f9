"""Who may do what: owners, members of a group, people in private chats, and those who write without a number of their own."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.dispatcher.bots.telegram.conftest import one_bot
from tests.servers.telegram_messages import mention
from tests.support.day.hcli_bot import Bot
from tests.support.day.talking import CLAUDE
from tests.support.day.telegram_bot import GROUP, Stage, says, wait_until
from tests.support.world import World

OWNER = {"id": 7, "is_bot": False, "first_name": "Ada"}
MEMBER = {"id": 8, "is_bot": False, "first_name": "Bea"}
ANONYMOUS = {"id": 1087968824, "is_bot": True, "first_name": "Group"}
#: Where it is another day than in UTC, at any hour.
ELSEWHERE = "Pacific/Kiritimati" if datetime.now(UTC).hour >= 10 else "Pacific/Niue"
KEPT = ("session", "session_history", "session_size")


stage = one_bot(OWNERS="7", CHAT_TIMEZONE=ELSEWHERE)


@pytest.fixture
def group(stage: Stage) -> int:
    stage.redis.delete("hcli:tasks", "hcli:mem:bot:waiting:main")
    return GROUP - stage.new_chat() % 20


def in_its_name(group: int) -> dict[str, Any]:
    return {"user": ANONYMOUS, "sender_chat": {"id": group, "type": "supergroup", "title": "The group"}}


# The bot's own commands.


def test_what_a_member_of_a_group_may_not_is_refused_with_his_number(stage: Stage, group: int) -> None:
    for name in KEPT:
        stage.redis.set(f"hcli:{name}:{group}", "x")
    for command, what in (
        ("/new", "start a new"),
        ("/model opus", "change the model"),
        ("/language ru", "the language"),
    ):
        for sender, who in (({"user": MEMBER}, "Your number is 8"), (in_its_name(group), "write as yourself")):
            stage.api.say(group, command, **sender)
            says(stage, group, what)
            says(stage, group, who)
            says(stage, group, "OWNERS")
    assert stage.redis.exists(*(f"hcli:{name}:{group}" for name in KEPT)) == 3
    assert not stage.redis.exists(f"hcli:mem:chat:{group}")
    for command, words in (
        ("/start", "I answer"),
        ("/help", "only an owner may"),
        ("/status", "Queued"),
        ("/model", "default"),
    ):
        stage.api.say(group, command, user=MEMBER)
        says(stage, group, words)


def test_an_owner_may_all_of_it_in_a_group_and_a_person_in_a_private_chat(stage: Stage, group: int) -> None:
    for chat, user in ((group, OWNER), (stage.new_chat(), MEMBER)):
        stage.redis.set(f"hcli:session:{chat}", "x")
        for command, words in (("/new", "started"), ("/model opus", "chat: opus"), ("/cancel", "nothing")):
            stage.api.say(chat, command, user=user)
            says(stage, chat, words)
        assert not stage.redis.exists(f"hcli:session:{chat}")
        assert stage.redis.hget(f"hcli:mem:chat:{chat}", "model") == b"opus"


def asked(stage: Stage, group: int, text: str, **sender: Any) -> str:
    """A question in the group, queued; its id."""
    text = f"@memory_bot {text}"
    task = f"tg-4242-{stage.api.say(group, text, entities=mention(text), **sender)}"
    stage.placeholder_of(task)
    return task


def marked(stage: Stage, *tasks: str) -> list[bool]:
    """Whether these were asked to stop."""
    return [bool(stage.redis.exists(f"hcli:mem:cancel:{task}")) for task in tasks]


def test_a_member_cancels_his_own_and_an_owner_everybodys(stage: Stage, group: int) -> None:
    senders: list[dict[str, Any]] = [{"user": OWNER}, {"user": MEMBER}, in_its_name(group)]
    running = [asked(stage, group, f"runs {number}", **sender) for number, sender in enumerate(senders)]
    stage.redis.delete("hcli:tasks")  # a dispatcher has them
    queued = [asked(stage, group, f"queued {number}", **sender) for number, sender in enumerate(senders)]
    unknown = json.dumps({"task_id": "other-bots", "message": "x", "chat_id": group})
    stage.redis.rpush(
        "hcli:tasks", unknown, json.dumps({"task_id": "nobodys", "message": "x", "chat_id": group, "user_id": 0})
    )
    stage.waits("from-before", chat=str(group), at=1e10, placeholder=1)  # without a user

    def left() -> list[str]:
        return [str(one["task_id"]) for one in stage.queued()]

    stage.api.say(group, "/cancel", user=MEMBER)
    wait_until(lambda: "the messages of others" in str(stage.api.texts(group)), lambda: str(stage.api.texts(group)))
    said = next(one for one in stage.api.texts(group) if "the messages of others" in one)
    assert said.startswith(
        "Cancelled before processing: 1. In progress and asked to stop: 1. In a group only an owner may"
    )
    assert "Your number is 8" in said
    assert left() == [queued[0], queued[2], "other-bots", "nobodys"]
    assert marked(stage, *running, "from-before") == [False, True, False, False]

    stage.api.say(group, "/cancel", **in_its_name(group))
    wait_until(lambda: "write as yourself" in str(stage.api.texts(group)), lambda: str(stage.api.texts(group)))
    assert left() == [queued[0], "other-bots", "nobodys"]
    assert marked(stage, *running, "from-before") == [False, True, True, False]

    stage.api.say(group, "/cancel", user=OWNER)
    wait_until(lambda: left() == [], lambda: str(left()))
    wait_until(lambda: marked(stage, *running, "from-before") == [True] * 4, lambda: "all to be asked to stop")
    for task in (*running, "from-before"):
        stage.answer(task, "Cancelled.")
    stage.quiet()


def test_an_edited_text_is_its_editors(stage: Stage, group: int) -> None:
    task = asked(stage, group, "/memory forget 1", user=OWNER)
    message = stage.api.messages(group)[-2].id
    text = "@memory_bot /memory forget 2"
    stage.api.edit(group, message, text, entities=mention(text), **in_its_name(group))
    wait_until(lambda: [one["message"] for one in stage.queued()] == ["/memory forget 2"], lambda: str(stage.queued()))
    (found,) = stage.queued()
    assert (found["task_id"], found["user_id"]) == (task, group)
    stage.answer(task, "x")
    stage.quiet()


# What the dispatcher obeys, whichever bot brings it.


@pytest.fixture
def running(light: World) -> World:
    light.environment |= {"OWNERS": "7", "CLAUDE_BIN": CLAUDE, "CONSOLIDATION_INTERVAL": "1"}
    light.start_dispatcher()
    return light


def wishing(world: World, message: str, answer: str) -> str:
    """The message, to which Claude answers this."""
    (world.root / "answers.json").write_text(json.dumps({message: answer}))
    return message


STRANGERS = [8, None, 0, 1087968824, -100123, "07", True, "cli"]


@pytest.mark.usefixtures("running")
def test_only_an_owner_has_something_forgotten_in_a_group(bot: Bot) -> None:
    def say(message: str, user: Any, chat: int = -100123) -> str:
        return bot.ask(message, chat, user_id=user)

    assert "Saved as number 1" in say("/memory add the gate code is 4711", 9)
    for user in STRANGERS:
        said = say("/memory forget 1", user)
        assert said.startswith("In a group only an owner may make me forget what others have told me. "), user
        assert ("Your number is 8" in said) is (user == 8)
    assert "1. user: the gate code is 4711" in say("/memory", 8)
    assert "Forgotten." in say("/memory forget 1", "7")
    assert "4711" not in say("/memory", 8)
    assert "Saved as number 2" in say("/memory add the gate code is 4712", 8)
    assert "Forgotten." in say("/memory forget 2", 7)
    say("/memory add the shed code is 12", 9912, chat=9912)
    assert "Forgotten." in say("/memory forget 1", 9912, chat=9912)


@pytest.mark.slow
def test_a_wish_to_forget_has_the_rights_of_who_asked(running: World, bot: Bot) -> None:
    bot.ask("/memory add the gate code is 4711", -100124)
    wish = "Done.\n[FORGET CODE: the gate code is 4711]\n[REMEMBER CODE: the lift is broken]"
    for number, user in enumerate(STRANGERS):
        said = bot.ask(wishing(running, f"forget the code {number}", wish), -100124, user_id=user)
        assert said.startswith("Done.\n\nIn a group only an owner may make me forget what others"), user
    listed = bot.ask("/memory", -100124, user_id=8)
    assert ("4711" in listed, "the lift is broken" in listed) == (True, True), "the other tags are acted on"
    assert "Forgotten. I will not mention it again." in bot.ask(wishing(running, "forget it at last", wish), -100124)
    assert "4711" not in bot.ask("/memory", -100124, user_id=8)
    bot.ask("/memory add the gate code is 4711", 9912, user_id=9912)
    assert "Forgotten." in bot.ask(wishing(running, "forget it please", wish), 9912, user_id=None)


def test_a_members_wish_that_waits_reaches_only_what_they_said(light: World, bot: Bot) -> None:
    light.environment |= {"OWNERS": "7", "CLAUDE_BIN": CLAUDE, "DAY_STORE_URL": "postgresql://127.0.0.1:1/none"}
    light.start_dispatcher()
    wish = "Done.\n[FORGET CODE: the gate code]\n[REMEMBER CODE: the lift is broken]"
    said = bot.ask(wishing(light, "forget the code", wish), -100125, user_id=8)
    assert "as soon as it is" in said
    (kept,) = [json.loads(raw) for raw in light.redis.lrange("hcli:mem:tags", 0, -1)]
    assert ([tag["kind"] for tag in kept["tags"]], kept["user_id"]) == (["FORGET", "REMEMBER"], "8")
    assert kept["refusal"].startswith("In a group only an owner may"), "it reaches only what this member said"


def test_a_chat_is_a_group_by_its_type_whatever_its_id(light: World, bot: Bot) -> None:
    light.start_dispatcher(OWNERS="7")
    refused = "In a group only an owner may change the time zone."
    assert refused in bot.ask("/timezone Europe/Berlin", "room", chat_type="group", user_id=8)
    assert refused not in bot.ask("/timezone Europe/Berlin", "room", chat_type="private", user_id=8)
    assert refused in bot.ask("/timezone Europe/Berlin", "-100123", user_id=8), "h-cli's bot gives no type"
