"""Pictures leave the files of the real Claude CLI when the conversation has ended, which can be resumed even after that."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatcher.answering.retry import look_again
from dispatcher.features.media.claude_sessions import FOLDER, NO_PICTURE
from tests.support.machine import wait_for
from tests.support.processes.talk import CHAT, Talk, png, talking

PICTURES = [png(40, 64), png(41, 64)]


@pytest.fixture
def talk(redis_url: str, tmp_path: Path) -> Iterator[Talk]:
    (tmp_path / "temporary").mkdir()
    with talking(redis_url, tmp_path, TMPDIR=str(tmp_path / "temporary")) as talk:
        yield talk


def places(talk: Talk) -> set[str]:
    """The folders of this user in which a piece of one of the pictures is, as bytes or base64."""
    found = set()
    root = talk.stage.world.root
    for path in (one for one in root.rglob("*") if one.is_file()):
        content = path.read_bytes()
        for picture in PICTURES:
            piece = picture[60:300]
            if piece in content or base64.b64encode(picture)[90:300] in content:
                found.add(path.relative_to(root).parts[0])
    return found


def send_both(talk: Talk) -> str:
    files, before = [talk.stage.api.files.photo(one) for one in PICTURES], len(talk.stage.api.texts(CHAT))
    talk.stage.api.album(CHAT, [one | {"media_group_id": f"a{before}"} for one in files])
    return talk.answered(before)


def restart(talk: Talk, **more: str) -> None:
    """The list is looked at when a dispatcher starts."""
    talk.stage.world.dispatchers[-1].stop()
    talk.stage.world.environment |= more
    talk.stage.world.start_dispatcher()


def aged(talk: Talk) -> None:
    """No answer is being written in a listed session by now."""
    old = time.time() - talk.stage.world.settings().task_timeout - 120
    for entry in listed(talk):
        os.utime(entry, (old, old))


def listed(talk: Talk) -> list[Path]:
    return sorted((talk.stage.world.root / "state" / FOLDER).glob("*"))


def test_a_follow_up_sees_the_picture_and_after_new_it_is_gone(talk: Talk) -> None:
    send_both(talk)
    assert places(talk) == {".claude", "temporary"}, "the test finds what the CLI stores"
    assert len(listed(talk)) == 1
    restart(talk)
    talk.send("and the second?")
    assert '"image"' in json.dumps(talk.model.requests[-1]["messages"]), "it goes on, so it is still there"
    talk.send("/new")
    talk.stage.world.dispatchers[-1].stop()
    aged(talk)
    dying = talk.stage.world.start_dispatcher(HMEM_CRASH_AT="claude:media-removed")
    wait_for(lambda: dying.process.poll() is not None, "its death")
    assert listed(talk), "it is on the list until all is done"
    talk.stage.world.start_dispatcher()
    wait_for(lambda: not listed(talk), "the end of the list")
    assert places(talk) == set()


def test_a_picture_is_listed_first_gone_session_ttl_after_the_last_answer_and_the_session_goes_on(talk: Talk) -> None:
    (in_the_way := talk.stage.world.root / "state" / FOLDER).touch()
    assert "a file could not be written" in send_both(talk)
    assert not talk.model.requests, "it would stay in Claude's files"
    in_the_way.unlink()
    send_both(talk)
    (entry,) = listed(talk)
    old = time.time() - talk.stage.world.settings().session_ttl - 60
    os.utime(entry, (old, old))
    restart(talk)
    wait_for(lambda: not listed(talk), "the end of the list")
    assert places(talk) == set()
    assert talk.send("what was it?") == "All right."
    messages = json.dumps(talk.model.requests[-1]["messages"])
    assert messages.count(NO_PICTURE) >= 2, "resumed, with words in the place of the pictures"
    assert '"image"' not in messages
    assert talk.stage.redis.get(f"hcli:session:{CHAT}").decode() == entry.name  # type: ignore[union-attr]
    assert not listed(talk), "nothing more to remove"


def test_a_fault_of_redis_is_waited_out() -> None:
    looks = iter([ConnectionError(), RuntimeError("a defect"), asyncio.CancelledError()])

    async def look() -> float:
        raise next(looks)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(look_again("pictures", look, 0.01))
    assert not list(looks)
