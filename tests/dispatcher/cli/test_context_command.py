"""`hmem context` in a fresh process: nothing is left out because that is slow, and it says what a running dispatcher has time for."""

from __future__ import annotations

import json
import time
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from dispatcher.memory.day.memory import DayMemory
from shared.turns.records import Task
from tests.support.world import REPOSITORY, World

SLOW_STORE = """
import time
from dispatcher.memory.typed.memories import Remembering
_held = Remembering.of_chat
Remembering.of_chat = lambda self, *more: time.sleep(0.15) or _held(self, *more)
"""


def kept(world: World) -> World:
    world.say("t1", "The boiler code is 4711.")
    world.command("hmem-night", "run")
    world.command("hmem", "memory", "add", "9912", "The cat is called Mimi.")
    return world


@pytest.mark.slow
def test_no_fact_is_left_out_because_a_fresh_process_is_slow(world: World) -> None:
    """1 ms is less than any first lookup takes, as 300 ms are on a busy machine."""
    kept(world)
    done = world.command("hmem", "context", "9912", "what is the boiler code?", MEMORY_DEADLINE_MS="1")
    assert "Mimi" in done.stdout
    assert "4711" in done.stdout
    before, limit, _ = done.stderr.partition("a running dispatcher waits at most 1 ms (MEMORY_DEADLINE_MS)")
    assert limit
    assert "did not answer" not in before

    shown = json.loads(world.command("hmem", "context", "9912", "what?", "--json", MEMORY_DEADLINE_MS="1").stdout)
    assert "Mimi" in shown["text"]
    assert not [reason for reason in shown["degraded"] if "within" in reason]
    assert "waits at most 1 ms" in shown["notes"][0]


@pytest.mark.slow
def test_what_a_dispatcher_would_leave_out_is_said_where_it_was_tried(world: World) -> None:
    """A store that takes longer than the limit takes longer for everybody."""
    kept(world)
    hook = world.root / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(SLOW_STORE)
    slow: dict[str, Any] = {"PYTHONPATH": f"{hook}:{REPOSITORY}", "MEMORY_DEADLINE_MS": "100"}
    done = world.command("hmem", "context", "9912", "what is the boiler code?", **slow)
    assert "Mimi" in done.stdout
    left_out = "would have left out: no memory of the day: it did not answer within 100 ms"
    assert f"a second try within that limit {left_out}" in done.stderr
    patient = world.command("hmem", "context", "9912", "what?", "--json", MEMORY_DEADLINE_MS="59000")
    assert json.loads(patient.stdout)["notes"] == []


@pytest.mark.slow
def test_it_shows_what_a_dispatcher_injects(world: World) -> None:
    """Byte for byte: the stand-in answers with the prompt that it was given."""
    kept(world)
    asked = "what is the boiler code, and what is the cat called?"
    shown = json.loads(world.command("hmem", "context", "9912", asked, "--json", MEMORY_DEADLINE_MS="1").stdout)["text"]
    world.start_dispatcher(MEMORY_DEADLINE_MS="10000")
    given = world.command("hmem", "talk", "9912", "--say", asked).stdout
    assert "Mimi" in shown
    assert shown in given


def test_in_a_group_it_shows_what_somebody_would_be_given(light: World, tmp_path: Path) -> None:
    with closing(DayMemory(light.settings(), nullcontext)) as day:
        day.open()
        for user, name, text in (("8", "Ann", "likes coffee"), ("9", "Bob", "likes tea"), ("10", "Bob", "likes milk")):
            day.acting.add(Task(f"t{user}", "-100", "", user, name=name), text, time.time())

    def asked(*who: str) -> str:
        done = light.command("hmem", "context", *who, "--json", "--", "-100", "hello", check=False)
        return done.stderr if done.returncode else str(json.loads(done.stdout)["lines"])

    assert "Of Ann (user id 8), who asks now" in asked("--as", "ann")
    assert "likes milk" in asked("--as", "10")
    assert "coffee" not in asked("--as", "9") + asked()
    for who, there in (("Bob", 2), ("Carl", 0)):
        assert (
            f"{there} people called {who} are noted in chat -100. Give a user id, of: Ann (8), Bob (10), Bob (9)."
            in asked("--as", who)
        )
    light.say("t1", "the boiler hums", chat_id="-100")
    light.night()
    batch = tmp_path / "batch.jsonl"
    rows = [{"qid": 1, "user_id": 9}, {"qid": 2}]
    batch.write_text("".join(json.dumps({"chat_id": "-100", "question": "boiler?"} | row) + "\n" for row in rows))
    answers = light.command("hmem", "context", "--batch", str(batch), "--as", "Ann").stdout.splitlines()
    for answer, who in zip(map(json.loads, answers), ("(user id 9)", "(user id 8)"), strict=True):
        assert f"{who}, who asks now" in answer["text"]
        assert "\n".join(line["text"] for line in answer["lines"]) == answer["text"]
        assert "the boiler hums" in answer["text"]
