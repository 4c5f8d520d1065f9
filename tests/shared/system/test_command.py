"""What a command prints when it fails."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from redis import AuthenticationError

from shared.system.command import translate
from tests.support.world import REPOSITORY

RAISING = """
from shared.system.command import application, run_command
app = application()
@app.command()
def fail() -> None:
    private = "the door code is 4711"
    raise RuntimeError("a bug")
run_command(app)
"""


def test_a_bug_ends_in_a_plain_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", RAISING], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last)")
    assert done.stderr.endswith("RuntimeError: a bug\n")
    assert "│" not in done.stderr


def test_the_commands_of_the_night_do_the_same() -> None:
    shown = "import nightly.cli.main as it; print(it.app.pretty_exceptions_enable)"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


def test_a_redis_that_wants_a_password_and_a_disk_that_is_read_only_are_said_in_plain_words() -> None:
    for words in (
        "HELLO must be called with the client already authenticated, otherwise …",
        "Authentication required.",
    ):
        assert str(translate(AuthenticationError(words))).startswith(
            "Redis requires a password, and REDIS_URL has none. "
        )
    assert "Check user and password" in str(translate(AuthenticationError("invalid username-password pair")))
    assert "Mount it for writing" in str(translate(OSError(errno.EROFS, "Read-only file system", "/archive")))


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        ("raise InvalidInput('CHAT is missing. Give one.')", "CHAT is missing. Give one.\n"),
        ("open('/nowhere/at/all')", "/nowhere/at/all: No such file or directory. Correct that, then do it again.\n"),
        ("import os; os.lseek(0, -1, 9)", "A file operation failed in fail (<string>, line 8): Invalid argument."),
        (
            "import errno, pathlib\n    from shared.system.files import atomic_writer\n    with atomic_writer(pathlib.Path('here')) as file:"
            "\n        raise OSError(errno.ENOSPC, 'No space')",
            "here: the disk is full. hmem doctor names the disk",
        ),
    ],
)
def test_an_error_is_a_sentence_that_names_the_thing(failing: str, said: str, tmp_path: Path) -> None:
    code = RAISING.replace('raise RuntimeError("a bug")', f"from shared.errors import InvalidInput\n    {failing}")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode in (15, 24)
    assert done.stderr.startswith(said)


def test_help_shows_no_names_of_pythons_types() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from nightly.cli.main import main; main()", "export-archive", "--help"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "--chat" in done.stdout
    assert not re.search(r"<(bool|str|list|path)", done.stdout)
