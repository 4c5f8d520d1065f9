"""The summary in the prompt: what is kept of it when it is cut, and what it tells is not recalled again."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dispatcher.prompt.budget import cut_summary, is_verbatim, without_sentences
from nightly.steps.summarise import _extract
from shared.ranking.extractive_summary import AS_SAID, summarise
from shared.turns.chunking import chunks_of
from shared.turns.records import Turn
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
    written = f"{head}\n\n{lines[0]}\n\nAlso said, word for word:\n- 2026-01-01 anna: {'the boiler hums ' * 20}"
    assert cut_summary(written, len(written) - 1).splitlines() == [head, "", lines[0]]
    assert cut_summary(text, len(head) + 5) == ""


def test_a_forgotten_turn_takes_its_sentences_and_not_the_summary() -> None:
    head = f"3 turns on 1 day. {AS_SAID}"
    long = "The code of the boiler is 4711 " + "and so on " * 40
    text = f"{head}\n\n- 2026-01-03 anna: {long[:200]}…\n- 2026-01-02 bert: The gate: it is blue\n- 2026-01-01 anna: We met."
    assert is_verbatim(text)
    assert not is_verbatim(text.replace(AS_SAID, "Notes written by the model x."))
    left = without_sentences(text, [long, "Hello.\nWe   met."])
    assert left == f"{head}\n\n- 2026-01-02 bert: The gate: it is blue"
    assert without_sentences(left, ["The gate: it is blue"]) == ""


@settings(max_examples=60)
@given(
    st.lists(st.text(min_size=1, max_size=700), min_size=2, max_size=6),
    st.sampled_from(["Ann", "x: y", "…", "assistant"]),
)
def test_no_sentence_of_a_forgotten_turn_is_left_whatever_it_holds(said: list[str], name: str) -> None:
    turns = [Turn(f"t{number}", "user", "9", text, NOW + number, name) for number, text in enumerate(said)]
    chunks = [chunk for turn in turns for chunk in chunks_of(turn)]
    assume(chunks)
    summary = _extract(chunks, ZoneInfo("UTC"))
    gone = [one.text for one in summarise(chunks_of(turns[0]))]
    stored = "\n".join(chunk.text for chunk in chunks_of(turns[0]))  # as a release has it
    left = without_sentences(summary, [stored])
    assert not [line for line in left.split("\n")[1:] if any(line.endswith(f": {text}") for text in gone)]
