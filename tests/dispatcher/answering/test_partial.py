"""Partial answers: what may be shown of an answer while it is written, and who wrote it."""

from __future__ import annotations

import pytest

from dispatcher.answering.partial import _shown
from dispatcher.memory.typed import tags
from shared.turns.partial import PARTIAL_BYTES, TEXT_CHARACTERS, PartialAnswer
from shared.turns.records import RecordRefused

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


def test_all_else_is_shown() -> None:
    whole = tags.without_tags_so_far(ANSWER, CODE)
    for words in (
        "[Ann] said [1] so",
        "**Lisbon**, really",
        "`a[0]`",
        "[REMEMBER: no code]",
        "[FORGET 00000000: another code]",
    ):
        assert words in whole
    assert "Ann lives" not in whole
    assert "bank" not in whole, "it is not closed yet"
    assert tags.without_tags_so_far(ANSWER, "") == ANSWER, "where nothing is remembered, there are no tags"


def test_of_a_long_answer_the_end_is_shown_from_a_line_on() -> None:
    lines = "".join(f"line {number}\n" for number in range(10_000))
    shown = _shown(lines, CODE)
    assert lines.endswith(shown)
    assert TEXT_CHARACTERS - 20 < len(shown) <= TEXT_CHARACTERS
    assert shown.startswith("line ")
    assert _shown("a\u2060b \ud83d", CODE) == "ab \ufffd"


def test_a_partial_answer_is_its_writers_and_of_its_task() -> None:
    made = PartialAnswer("-100", 7, "so far ]:2026-11-26T10:00:00+00:00", "tool", "mcp__memory__search")
    raw = made.to_json("secret", "task-1")
    assert PartialAnswer.verified("secret", "task-1", raw) == made
    for key, task, value in (
        ("other", "task-1", raw),
        ("secret", "task-2", raw),
        ("secret", "task-1", raw.replace(b"so far", b"not so")),
        ("secret", "task-1", raw.replace(b'"number":7', b'"number":8')),
        ("secret", "task-1", raw.replace(b'"tool":"mcp', b'"tool":"xcp')),
        ("secret", "task-1", raw[:-1]),
        ("secret", "task-1", b"[]"),
        ("secret", "task-1", b'{"number": true, "doing": "tool"}'),
    ):
        with pytest.raises(RecordRefused):
            PartialAnswer.verified(key, task, value)


def test_the_largest_one_is_read_whole() -> None:
    raw = PartialAnswer("1", 1, "\x01" * TEXT_CHARACTERS, "tool", "\x01" * 80).to_json("secret", "task-1")
    assert len(raw) < PARTIAL_BYTES
