"""Files that come with an answer: sent as documents after it, each once, also after crashes and faults."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from shared.turns.media import Media
from shared.wire import keys
from tests.dispatcher.bots.telegram.conftest import one_bot
from tests.support.day.telegram_bot import Stage

REPORT = b"name,rent\nAnn,900\n"


stage = one_bot()


def stored(stage: Stage, content: bytes, name: str | None) -> Media:
    sha256 = hashlib.sha256(content).hexdigest()
    stage.redis.set(keys.media(sha256), content, ex=600)
    return Media("document", sha256, len(content), name=name)


def documents(stage: Stage, chat: int) -> list[tuple[str, bytes]]:
    return [one.document for one in stage.api.messages(chat) if one.document]


def shown(stage: Stage, chat: int) -> list[Any]:
    """Texts and files of the bot, in their order."""
    return [one.document or one.text for one in stage.api.messages(chat) if one.by_bot]


def test_files_come_after_the_answer_in_their_order(stage: Stage, chat: int) -> None:
    task = stage.ask(chat, "make a report")
    stage.result(
        task, "Here it is.", files=(stored(stage, REPORT, "report.csv"), stored(stage, b"more", "Übersicht 2.txt"))
    )
    stage.quiet()
    assert shown(stage, chat) == ["Here it is.", ("report.csv", REPORT), ("Übersicht 2.txt", b"more")]
    placeholder = next(one for one in stage.api.messages(chat) if one.by_bot)
    assert {one.reply_to for one in stage.api.messages(chat) if one.document} == {placeholder.id}


def test_a_file_that_has_expired_is_told(stage: Stage, chat: int) -> None:
    task = stage.ask(chat, "make a report")
    stage.result(
        task, "Here it is.", files=(Media("document", "ab" * 32, 5, name="gone.txt"), stored(stage, REPORT, "b.csv"))
    )
    stage.quiet()
    told = "The file gone.txt is not there any more, so I could not send it. Please ask for it again."
    assert shown(stage, chat) == ["Here it is.", told, ("b.csv", REPORT)]


@pytest.mark.parametrize("refusal", [
    {"status": 400, "description": "Bad Request: wrong file"},
    {"status": 413, "description": "Request Entity Too Large"},
    {"status": 413, "drop": "before", "reply": lambda _: b"<html>a proxy's page</html>"},
])  # fmt: skip
def test_a_refused_file_is_told_and_the_next_one_is_sent(stage: Stage, chat: int, refusal: dict[str, Any]) -> None:
    task = stage.ask(chat, "make a report")
    stage.api.fail("sendDocument", chat=chat, **refusal)
    stage.result(task, "Here it is.", files=(stored(stage, REPORT, "a.csv"), stored(stage, REPORT, "b.csv")))
    stage.quiet()
    told = "Telegram rejected the file a.csv, so I cannot show it here."
    assert shown(stage, chat) == ["Here it is.", told, ("b.csv", REPORT)]
