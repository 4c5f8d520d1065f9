"""Partial answers: what may be shown of an answer while it is written, and who wrote it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from dispatcher.answering.conversation.partial import _shown
from dispatcher.bots.telegram.rendering import LONGEST, last_part
from dispatcher.memory.typed import tags
from shared.text.format import utf16_units
from shared.turns.records import RecordRefused
from shared.turns.signed import TEXT_CHARACTERS, PartialAnswer
from tests.servers import scripted_claude
from tests.support.day.hcli_bot import Bot
from tests.support.machine import wait_for
from tests.support.world import SECRET, World

CODE = "3f9c01d2"
ANSWER = f"""Of course, [Ann] said [1] so.

* It is **Lisbon** [GOAL {CODE}: see [the] sea | DEADLINE: friday], really
[REMEMBER {CODE}: Ann lives
in Lisbon]

Arrays: `a[0]`, [x](https://example.org) [REMEMBER: no code] [FORGET 00000000: another code]
[PREFERENCE {CODE}: short answers]
[DONE {CODE}: call [the bank]
"""


@pytest.mark.parametrize(
    "answer", [ANSWER, ANSWER.replace("[", "[REM["), f"[REM[REMEMBER {CODE}: x]EMBER {CODE}: y] z"]
)
def test_no_part_of_a_tag_is_shown_at_any_length(answer: str) -> None:
    for end in range(len(answer) + 1):
        shown = tags.without_tags_so_far(answer[:end], CODE)
        assert CODE not in shown, answer[:end]
        assert not shown.endswith(("[REMEMBER", "[GOAL", "[DON", "[F")), answer[:end]


@pytest.mark.parametrize("one", ["👨\u200d👩\u200d👧", "🇩🇪", "e\u0301"])
def test_the_end_of_a_long_answer_begins_with_a_whole_character(one: str) -> None:
    for more in range(len(one)):
        said = one * (TEXT_CHARACTERS // len(one) + 9) + "." * more
        for end in (_shown(said, CODE), last_part(said).text):
            assert end.rstrip(".").replace(one, "") == "", end[:9]
        assert utf16_units(last_part(said).text) <= LONGEST


def test_a_partial_answer_is_its_writers_and_of_its_task() -> None:
    made = PartialAnswer("-100", 7, "so far ]:2026-11-26T10:00:00+00:00", "tool", "mcp__memory__search")
    raw = made.to_json("secret", "task-1")
    assert PartialAnswer.verified("secret", "task-1", raw) == made
    changes = (b"so far", b"not so"), (b'"number":7', b'"number":8'), (b'"tool":"mcp', b'"tool":"xcp')
    changed = [*(raw.replace(*change) for change in changes), raw[:-1], b"[]", b'{"number": true, "doing": "tool"}']
    of_others = ("other", "task-1", raw), ("secret", "task-2", raw)
    for key, task, value in (*of_others, *(("secret", "task-1", one) for one in changed)):
        with pytest.raises(RecordRefused):
            PartialAnswer.verified(key, task, value)


def scripted(world: World, words: int) -> dict[str, str]:
    """A Claude that says five words, and holds after so many of them; the variables of its dispatcher."""
    (world.root / "answers.json").write_text(json.dumps({"hello": "one two three four five [REMEMBER CODE: a fact]"}))
    (world.root / "hold-after").write_text(str(words))
    return {"CLAUDE_BIN": str(Path(scripted_claude.__file__)), "HOME": str(world.root)}


def written(world: World, task: str) -> str | None:
    """What is there of an answer."""
    raw: Any = world.redis.get(f"hcli:mem:partial:{task}")
    return PartialAnswer.verified(SECRET, task, raw).text.rstrip() if raw else None


def test_what_a_dead_dispatcher_wrote_expires_and_the_next_one_goes_on(light: World) -> None:
    bot = Bot(light.redis)
    first = light.start_dispatcher(**scripted(light, 3))
    task = bot.send("hello", 9912)
    wait_for(lambda: written(light, task) == "one two three", "three words")
    assert 0 < light.redis.ttl(f"hcli:mem:partial:{task}") <= 60
    before = json.loads(light.redis.get(f"hcli:mem:partial:{task}") or b"")["number"]
    first.stop(signal.SIGKILL)
    (light.root / "hold-after").write_text("2")
    second = light.start_dispatcher(**scripted(light, 2))
    wait_for(lambda: written(light, task) == "one two", "the second attempt")
    assert json.loads(light.redis.get(f"hcli:mem:partial:{task}") or b"")["number"] > before, "the bot shows it"
    (light.root / "hold-after").unlink()
    assert bot.receive(task)["output"] == "one two three four five"
    assert not light.redis.exists(f"hcli:mem:partial:{task}")
    assert second.stop() == 0


def test_what_cannot_be_shown_while_it_is_written_is_answered_all_the_same(light: World) -> None:
    patterns = ["hcli:[^m]*", "hcli:memory:*", "hcli:mem:[^p]*"]
    light.redis.acl_setuser("deaf", enabled=True, passwords=["+deaf"], categories=["+@all"], keys=patterns, reset=True)
    try:
        url = light.url.replace("redis://", "redis://deaf:deaf@")
        running = light.start_dispatcher(**scripted(light, 99), REDIS_URL=url)
        bot = Bot(light.redis)
        task = bot.send("hello", 9912)
        assert bot.receive(task)["output"] == "one two three four five"
        assert "cannot be shown while it is written" in running.log.read_text()
        assert not light.redis.hlen("hcli:mem:busy")
        assert running.stop() == 0
    finally:
        light.redis.acl_deluser("deaf")
