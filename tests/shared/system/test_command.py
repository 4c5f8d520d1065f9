"""What a command prints when it fails."""

from __future__ import annotations

import subprocess
import sys

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
