"""What a command prints when it fails."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from redis import AuthenticationError

from nightly.cli.main import app as night
from shared.system.command import translate
from shared.system.files import atomic_writer

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
    assert not night.pretty_exceptions_enable, "the same"


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


def _fills_the_disk() -> None:
    with atomic_writer(Path("here")):
        raise OSError(errno.ENOSPC, "No space")


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        (
            Path("/nowhere/at/all").read_bytes,
            "/nowhere/at/all: No such file or directory. Correct that, then do it again.",
        ),
        (lambda: os.lseek(0, -1, 9), "A file operation failed in <lambda> (" + __file__),
        (_fills_the_disk, "here: the disk is full. hmem doctor names the disk"),
    ],
)
def test_an_error_is_a_sentence_that_names_the_thing(
    failing: Callable[[], object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError) as caught:
        failing()
    assert str(translate(caught.value)).startswith(said)


def test_help_shows_no_names_of_pythons_types() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from nightly.cli.main import main; main()", "export-archive", "--help"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "--chat" in done.stdout
    assert not re.search(r"<(bool|str|list|path)", done.stdout)
