"""Buttons: of this chat, of this person, for a while; a press is a command of its person."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dispatcher.telegram.incoming.presses import Presses
from shared.turns.records import dumps, loads_object
from shared.turns.results import Button, Result, keyboard_of
from tests.support.day.telegram_bot import GROUP, Stage, staged, wait_until
from tests.support.world import SECRET


@pytest.fixture(scope="module")
def stage(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(redis_url, tmp_path_factory.mktemp("presses")) as stage:
        stage.bot()
        yield stage


CHAT = 9951
ADA, BOB = {"id": CHAT, "is_bot": False, "first_name": "Ada"}, {"id": 8, "is_bot": False, "first_name": "Bob"}
FORGET = Button("Forget", "/memory forget 12")


def with_buttons(stage: Stage, task_id: str, output: str, *buttons: Button, secret: str = SECRET) -> None:
    result = Result.sign(SECRET, task_id, output, "2026-11-26T08:00:00+00:00", buttons=(buttons,))
    forged = Result.sign(secret, task_id, output, "2026-11-26T08:00:00+00:00", buttons=(buttons,))
    raw = loads_object(result.to_json()) | {"buttons_hmac": forged.buttons_signature}
    stage.redis.set(f"hcli:results:{task_id}", dumps(raw), ex=600)


@pytest.mark.parametrize("command", ["/memory forget 12", "/new", "/remind done 7", f"/a {'x' * 35}"])
def test_the_data_of_a_button_fits_and_comes_back(command: str) -> None:
    presses = Presses(SECRET)
    data = presses.data(Button("x", command), -1001234567890123, "123456789")
    assert len(data.encode()) <= 64
    assert presses.command(data, -1001234567890123, "123456789") == command
    assert presses.command(data, -1001234567890124, "123456789") is None
    assert presses.command(data, -1001234567890123, "123456780") is None
    assert presses.command(data.replace(command[-1], "y"), -1001234567890123, "123456789") in (None, command)
    assert Presses("another secret of 16").command(data, -1001234567890123, "123456789") is None


@pytest.mark.parametrize("data", ["", ".", "..", "x.y.z", "\ud800.1.x", "a" * 64, "🙂.🙂.🙂"])
def test_any_other_data_is_refused(data: str) -> None:
    assert Presses(SECRET).command(data, CHAT, "7") is None


def test_an_expired_button_is_known_as_such() -> None:
    presses = Presses(SECRET)
    assert presses.command(presses.data(FORGET, CHAT, "7", valid_seconds=-60), CHAT, "7") == ""


def test_buttons_of_another_form_are_left_out() -> None:
    junk = [
        [
            {"label": "x"},
            {"label": "y", "command": "rm"},
            {"label": "z", "command": "/x\n"},
            {"label": "", "command": "/x"},
        ],
        3,
        [4],
    ]
    assert keyboard_of(junk) == ()
    assert keyboard_of([[{"label": "Forget", "command": "/memory forget 12"}]]) == ((FORGET,),)


def test_a_press_is_a_command_of_its_person_and_its_answer_replaces_the_message(stage: Stage) -> None:
    with_buttons(stage, stage.ask(CHAT, "what do you know?", user=ADA), "12: tea", FORGET)
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
    with_buttons(stage, stage.ask(GROUP, "/memory@memory_bot", user=ADA), "12: tea", FORGET)
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
    with_buttons(stage, stage.ask(chat, "hello"), "hi", FORGET, secret="somebody else's secret")
    stage.shows(chat, "hi")
    assert not stage.api.messages(chat)[-1].buttons
