"""The summary in the prompt: what is kept of it when it is cut, and what it tells is not recalled again."""

from __future__ import annotations

from dispatcher.prompt.summary_part import is_as_said, without_sentences
from shared.ranking.extractive_summary import AS_SAID
from tests.support.day.prompts import NOW, composed, hit


def test_a_summary_that_is_cut_keeps_its_newest_lines() -> None:
    head = "40 turns on 9 days, 2026-01-01 to 2026-02-02: anna (40). As they were said, newest first."
    lines = [f"- 2026-02-{day:02} anna: the boiler was looked at once more on this day" for day in range(28, 0, -1)]
    text = "\n".join([head, "", *lines])
    part, _ = composed([hit("x")], text, 1500).parts
    shown = part.text.splitlines()
    assert shown[0] == head
    assert 5 < len(shown) < len(lines)
    assert shown[2:] == lines[: len(shown) - 2]
    assert composed([], text, 60_000).parts[0].text == text


def test_a_forgotten_turn_takes_its_sentences_and_not_the_summary() -> None:
    head = f"3 turns on 1 day. {AS_SAID}"
    long = "The code of the boiler is 4711 " + "and so on " * 40
    text = f"{head}\n\n- 2026-01-03 anna: {long[:200]}…\n- 2026-01-02 bert: The gate: it is blue\n- 2026-01-01 anna: We met."
    assert is_as_said(text)
    assert not is_as_said(text.replace(AS_SAID, "Notes written by the model x."))
    left = without_sentences(text, [long, "Hello.\nWe   met."])
    assert left == f"{head}\n\n- 2026-01-02 bert: The gate: it is blue"
    assert without_sentences(left, ["The gate: it is blue"]) == ""


def test_what_the_summary_tells_is_not_recalled_again() -> None:
    told, other = hit("the boiler code is 4711"), hit("the garden gate is blue", NOW + 60)
    context = composed([told, other], f"2 turns.\n\nAlso said:\n- 2024-02-09 anna: {told.chunk.text}")
    assert context.text.count("4711") == 1
    assert context.used == [told, other]
    only = composed([told], f"2 turns.\n\nAlso said:\n- 2024-02-09 anna: {told.chunk.text}")
    assert ([part.name for part in only.parts], only.used, only.degraded) == (["summary"], [told], ["why"])
