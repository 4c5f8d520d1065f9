"""What the Claude CLI and its provider refuse for a while, or because of our memory: the message is answered all the same."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.machine import wait_for
from tests.support.world import STAND_IN, World

#: A CLI that meets one trouble at each call, from a file, and is the stand-in when there are none left.
TROUBLED = f"""#!{sys.executable}
import json, os, pathlib, sys
troubles = pathlib.Path(os.environ["TROUBLES"])
left = json.loads(troubles.read_text())
if "-p" not in sys.argv or not left:
    os.execv(sys.executable, [sys.executable, {str(STAND_IN)!r}, *sys.argv[1:]])
troubles.write_text(json.dumps(left[1:]))
if "output" in left[0] and "--session-id" in sys.argv:  # it has asked, so the session exists
    sys.path.insert(0, {str(STAND_IN.parent)!r})
    import stand_in_claude
    stand_in_claude.session_file(sys.argv[sys.argv.index("--session-id") + 1]).touch()
print(left[0].get("output", ""))
print(left[0].get("errors", ""), file=sys.stderr)
sys.exit(1)
"""
BUSY = {"errors": "Error: Session ID 6f1e1c9e-53a1-4a51-9d05-30f1a4c3b1a7 is already in use."}
NOT_PAID = {"output": json.dumps({
    "type": "result", "is_error": True, "api_error_status": 400,
    "result": "API Error: 400 Third-party apps now draw from your extra usage, not your plan limits.",
})}  # fmt: skip


@pytest.fixture
def troubled(light: World) -> World:
    program, troubles = light.root / "troubled-claude", light.root / "troubles"
    program.write_text(TROUBLED)
    program.chmod(0o755)
    troubles.write_text("[]")
    light.environment |= {"CLAUDE_BIN": str(program), "CLAUDE_ENV": "TROUBLES", "TROUBLES": str(troubles)}
    return light


def answer(world: World, task: str, message: str, *troubles: dict[str, str]) -> str:
    Path(world.environment["TROUBLES"]).write_text(json.dumps(troubles))
    world.enqueue(task, message)
    wait_for(lambda: world.redis.exists(f"hcli:results:{task}"), "the answer")
    return str(json.loads(world.redis.get(f"hcli:results:{task}") or b"")["output"])


def test_a_busy_session_is_waited_for_and_a_memory_that_the_provider_refuses_is_left_out(troubled: World) -> None:
    troubled.say("old", "the parrot is called Alba")
    troubled.night()
    dispatcher = troubled.start_dispatcher()
    try:
        assert "Alba" in answer(troubled, "t1", "How is the parrot called?")
        session = troubled.redis.get("hcli:session:9912")
        assert "stand-in" in answer(troubled, "t2", "And the dog?", BUSY)
        assert troubled.redis.get("hcli:session:9912") == session
        said = answer(troubled, "t3", "How is the parrot called?", NOT_PAID)
        assert "stand-in" in said
        assert "Alba" not in said
        assert "my owner has to look at it" in answer(troubled, "t4", "How is the parrot called?", NOT_PAID, NOT_PAID)
        troubled.redis.delete("hcli:session:9912")  # /new
        anew = answer(troubled, "t5", "How is the parrot called?", NOT_PAID)
        assert "stand-in" in anew, "the refused question has begun its session, so this one has another"
        assert "Alba" not in anew
        assert "stand-in" in answer(troubled, "t6", "And the dog?")
    finally:
        dispatcher.stop()
