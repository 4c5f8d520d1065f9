"""The program's own words are in the language of the sender's Telegram, or of the chat's choice: bot and dispatcher."""

from __future__ import annotations

import pytest

from dispatcher.bots.telegram.commands import stranger
from shared.text.translations import speaking, tr
from shared.wire import keys
from tests.dispatcher.bots.telegram.conftest import one_talk
from tests.support.day.telegram_bot import Stage, wait_until

STARTED = "I started a new conversation. I still remember the earlier ones."
UWE = {"id": 9912, "is_bot": False, "first_name": "Uwe", "language_code": "de"}


stage = one_talk(OWNERS="9912")


def told(stage: Stage, chat: int, text: str, user: dict[str, object] | None = UWE) -> str:
    before = len(stage.api.texts(chat))
    stage.api.say(chat, text, user)
    wait_until(lambda: len(stage.api.texts(chat)) > before, lambda: str(stage.api.texts(chat)))
    stage.quiet()
    return stage.api.texts(chat)[-1]


def test_bot_and_dispatcher_speak_as_the_senders_telegram_or_as_the_chat_chose(stage: Stage) -> None:
    pytest.importorskip("dispatcher.features.usage", reason="without the feature")
    chat = 9912
    told(stage, chat, "/new")
    with speaking("de"):
        assert stage.api.texts(chat)[-1] == tr(STARTED)
        usage = tr("This chat:")
    assert usage in told(stage, chat, "/usage"), "the dispatcher's"
    assert "Français" in told(stage, chat, "/language fr")
    with speaking("fr"):
        usage = tr("This chat:")
    assert usage in told(stage, chat, "/usage")
    assert stage.redis.hget(keys.chat_settings("9912"), "language") == b"fr"
    with speaking("fr"):
        refusal = tr("I do not speak this language. Choose one of {names}, for example /language de.")
        assert told(stage, chat, "/language klingon").startswith(refusal[:20])
    assert "Deutsch" in told(stage, chat, "/language default")
    assert told(stage, chat, "/new", UWE | {"language_code": "nl"}) == STARTED


def test_a_stranger_is_refused_in_their_language(stage: Stage) -> None:
    said = told(stage, 7171, "hello", {"id": 7171, "is_bot": False, "first_name": "Ira", "language_code": "ru"})
    with speaking("ru"):
        assert said == stranger(7171) != ""
    assert "7171" in said
    assert "only answer" not in said
