"""`BUTTONS=false`: no buttons below answers and placeholders; lists keep theirs."""

from __future__ import annotations

from pathlib import Path

from tests.support.day.telegram_bot import labels, say, talking


def test_the_row_can_be_switched_off(redis_url: str, tmp_path: Path) -> None:
    with talking(redis_url, tmp_path, BUTTONS="false") as stage:
        chat = stage.new_chat()
        assert labels(say(stage, chat, "hello", "All right.")) == []
        assert not [one for one in stage.api.called("sendMessage", chat) if "reply_markup" in one.params]
        say(stage, chat, "/memory add The cat is black", "number 1")
        assert labels(say(stage, chat, "/memory", "1. The cat")) == ["1"], "a list has its buttons in any case"
