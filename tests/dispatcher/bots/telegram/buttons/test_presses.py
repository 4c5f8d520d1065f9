"""Buttons: of this chat, of this person, for a while; a press is a command of its person."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.bots.telegram.core import Presses
from dispatcher.bots.telegram.state import QUEUED_OF_CHAT
from shared.turns.media import Media
from shared.turns.records import dumps, loads_object
from shared.turns.signed import Button, Result
from tests.dispatcher.bots.telegram.conftest import done, one_bot
from tests.servers.telegram_api import BOT
from tests.servers.telegram_messages import forwarded_from, mention
from tests.support.day.telegram_bot import GROUP, Stage, labels, press, say, toasts, wait_until
from tests.support.world import SECRET

stage = one_bot(OWNERS="7")


CHAT = 9951
ADA, BOB = {"id": CHAT, "is_bot": False, "first_name": "Ada"}, {"id": 8, "is_bot": False, "first_name": "Bob"}
FORGET = Button("Forget", "/memory forget 12")


# The choices of /model, which the bot answers alone; ahead of tests that leave something waiting.


def test_the_model_is_chosen_by_a_button(stage: Stage) -> None:
    chat = stage.new_chat()
    asked = say(stage, chat, "/model", "Model of this chat: default")
    assert labels(asked) == ["opus", "sonnet", "haiku", "✓ default"]
    chosen = press(stage, chat, "haiku", "Model of this chat: haiku.")
    assert chosen.id == asked.id
    assert labels(chosen) == ["opus", "sonnet", "✓ haiku", "default"]
    stage.api.say(chat, "hello")
    assert done(stage)["model"] == "haiku"
    say(stage, chat, "/model default", "Model of this chat: default")
    stage.api.say(chat, "hello")
    assert "model" not in done(stage)


def test_a_member_of_a_group_is_shown_the_model_without_buttons(stage: Stage) -> None:
    owner = {"id": 7, "is_bot": False, "first_name": "Ada"}
    assert labels(say(stage, GROUP - 1, "/model", "Model of this chat: default", user=BOB)) == []
    assert labels(say(stage, GROUP - 1, "/model", "Model of this chat: default", user=owner))


def test_a_press_is_a_command_of_its_person_and_its_answer_replaces_the_message(stage: Stage) -> None:
    stage.result(stage.ask(CHAT, "what do you know?", user=ADA), "12: tea", buttons=((FORGET,),))
    stage.shows(CHAT, "12: tea")
    stage.api.press(CHAT, "Forget", ADA)
    task = stage.pop()
    assert (task["message"], task["user_id"], task["chat_id"]) == ("/memory forget 12", CHAT, CHAT)
    stage.answer(task["task_id"], "Forgotten: tea")
    stage.shows(CHAT, "Forgotten: tea")
    stage.quiet()
    assert not stage.api.messages(CHAT)[-1].buttons
    assert stage.api.called("answerCallbackQuery")


def test_in_a_group_only_who_asked_may_press(stage: Stage) -> None:
    stage.result(stage.ask(GROUP, "/memory@memory_bot", user=ADA), "12: tea", buttons=((FORGET,),))
    stage.shows(GROUP, "12: tea")
    before = len(stage.api.called("answerCallbackQuery"))
    stage.api.press(GROUP, "Forget", BOB)
    wait_until(lambda: len(stage.api.called("answerCallbackQuery")) > before, lambda: "the refusal")
    assert "somebody else" in stage.api.called("answerCallbackQuery")[-1].params["text"]
    stage.api.press(GROUP, "Forget", ADA)
    assert stage.pop()["message"] == "/memory forget 12"
    assert not stage.queued()


def test_buttons_with_a_wrong_signature_are_not_shown(stage: Stage) -> None:
    chat = stage.new_chat()
    task = stage.ask(chat, "hello")
    stage.result(task, "hi", buttons=((FORGET,),))
    raw = loads_object(stage.redis.get(f"hcli:results:{task}") or b"")  # type: ignore[arg-type]
    stage.redis.set(f"hcli:results:{task}", dumps(raw | {"more_hmac": "0" * 64}))
    stage.shows(chat, "hi")
    assert not stage.api.messages(chat)[-1].buttons


# What is pressed at the wrong time, too often, or was never made by us.


def presses(stage: Stage, chat: int, label: str, **more: Any) -> str:
    """Press; what is shown for a moment."""
    before = len(toasts(stage))
    stage.api.press(chat, label, **more)
    wait_until(lambda: len(toasts(stage)) > before, lambda: "an answer to the press")
    return toasts(stage)[before]


def with_a_list(stage: Stage, *buttons: Button) -> tuple[int, dict[str, Any]]:
    """A new chat in which a message has these buttons, and nothing else waits; the chat, and its person."""
    chat = stage.new_chat()
    ada = ADA | {"id": chat}
    stage.redis.delete("hcli:mem:bot:waiting:main")
    stage.result(stage.ask(chat, "/memory", user=ada), "list", buttons=(buttons,))
    wait_until(lambda: stage.api.texts(chat)[-1] == "list", lambda: str(stage.api.texts(chat)))
    stage.quiet()
    return chat, ada


def test_a_double_press_counts_once(stage: Stage) -> None:
    chat, ada = with_a_list(stage, FORGET)
    assert [presses(stage, chat, "Forget", user=ada) for _ in range(3)] == ["", *["I am already doing this."] * 2]
    assert stage.pop()["message"] == "/memory forget 12"
    assert not stage.queued()
    stage.redis.delete("hcli:mem:bot:waiting:main")


def test_expired_and_forged_presses_change_nothing(stage: Stage) -> None:
    chat, ada = with_a_list(stage, FORGET)
    old = Presses(SECRET).data(FORGET, chat, str(chat), valid_seconds=-1)
    assert "expired" in presses(stage, chat, "Forget", user=ada, data=old)
    others = Presses(SECRET).data(FORGET, chat, "8")
    for data in (others, "", "x", "a.b.c", "\U0001f642" * 16, old.replace("forget", "xorget"), "A" * 64):
        assert "somebody else" in presses(stage, chat, "Forget", user=ada, data=data)
    assert not stage.queued()
    assert stage.api.texts(chat) == ["list"]


def test_a_press_is_refused_while_the_queue_is_full_and_works_later(stage: Stage) -> None:
    chat, ada = with_a_list(stage, FORGET, Button("Edit", "/memory edit 12"))
    for _ in range(QUEUED_OF_CHAT):
        stage.api.say(chat, "wait", ada)
    wait_until(lambda: len(stage.queued()) == QUEUED_OF_CHAT, lambda: f"{len(stage.queued())} of {QUEUED_OF_CHAT}")
    assert "Please press the button again later" in presses(stage, chat, "Forget", user=ada)
    assert not any("Too many messages" in text for text in stage.api.texts(chat)), "nothing is said in the chat"
    stage.redis.delete("hcli:tasks", "hcli:mem:bot:waiting:main", f"hcli:pending:{chat}")
    assert presses(stage, chat, "Edit", user=ada) == ""
    assert stage.pop()["message"] == "/memory edit 12"
    stage.redis.delete("hcli:mem:bot:waiting:main")


def test_a_press_is_answered_in_time_though_redis_is_not(stage: Stage) -> None:
    chat, ada = with_a_list(stage, FORGET)
    stage.redis.client_pause(3_000, all=True)
    began = time.monotonic()
    assert presses(stage, chat, "Forget", user=ada) == ""
    answered = time.monotonic() - began
    assert stage.pop()["message"] == "/memory forget 12"
    assert time.monotonic() - began > answered, "it was carried out after the answer"
    assert len([one for one in stage.api.called("answerCallbackQuery") if one.at > began]) == 1
    stage.redis.delete("hcli:mem:bot:waiting:main")


@given(st.text(max_size=64), st.integers(), st.text(max_size=20))
def test_no_data_that_we_did_not_make_is_a_command(data: str, chat: int, user: str) -> None:
    assert Presses(SECRET).command(data, chat, user) is None


@given(st.integers(0, 60), st.characters(), st.integers(0, 1))
def test_no_change_of_our_data_is_a_command(at: int, character: str, longer: int) -> None:
    data = Presses(SECRET).data(FORGET, CHAT, "7")
    changed = data[:at] + character + data[at + 1 - longer :]
    found = Presses(SECRET).command(changed, CHAT, "7")
    assert found is None or (found == FORGET.command and changed == data)


def test_a_reply_command_is_signed_with_the_buttons() -> None:
    """And so are the files that come with an answer."""
    file = Media("document", "ab" * 32, 5, name="a.txt")
    more: dict[str, Any] = {"reply_command": "/memory edit 3", "files": (file,)}
    made = Result.sign(SECRET, "t-1", "x", "2026-11-26T08:00:00+00:00", **more)
    assert Result.verified(SECRET, "t-1", made.to_json()) == made
    renamed = {"files": [replace(file, name="b.txt").to_json()]}
    others: list[dict[str, Any]] = [{"reply_command": other} for other in ("/memory edit 4", "rm", 3)]
    for changed in [*others, {"more_hmac": "x"}, renamed]:
        found = Result.verified(SECRET, "t-1", dumps(loads_object(made.to_json()) | changed))
        assert (found.output, found.reply_command, found.files) == ("x", "", ())


def test_an_answer_is_shown_though_telegram_refuses_its_buttons(stage: Stage) -> None:
    chat = stage.new_chat()
    task = stage.ask(chat, "hello")
    stage.api.fail("editMessageText", 400, "Bad Request: BUTTON_DATA_INVALID", chat=chat)
    stage.api.fail("sendMessage", 400, "Bad Request: BUTTON_DATA_INVALID", chat=chat, times=2)
    stage.result(task, "hi there", buttons=((FORGET,),))
    wait_until(lambda: stage.api.texts(chat)[-1] == "hi there", lambda: str(stage.api.texts(chat)))
    assert not stage.api.messages(chat)[-1].buttons


def asks_for_a_text(stage: Stage, chat: int, user: dict[str, Any]) -> int:
    """A message that asks for the new text of entry 3; its id."""
    task = stage.ask(chat, "/memory edit 3" if chat > 0 else "/memory@memory_bot edit 3", user=user)
    stage.result(task, "Reply to this", reply_command="/memory edit 3")
    wait_until(lambda: stage.api.texts(chat)[-1] == "Reply to this", lambda: str(stage.api.texts(chat)))
    stage.quiet()
    return [one.id for one in stage.api.messages(chat) if one.by_bot][-1]


def test_a_reply_completes_the_command_also_when_it_is_edited(stage: Stage) -> None:
    chat = stage.new_chat()
    ada = ADA | {"id": chat}
    stage.redis.delete("hcli:mem:bot:waiting:main")
    asked = asks_for_a_text(stage, chat, ada)
    stage.api.reply(chat, asked, "tee", ada)
    wait_until(lambda: bool(stage.queued()), lambda: "the reply")
    message = stage.api.newest(chat)
    original = {"message_id": asked, "date": 1, "chat": {"id": chat, "type": "private"}, "from": BOT, "text": "x"}
    stage.confirmed(stage.api.edit(chat, message, "tea", ada, reply_to_message=original))
    assert stage.pop()["message"] == "/memory edit 3 tea"
    stage.redis.delete("hcli:mem:bot:waiting:main")


def test_a_forward_or_somebody_elses_reply_completes_nothing(stage: Stage) -> None:
    stage.redis.delete("hcli:mem:bot:waiting:main")
    asked = asks_for_a_text(stage, GROUP, ADA)
    forward: dict[str, Any] = {"forward_origin": forwarded_from({"id": 9, "is_bot": False, "first_name": "Eve"})}
    for user, more in ((BOB, dict[str, Any]()), (ADA, forward)):
        stage.api.reply(GROUP, asked, "@memory_bot tea", user, entities=mention("@memory_bot tea"), **more)
        assert "edit 3" not in stage.pop()["message"]
    stage.redis.delete("hcli:mem:bot:waiting:main")
