"""Files that Claude makes in the chat's directory: which of them are sent, and what a hostile directory cannot make us read."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
from pathlib import Path
from typing import Any, cast

import pytest

from dispatcher.answering.turn import ForAnswer
from dispatcher.features.media import made_files
from dispatcher.features.media.made_files import MadeFiles, clean_name
from shared.system.files import safe_name
from tests.support.world import World

CHAT, NOTHING = "9912", ForAnswer([])


class Stored(dict[str, bytes]):
    """Stands for the store in Redis."""

    async def put(self, content: bytes) -> str:
        name = hashlib.sha256(content).hexdigest()
        self[name] = content
        return name


class Directory:
    """The directory of a chat, and what would be sent of it."""

    def __init__(self, world: World) -> None:
        self.store = Stored()
        self.made_files = MadeFiles(world.root / "state", cast(Any, self.store))
        self.path = world.root / "state" / "chats" / safe_name(CHAT)
        self.path.mkdir(parents=True)
        self.path.parent.parent.chmod(0o700)

    def begin(self, task: str) -> None:
        asyncio.run(self.made_files.note(CHAT, task))

    def made(self, task: str) -> ForAnswer:
        return asyncio.run(self.made_files.made(CHAT, task))

    def names(self, task: str) -> list[str]:
        return [str(one.name) for one in self.made(task).files]

    def write(self, name: str, content: bytes = b"words") -> Path:
        path = self.path / name
        path.write_bytes(content)
        return path


@pytest.fixture
def directory(light: World) -> Directory:
    return Directory(light)


def test_what_is_new_or_changed_is_sent_and_nothing_else(directory: Directory) -> None:
    directory.write("old.txt")
    directory.begin("t1")
    assert directory.made("t1") == NOTHING
    directory.write("report.csv", b"a,b\n")
    (file,) = directory.made("t1").files
    assert (file.kind, file.name, file.size) == ("document", "report.csv", 4)
    assert directory.store[file.sha256] == b"a,b\n"
    assert directory.names("t1") == ["report.csv"], "may be repeated"
    directory.write("report.csv", b"")  # as a program would that Claude has left running
    directory.begin("t2")
    assert directory.made("t2") == NOTHING, "what changed between the answers is not this answer's"
    directory.write("old.txt", b"other words")
    assert directory.names("t2") == ["old.txt"]


def test_a_task_that_runs_again_is_compared_with_what_was_there_before_it(directory: Directory) -> None:
    directory.begin("t1")
    directory.write("made-before-the-crash.txt")
    directory.begin("t1")
    assert directory.names("t1") == ["made-before-the-crash.txt"]


def test_only_plain_files_are_read(directory: Directory, light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = light.root / "secret.txt"
    secret.write_text("SECRET")
    directory.begin("t1")
    (directory.path / "link.txt").symlink_to(secret)
    (directory.path / "relative.txt").symlink_to("../../../secret.txt")
    (directory.path / "hard.txt").hardlink_to(secret)
    (directory.path / "null").symlink_to("/dev/zero")
    (directory.path / "folder").mkdir()
    (directory.path / "folder" / "inner.txt").write_text("inner")
    (directory.path / ".hidden").write_text("hidden")
    os.mkfifo(directory.path / "pipe")
    listening = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(directory.path)  # the longest path of a socket is short
    listening.bind("socket")
    listening.close()
    directory.write("empty.txt", b"")
    directory.write("fine.txt")
    made = directory.made("t1")
    assert [one.name for one in made.files] == ["fine.txt"]
    said = "\n".join(made.below)
    for name in ("link.txt", "relative.txt", "hard.txt", "null", "pipe", "socket"):
        assert f"{name} is not sent: it is not a regular file." in said
    assert "empty.txt is not sent: it is empty." in said
    assert "SECRET" not in said
    assert len(directory.store) == 1


def test_a_directory_that_is_a_link_is_not_entered(directory: Directory, light: World) -> None:
    elsewhere = light.root / "elsewhere"
    elsewhere.mkdir()
    directory.begin("t1")
    (elsewhere / "a.txt").write_text("SECRET")
    directory.path.rmdir()
    directory.path.symlink_to(elsewhere)
    assert directory.made("t1") == NOTHING


def test_the_limits_are_told(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_files, "MOST_BYTES", 1_000)
    directory = Directory(light)
    directory.begin("t1")
    for number in range(2):
        path = directory.write(f"{number}.bin", b"x" * 600)
        os.utime(path, (number, number))
    made = directory.made("t1")
    assert [one.name for one in made.files] == ["0.bin"]
    assert made.below == ["1.bin is not sent: it is larger than what is left of the 0.001 MB that an answer may have."]


@pytest.mark.parametrize(("name", "shown"), [
    ("report.csv", "report.csv"), ("a\nb.txt", "ab.txt"), ("\u202efdp.exe", "fdp.exe"), ("  two  words .txt ", "two words .txt"), ("...", "file"),
    ("x" * 230 + ".csv", "x" * 195 + "….csv"), (os.fsdecode(b"\xff.txt"), "\ufffd.txt"),
])  # fmt: skip
def test_names_are_cleaned(name: str, shown: str) -> None:
    assert clean_name(name) == shown
