"""Questions about tools that nobody answers, whose dispatcher stops or dies, and an installation that asks none."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from dispatcher.features.approvals.tests.asking import asking, pressed_again
from tests.support.day.telegram_bot import wait_until


def test_without_an_answer_it_is_denied(redis_url: str, tmp_path: Path) -> None:
    with asking(redis_url, tmp_path, seconds=3) as here:
        question = here.asked(9940, "touch made.txt")
        old = question.buttons[0][0]["callback_data"]
        here.ends(9940, question, "Nobody answered: denied.")
        here.told(9940, "Nobody answered within 3 seconds")
        here.api.update({"callback_query": pressed_again(9940, question.id, old)})
        wait_until(lambda: here.api.called("answerCallbackQuery"), lambda: "the answer to a late press")
        assert here.api.called("answerCallbackQuery")[-1].params["text"] == "This question is over."
        assert here.records()[-1]["decision"] == "nobody"
        assert not here.made(9940, "made.txt")


def test_a_dispatcher_that_stops_denies_at_once(redis_url: str, tmp_path: Path) -> None:
    with asking(redis_url, tmp_path) as here:
        question = here.asked(9941, "touch made.txt")
        os.kill(here.stage.world.dispatchers[-1].process.pid, signal.SIGTERM)
        here.ends(9941, question, "I am being restarted: denied.")
        here.told(9941, "is being stopped")
        assert here.stage.world.dispatchers[-1].process.wait(60) == 0
        assert not here.made(9941, "made.txt")


def test_the_question_of_a_killed_dispatcher_ends_and_is_asked_anew(redis_url: str, tmp_path: Path) -> None:
    with asking(redis_url, tmp_path, seconds=4) as here:
        question = here.asked(9942, "touch made.txt")
        here.stage.world.dispatchers[-1].stop(signal.SIGKILL)
        here.ends(9942, question, "Nobody answered: denied.")
        assert not here.made(9942, "made.txt")
        here.redis.delete(*here.redis.keys("hcli:mem:lease:*"))
        here.stage.world.start_dispatcher()
        again = here.question(9942)
        assert again.id != question.id
        here.press(9942, "Allow")
        here.ends(9942, again, "Allowed by Ada.")
        here.told(9942, "completed")
        assert here.made(9942, "made.txt")
