"""Files that Claude makes with a tool of its own, on their way to the chat: real bot, dispatcher and CLI."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.messages_api import Reply, ToolCall
from tests.support.day.telegram_bot import wait_until
from tests.support.processes.talk import CHAT, Talk, talking


@pytest.fixture(scope="module")
def talk(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    root = tmp_path_factory.mktemp("sending")
    with talking(redis_url, root, SEND_FILES="true", CLAUDE_ALLOWED_TOOLS="Bash") as made:
        yield made


def directory(talk: Talk) -> Path:
    return talk.stage.world.root / "state" / "chats" / str(CHAT)


def will_write(talk: Talk, **files: str) -> None:
    """The model writes these files by a shell, one after the other, and then answers. (The CLI's own Write does not write what it may not read.)"""
    left = list(files.items())

    def reply(_: dict[str, Any]) -> Reply:
        if not left:
            return "Here it is."
        name, content = left.pop(0)
        path = directory(talk) / name.replace("__", ".")
        command = f"printf %s {shlex.quote(content)} > {shlex.quote(str(path))}"
        return ToolCall("Bash", {"command": command, "description": "Write a file"}, f"toolu_{len(left)}")

    talk.answer = reply


def documents(talk: Talk) -> list[tuple[str, bytes]]:
    return [one.document for one in talk.stage.api.messages(CHAT) if one.document]


def answer(talk: Talk, text: str) -> list[tuple[str, bytes]]:
    """Say it; the files that came with the answer."""
    before = len(documents(talk))
    talk.send(text)
    return documents(talk)[before:]


def test_a_file_that_claude_writes_comes_after_the_answer_and_is_remembered(talk: Talk) -> None:
    will_write(talk, rents__csv="room,rent\nattic,555\n")
    assert answer(talk, "make a table of rents") == [("rents.csv", b"room,rent\nattic,555\n")]
    shown = [one.document or one.text for one in talk.stage.api.messages(CHAT) if one.by_bot]
    assert shown == ["Here it is.", ("rents.csv", b"room,rent\nattic,555\n")]
    assert "Files that you write into your working directory" in json.dumps(talk.model.requests[-1]["system"])
    wait_until(lambda: "[file: rents.csv]" in talk.search("rents.csv"), lambda: talk.search("rents.csv"))


def test_forgetting_the_chat_leaves_nothing_of_what_was_made(talk: Talk) -> None:
    talk.answer = "Fine."
    will_write(talk, turnip__txt="a turnip")
    assert answer(talk, "make one more") == [("turnip.txt", b"a turnip")]
    assert (talk.stage.world.root / "state" / "made-files" / str(CHAT)).exists()
    done = talk.stage.world.command("hmem", "forget", f"--chat={CHAT}", "--yes", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(directory(talk).iterdir()) == []
    assert not (talk.stage.world.root / "state" / "made-files" / str(CHAT)).exists()
    assert not any(b"turnip" in (talk.stage.redis.get(key) or b"") for key in talk.stage.redis.keys("hcli:mem:media:*"))
