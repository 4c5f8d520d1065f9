"""A failed answer is a failure of `hmem talk`, too: an exit code of its own, and `error` in what scripts read."""

from __future__ import annotations

import json

import pytest

from shared.turns.signed import Result
from tests.support.machine import script
from tests.support.world import SECRET, World

FAILING = "#!/bin/sh\necho 'API Error: 500 overloaded' >&2\nexit 1\n"


def test_a_failed_answer_ends_with_its_own_code(light: World) -> None:
    light.start_dispatcher(CLAUDE_BIN=str(script(light.root / "claude", FAILING)))
    done = light.command("hmem", "talk", "9912", "--say", "are you there?", check=False)
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr.startswith("Sorry, I could not answer that: ")
    done = light.command("hmem", "talk", "9912", "--say", "and now?", "--json", check=False)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["error"]) == (69, True)
    assert "could not answer" in answer["output"]


@pytest.mark.parametrize(
    ("field", "error"), [({}, False), ({"error": True}, True), ({"error": "yes"}, False), ({"error": None}, False)]
)
def test_the_field_changes_neither_the_answer_nor_its_signature(field: dict[str, object], error: bool) -> None:
    """h-cli's dispatcher writes none, h-cli's bot reads none; whoever puts one there changes only how `hmem talk` ends."""
    signed = Result.sign(SECRET, "t1", "yes", "2026-01-01T00:00:00+00:00")
    assert b"error" not in signed.to_json()
    read = Result.verified(SECRET, "t1", json.dumps(json.loads(signed.to_json()) | field).encode())
    assert (read.output, read.error) == ("yes", error)
