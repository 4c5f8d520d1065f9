"""What was misheard is corrected by a reply of the same person, and by nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.machine import wait_for
from tests.support.processes.talk import CHAT, OGG, Talk, talking

RIGHT = "The boiler shows F29, not F28."


@pytest.fixture(scope="module")
def _talk(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    with talking(redis_url, tmp_path_factory.mktemp("corrections")) as talk:
        yield talk


@pytest.fixture
def talk(_talk: Talk) -> Talk:
    return _talk.fresh()


def reply(talk: Talk, to: int, text: str, user: dict[str, object] | None = None) -> str:
    before = len(talk.stage.api.texts(CHAT))
    talk.stage.api.reply(CHAT, to, text, user)
    return talk.answered(before)


def test_a_reply_to_ones_own_recording_corrects_it(talk: Talk) -> None:
    talk.send(**talk.stage.api.files.voice(OGG))
    reply(talk, talk.stage.api.newest(CHAT), RIGHT)
    words = talk.words()
    assert "This corrects a recording of the sender. A program had understood:" in words
    assert "> The boiler shows F28." in words
    assert words.endswith(RIGHT)
    first, _ = talk.turns()
    assert (first["content"], first["media"][0]["text"], first["corrected"]) == (RIGHT, RIGHT, True)
    wait_for(lambda: "F29" in talk.search("boiler"), "the day store")
    assert "shows F28." not in talk.search("boiler").split("[voice message]")[1]


def test_a_reply_to_the_answer_is_talk_and_corrects_nothing(talk: Talk) -> None:
    talk.send(**talk.stage.api.files.voice(OGG))
    answer = [one.id for one in talk.stage.api.messages(CHAT) if one.by_bot][-1]
    reply(talk, answer, "thanks, and what does that mean?")
    assert "This corrects" not in talk.words()
    assert talk.turns()[0]["content"] == "The boiler shows F28."


def test_nobody_corrects_the_recording_of_another(talk: Talk) -> None:
    talk.send(**talk.stage.api.files.voice(OGG))
    reply(talk, talk.stage.api.newest(CHAT), RIGHT, {"id": 8, "is_bot": False, "first_name": "Bob"})
    assert talk.turns()[0]["content"] == "The boiler shows F28."


def test_a_recording_that_is_in_the_archive_is_corrected_from_the_day_store(talk: Talk) -> None:
    talk.spoken = "The heater shows E5."
    talk.send(**talk.stage.api.files.voice(OGG))
    wait_for(lambda: "E5" in talk.search("heater"), "the day store")
    (task_id,) = [one["task_id"] for one in talk.turns()]
    talk.stage.redis.delete(f"hcli:memory:{task_id}:user", f"hcli:memory:{task_id}:asst")  # as the night does
    reply(talk, talk.stage.api.newest(CHAT), RIGHT)
    assert talk.turns()[0]["content"] == RIGHT
    assert talk.turns()[0]["task_id"] == task_id
