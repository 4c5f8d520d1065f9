"""kill -9 of bot and dispatcher over a pressed button: what it does is done once, and a row of buttons is neither lost nor doubled."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.day.telegram_bot import (
    labels,
    last,
    person,
    say,
    sees,
    staged,
    talking,
    wait_until,
)
from tests.support.machine import wait_for


def test_a_death_in_the_middle_leaves_it_forgotten_once(redis_url: str, tmp_path: Path) -> None:
    with talking(redis_url, tmp_path) as stage:
        chat = stage.new_chat()
        say(stage, chat, "the pin is 5566", "All right.")
        shown = say(stage, chat, "/forget 5566", "1 message")
        digest = shown.buttons[0][0]["callback_data"].rpartition(" ")[2]
        (first,) = stage.world.dispatchers
        first.stop()
        dying = stage.world.start_dispatcher(HMEM_CRASH_AT="answering:forgotten")
        stage.api.say(chat, f"/forget yes {digest}", {"id": chat, "is_bot": False, "first_name": "Ada"})
        wait_for(lambda: dying.process.poll() is not None, "its death")
        stage.world.start_dispatcher()
        wait_for(lambda: "Forgotten: 1 message" in "".join(stage.api.texts(chat)), "the answer")
        stones = (stage.world.root / "state" / "forgotten.jsonl").read_text(encoding="utf-8").splitlines()
        assert len(stones) == 1
        assert "5566" not in stage.world.command("hmem", "history", str(chat), check=False).stdout


@pytest.mark.parametrize("point", ["press-marked", "update-taken"])
def test_a_press_is_carried_out_once_when_the_bot_dies_over_it(redis_url: str, tmp_path: Path, point: str) -> None:
    with staged(redis_url, tmp_path) as stage:
        first = stage.bot()
        chat = stage.new_chat()
        say(stage, chat, "/model", "Model of this chat: default")
        assert first.stop(signal.SIGKILL) == -signal.SIGKILL
        stage.api.press(chat, "opus", person(chat))
        dying = stage.bot_again(wait=False, HMEM_CRASH_AT=f"telegram:{point}")
        assert dying.died() == -signal.SIGKILL
        stage.bot_again()
        assert labels(sees(stage, chat, "Model of this chat: opus"))[0] == "✓ opus"
        assert len(stage.api.texts(chat)) == 1, "the choice replaced the message"
        assert stage.api.called("answerCallbackQuery"), "the waiting sign ended"


@pytest.mark.parametrize("point", ["answer-edited", "all-sent"])
def test_the_row_of_the_answer_before_is_removed_also_after_a_death(redis_url: str, tmp_path: Path, point: str) -> None:
    with talking(redis_url, tmp_path) as stage:
        chat = stage.new_chat()
        say(stage, chat, "one", "All right.")
        hold = stage.world.root / "hold"
        hold.touch()
        stage.api.say(chat, "two", person(chat))
        wait_until(lambda: stage.api.texts(chat)[1:] == ["…"], lambda: str(stage.api.texts(chat)))
        waiting: Any = stage.redis.hkeys("hcli:mem:bot:waiting:main")
        stage.placeholder_of(waiting[0].decode())
        stage.close()
        hold.unlink()
        assert stage.bot_again(wait=False, HMEM_CRASH_AT=f"telegram:{point}").died() == -signal.SIGKILL
        stage.bot_again()
        sees(stage, chat, "All right.")
        wait_until(lambda: not stage.api.messages(chat)[1].buttons, lambda: "the first row to go")
        assert stage.api.texts(chat) == ["All right.", "All right."], "each answer is there once"
        assert labels(last(stage, chat)) == ["Why?", "Retry"]
