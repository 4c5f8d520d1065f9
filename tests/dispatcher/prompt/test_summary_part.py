"""The summary in the prompt: what is kept of it when it is cut, and what it tells is not recalled again."""

from __future__ import annotations

from tests.support.day.prompts import NOW, composed, hit


def test_a_summary_that_is_cut_shows_sentences_and_no_lonely_heading() -> None:
    head = "40 turns on 9 days, 2026-01-01 to 2026-02-02. Sentences as they were said, newest day first.\nOften spoken of: boiler, engineer, kayak."
    days = "".join(
        f"\n\n2026-02-{day:02}\n- anna: the boiler was looked at once more on this day" for day in range(28, 0, -1)
    )
    part, _ = composed([hit("x")], head + days, 1500).parts
    lines = part.text.splitlines()
    assert lines[0].startswith("40 turns")
    assert "Often spoken of" in part.text
    assert lines[-1].startswith("- anna")
    assert composed([], head + days, 60_000).parts[0].text == head + days


def test_each_part_of_a_summary_keeps_its_newest_lines_when_it_is_cut() -> None:
    parts = [
        f"{name}:\n"
        + "\n".join(f"- 2026-01-{day:02} anna: {name} number {day} of the boiler" for day in range(28, 0, -1))
        for name in ("Settled", "Open")
    ]
    text = "\n\n".join(["56 turns on 28 days.", *parts])
    cut = composed([hit("x")], text).parts[0].text
    assert all(f"{name}:\n- 2026-01-28 " in cut for name in ("Settled", "Open"))
    assert abs(cut.count("Settled number") - cut.count("Open number")) <= 1
    assert len(cut) / 4 > 120


def test_a_part_of_one_line_keeps_it_when_the_summary_is_cut() -> None:
    said = "Also said:\n" + "\n".join(
        f"- 2026-01-{day:02} anna: The boiler was quiet on day {day}" for day in range(28, 0, -1)
    )
    text = f"29 turns on 28 days.\n\nPlanned or open on that day:\n- 2026-01-28 anna: The car needs its inspection\n\n{said}"
    assert "The car needs its inspection" in composed([hit("x")], text, budget=700).parts[0].text


def test_what_the_summary_tells_is_not_recalled_again() -> None:
    told, other = hit("the boiler code is 4711"), hit("the garden gate is blue", NOW + 60)
    context = composed([told, other], f"2 turns.\n\nAlso said:\n- 2024-02-09 anna: {told.chunk.text}")
    assert context.text.count("4711") == 1
    assert context.used == [told, other]
    only = composed([told], f"2 turns.\n\nAlso said:\n- 2024-02-09 anna: {told.chunk.text}")
    assert ([part.name for part in only.parts], only.used, only.degraded) == (["summary"], [told], ["why"])
