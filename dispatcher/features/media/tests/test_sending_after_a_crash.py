"""Files that Claude made, and a dispatcher that dies before it has answered. (No other dispatcher may take its message, so it has its own module.)"""

from __future__ import annotations

from pathlib import Path

from dispatcher.features.media.tests.test_sending import documents, will_write
from tests.support.day.telegram_bot import wait_until
from tests.support.processes.talk import CHAT, talking


def test_a_dispatcher_that_dies_before_it_has_answered_sends_all_that_was_made(redis_url: str, tmp_path: Path) -> None:
    """The second attempt writes another file; the first one's is not forgotten, and nothing comes twice."""
    root = tmp_path
    settings = {"SEND_FILES": "true", "CLAUDE_ALLOWED_TOOLS": "Bash", "HMEM_CRASH_AT": "answering:added"}
    with talking(redis_url, root, **settings) as talk:
        will_write(talk, first__txt="1")
        talk.stage.api.say(CHAT, "make a file")
        (dispatcher,) = talk.stage.world.dispatchers
        wait_until(lambda: dispatcher.process.poll() is not None, lambda: "the dispatcher's end")
        del talk.stage.world.environment["HMEM_CRASH_AT"]
        will_write(talk, second__txt="2")
        talk.stage.world.start_dispatcher()
        wait_until(lambda: len(documents(talk)) == 2, lambda: str(talk.stage.api.texts(CHAT)))
        talk.stage.quiet()
        assert documents(talk) == [("first.txt", b"1"), ("second.txt", b"2")]
