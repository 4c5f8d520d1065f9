"""Bots that die over an album. (One bot per Redis: so none of a whole module runs beside them.)"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dispatcher.bots.telegram.media.test_sent_files import REPORT, answer, documents, stored
from tests.support.day.telegram_bot import staged, wait_until

JPEG = b"\xff\xd8\xff\xe0 a picture" + bytes(range(256)) * 50


@pytest.mark.parametrize("point", ["telegram:media-stored", "telegram:after-arrival"])
def test_a_crash_loses_and_doubles_nothing(redis_url: str, tmp_path: Path, point: str) -> None:
    with staged(redis_url, tmp_path) as stage:
        bot = stage.bot(HMEM_CRASH_AT=point, wait=False)
        files = [stage.api.files.photo(JPEG + bytes([number])) | {"media_group_id": "c"} for number in range(3)]
        stage.api.album(9912, files)
        stage.api.say(9912, "and then?")
        bot.died()
        stage.bot_again()
        first, second = stage.pop(), stage.pop()
        assert (len(first["media"]), first["message"], second["message"]) == (3, "(picture)", "and then?")
        stage.answer(first["task_id"], "yes")
        wait_until(lambda: "yes" in stage.api.texts(9912), lambda: str(stage.api.texts(9912)))
        stage.answer(second["task_id"], "no")
        stage.quiet()
        assert stage.api.texts(9912) == ["yes", "no"]
        assert stage.queued() == []


@pytest.mark.parametrize(("point", "sent"), [("telegram:file-0-sent", 2), ("telegram:all-sent", 1)])
def test_a_crash_repeats_one_step_at_most(redis_url: str, tmp_path: Path, point: str, sent: int) -> None:
    with staged(redis_url, tmp_path) as stage:
        bot = stage.bot(HMEM_CRASH_AT=point)
        task = stage.ask(9912, "make a report")
        answer(stage, task, "Here it is.", stored(stage, REPORT, "a.csv"), stored(stage, b"more", "b.txt"))
        bot.died()
        stage.bot_again()
        stage.quiet()
        assert stage.api.texts(9912)[0] == "Here it is."
        assert stage.api.texts(9912).count("Here it is.") == 1
        assert [name for name, _ in documents(stage, 9912)].count("a.csv") == sent
        assert {name for name, _ in documents(stage, 9912)} == {"a.csv", "b.txt"}
        assert len(documents(stage, 9912)) <= 3
