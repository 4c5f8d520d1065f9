"""Tags in the model's answer: what is one, what stays text, and what the answer looks like without them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dispatcher.tags import INSTRUCTIONS, MOST_CHARACTERS, MOST_TAGS, Parsed, Tag, TagKind, parse
from shared.text import tokens


def said(parsed: Parsed) -> list[tuple[str, str]]:
    return [(tag.kind.value, tag.text) for tag in parsed.tags]


@pytest.mark.parametrize(
    ("answer", "tag"),
    [
        ("[REMEMBER: has a dog]", Tag(1, TagKind.REMEMBER, "has a dog")),
        ("[GOAL: run 5 km]", Tag(1, TagKind.GOAL, "run 5 km")),
        ("[GOAL: run | DEADLINE: next Friday]", Tag(1, TagKind.GOAL, "run", "next Friday")),
        ("[GOAL: run|deadline : завтра ]", Tag(1, TagKind.GOAL, "run", "завтра")),
        ("[GOAL: a | b | DEADLINE: 2026-12-01]", Tag(1, TagKind.GOAL, "a | b", "2026-12-01")),
        ("[GOAL: run | DEADLINE: ]", Tag(1, TagKind.GOAL, "run")),
        ("[DONE: run]", Tag(1, TagKind.DONE, "run")),
        ("[FORGET: dog]", Tag(1, TagKind.FORGET, "dog")),
        ("[PREFERENCE: short answers]", Tag(1, TagKind.PREFERENCE, "short answers")),
        ("[REMEMBER : \t Москва ]", Tag(1, TagKind.REMEMBER, "Москва")),
        ("[REMEMBER:x]", Tag(1, TagKind.REMEMBER, "x")),
        ("[REMEMBER: list [1, [2]] is odd]", Tag(1, TagKind.REMEMBER, "list [1, [2]] is odd")),
        ("[REMEMBER: types `]` to close]", Tag(1, TagKind.REMEMBER, "types `]` to close")),
        ("[REMEMBER: a | DEADLINE: b]", Tag(1, TagKind.REMEMBER, "a | DEADLINE: b")),
        ("[REMEMBER: says [GOAL: x] often]", Tag(1, TagKind.REMEMBER, "says [GOAL: x] often")),
        (f"[REMEMBER: {'x' * MOST_CHARACTERS}]", Tag(1, TagKind.REMEMBER, "x" * MOST_CHARACTERS)),
    ],
)  # fmt: skip
def test_a_tag_is_read_and_removed(answer: str, tag: Tag) -> None:
    assert parse(answer) == Parsed("", (tag,))
    assert parse(f"Noted.\n{answer}\n") == Parsed("Noted.\n", (tag,))


@pytest.mark.parametrize(
    "answer",
    [
        "[LEARN: x]",
        "[remember: x]",
        "[Remember: x]",
        "[ REMEMBER: x]",
        "[REMEMBER x]",
        "[REMEMBERS: x]",
        "[REMEMBER:]",
        "[REMEMBER:   ]",
        "[GOAL: | DEADLINE: tomorrow]",
        "[REMEMBER: x",
        "REMEMBER: x]",
        "[REMEMBER: x\n]",
        "[REMEMBER: x\r]",
        "[REMEMBER: x\u2028]",
        "[REMEMBER: a [ b]",
        f"[REMEMBER: {'x' * (MOST_CHARACTERS + 1)}]",
        "[[REMEMBER: x]]",
        "[see [REMEMBER: x] there]",
        "[REMEMBER: x](https://example.org)",
    ],
)
def test_what_is_malformed_stays_text(answer: str) -> None:
    for text in (answer, f"{answer} ", f"\n\n  one  two {answer}\n\n\n"):
        assert parse(text) == Parsed(text)


@pytest.mark.parametrize(
    "answer",
    [
        "```\n[REMEMBER: x]\n```",
        "```\n[REMEMBER: x]",
        "``` text\n[REMEMBER: x]\n~~~\n[REMEMBER: x]\n```\n",
        "~~~~\n[REMEMBER: x]\n~~~\n[REMEMBER: x]\n~~~~",
        "- item\n  ```\n  [REMEMBER: x]\n  ```",
        "1. ```\n   [REMEMBER: x]\n   ```",
        "``` [REMEMBER: x]\n```",
        "`[REMEMBER: x]`",
        "``[REMEMBER: x]``",
        "`` ` [REMEMBER: x] ``",
        "a `code [REMEMBER: x] code` b",
        "`over\n[REMEMBER: x]\nlines`",
        "a ` `` b [REMEMBER: x] `",
        r"\` `[REMEMBER: x]`",
        "> [REMEMBER: x]",
        "> a\n> b [REMEMBER: x]\n",
        "  > [REMEMBER: x]",
        "- > [REMEMBER: x]",
        "    [REMEMBER: x]",
        "\t[REMEMBER: x]",
        "text\n\n    code\n\n    [REMEMBER: x]",
        "text\n\n\t[REMEMBER: x]\n",
        '"[REMEMBER: x]"',
        "“[REMEMBER: x]”",
        "„[REMEMBER: x]“",
        "«[REMEMBER: x]»",
        "'[REMEMBER: x]'",
        "‘[REMEMBER: x]’",
        'write "[REMEMBER: x]."',
        '"[REMEMBER: x] [GOAL: y]"',
        r"\[REMEMBER: x]",
        r"\\\[REMEMBER: x]",
        r"[REMEMBER: x\]",
    ],
)
def test_what_is_shown_stays_text(answer: str) -> None:
    assert parse(answer) == Parsed(answer)
    assert parse(f"Before.\n\n{answer}") == Parsed(f"Before.\n\n{answer}")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("```\ncode\n```\n[REMEMBER: x]", "```\ncode\n```"),
        ("~~~\n```\n~~~\n[REMEMBER: x]", "~~~\n```\n~~~"),
        ("`code` [REMEMBER: x] `code`", "`code` `code`"),
        ("a ` alone [REMEMBER: x]", "a ` alone"),
        ("a ` alone\n\nb ` [REMEMBER: x]", "a ` alone\n\nb `"),
        (r"\`[REMEMBER: x]`", r"\``"),
        ("```a` no fence\n[REMEMBER: x]", "```a` no fence"),
        ("> quoted\n\n[REMEMBER: x]", "> quoted"),
        ("a list\n    [REMEMBER: x]", "a list"),
        ('say "hello" [REMEMBER: x]', 'say "hello"'),
        ('"[REMEMBER: x] and', '" and'),
        (r"\\[REMEMBER: x]", r"\\"),
        ("use [ and [REMEMBER: x]", "use [ and"),
        ("- [x] done [REMEMBER: x]", "- [x] done"),
    ],
)
def test_beside_code_and_quotes_it_is_a_tag(answer: str, text: str) -> None:
    assert parse(answer) == Parsed(text, (Tag(1, TagKind.REMEMBER, "x"),))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("Done. [GOAL: x]", "Done."),
        ("Done.[GOAL: x]", "Done."),
        ("[GOAL: x] Done.", "Done."),
        ("I will [GOAL: x] do it", "I will do it"),
        ("I noted it [GOAL: x].", "I noted it."),
        ("好的[GOAL: x]再见", "好的再见"),
        ("two  spaces [GOAL: x] stay  here\n\n\nand lines", "two  spaces stay  here\n\n\nand lines"),
        ("a\n\n[GOAL: x]\n\nb", "a\n\nb"),
        ("a\n[GOAL: x]\nb", "a\nb"),
        ("a\n\n[GOAL: x]\nb", "a\n\nb"),
        ("a\r\n\r\n[GOAL: x]\r\n\r\nb\r\n", "a\r\n\r\nb\r\n"),
        ("[GOAL: x]\n\na", "a"),
        ("a\n\n\n[GOAL: x]\n", "a\n"),
        ("a\n\n\n[GOAL: x]", "a"),
        ("a\n\n[GOAL: x]\n[GOAL: y]\n\n[GOAL: z]", "a"),
        ("a\n\n- [GOAL: x]\n* [GOAL: y]\n3. [GOAL: z]\n", "a\n"),
        ("a\n**[GOAL: x]**", "a"),
        ("a [GOAL: x] [GOAL: y] b", "a b"),
        ("a [GOAL: x][GOAL: y], b", "a, b"),
        ("  [GOAL: x] a", "  a"),
    ],
)
def test_no_gap_is_left(answer: str, text: str) -> None:
    assert parse(answer).text == text


def test_tags_are_numbered_in_order() -> None:
    parsed = parse("A [GOAL: one] B\n[DONE: two]\n`[GOAL: no]`\n[REMEMBER: three]")
    assert [(tag.number, tag.text) for tag in parsed.tags] == [(1, "one"), (2, "two"), (3, "three")]
    assert parsed.text == "A B\n`[GOAL: no]`"


def test_more_than_the_most_stay_text_and_are_named() -> None:
    lines = [f"[REMEMBER: fact {number}]" for number in range(1, MOST_TAGS + 4)]
    parsed = parse("Hello\n" + "\n".join(lines))
    assert [tag.number for tag in parsed.tags] == list(range(1, MOST_TAGS + 1))
    assert [tag.text for tag in parsed.ignored] == ["fact 21", "fact 22", "fact 23"]
    assert [tag.number for tag in parsed.ignored] == [21, 22, 23]
    assert parsed.text == "Hello\n" + "\n".join(lines[MOST_TAGS:])


@pytest.mark.parametrize(
    "answer",
    [
        "[GOAL: a]```\n```\n[REMEMBER: x]\n```",
        "[GOAL: a]> foo `\nbar [REMEMBER: b] `",
        "1[GOAL: a]. ```\n```\n[REMEMBER: x]\n```",
    ],
)
def test_if_removing_would_make_a_tag_of_what_is_shown_nothing_is_removed(answer: str) -> None:
    parsed = parse(answer)
    assert (parsed.text, parsed.tags) == (answer, ())
    assert [tag.text for tag in parsed.ignored] == ["a"]


PIECES = st.sampled_from([
    "[REMEMBER: a]", "[GOAL: b | DEADLINE: c]", "[DONE: d]", "[REMEMBER", "[FORGET:", ": e]", "[", "]", "`", "``", "```", "~~~", "> ", "    ",
    "\t", "\n", "\n", "\n\n", "\r\n", " ", "text", '"', "“", "”", "'", "\\", "- ", "1. ", ".", "(", ")", "*", "é", "\u2028", "\x85",
])  # fmt: skip
ANSWERS = st.one_of(st.lists(PIECES, max_size=40).map("".join), st.text(max_size=60))


@settings(max_examples=1500, deadline=None)
@given(ANSWERS)
@example("[REMEMBER [GOAL: x] : y]")
@example("[REMEM[GOAL: x]BER: y]")
@example("\n    code\n[GOAL: x]\n    foo `\nbar [REMEMBER: y] `")
def test_nothing_is_left_to_parse(answer: str) -> None:
    parsed = parse(answer)
    again = parse(parsed.text)
    assert [tag.text for tag in (*again.tags, *again.ignored)] == [tag.text for tag in parsed.ignored]
    if not parsed.tags:
        assert parsed.text == answer


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(["\n", " ", "word", "\n\n", "`code`", "> quote\n", ". "]), max_size=12))
def test_the_texts_of_removed_tags_never_remain(words: list[str]) -> None:
    answer = "".join(f"{word}[REMEMBER: secret{number}x]" for number, word in enumerate(words))
    parsed = parse(answer)
    assert all(tag.text not in parsed.text for tag in parsed.tags)
    seen = [number for number in range(len(words)) if f"secret{number}x" in parsed.text]
    assert len(seen) + len(parsed.tags) == len(words)
    kept = parsed.text
    for number in seen:
        kept = kept.replace(f"[REMEMBER: secret{number}x]", "")
    assert "".join(kept.split()) == "".join("".join(words).split())


@given(st.text(st.characters(exclude_characters="[")))
def test_text_without_a_bracket_is_unchanged(answer: str) -> None:
    assert parse(answer) == Parsed(answer)


HOSTILE: list[tuple[str, Callable[[int], str]]] = [
    ("brackets", lambda n: "[" * n),
    ("nested", lambda n: "[" * (n // 2) + "]" * (n // 2)),
    ("openings", lambda n: "[REMEMBER: " * (n // 11)),
    ("backticks", lambda n: "`" * n),
    ("rows", lambda n: "".join("`" * (1 + at % 40) + " " for at in range(n // 21))),
    ("pairs", lambda n: "` " * (n // 2)),
    ("backslashes", lambda n: "\\" * n + "["),
    ("spaces", lambda n: "[GOAL: x]" + " " * n + "x"),
    ("spaces in a tag", lambda n: "[GOAL" + " " * n + ": x]"),
    ("bars", lambda n: "[GOAL: " + "| " * (n // 2) + "]"),
    ("fences", lambda n: "`" * (n // 2) + "a" * (n // 2) + "`"),
    ("lists", lambda n: "- " * (n // 2)),
    ("lines", lambda n: "\n" * n + "[GOAL: x]" + "\n" * n),
    ("quotes", lambda n: "“[GOAL: x] " * (n // 11)),
    ("adjacent", lambda n: "[GOAL: x]" * (n // 9)),
]


@pytest.fixture
def no_collector() -> Iterator[None]:
    """No garbage collection: it walks the whole test run's objects, and more often for the longer answer."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(("name", "make"), HOSTILE, ids=[name for name, _ in HOSTILE])
def test_time_grows_with_the_length(name: str, make: Callable[[int], str], no_collector: None) -> None:
    prefix = "[GOAL: y]\n"  # or nothing would be looked at where there is no tag

    def seconds(size: int) -> float:
        answer = prefix + make(size)
        began = time.process_time()
        parse(answer)
        return time.process_time() - began

    # 10 times the input; quadratic would be 100 times. The best of several runs each, because other work on the machine only adds. The
    # constant keeps clock ticks of tiny runs out.
    small = large = float("inf")
    for _ in range(12):
        small, large = min(small, seconds(10_000)), min(large, seconds(100_000))
        if large <= 15 * small + 0.003:
            return
    pytest.fail(f"{large:.4f} s for 100,000 characters, {small:.4f} s for 10,000")


def test_the_instructions_are_short_and_name_every_kind() -> None:
    assert tokens(INSTRUCTIONS) < 170
    assert all(f"[{kind}:" in INSTRUCTIONS for kind in TagKind)
    assert "LEARN" not in INSTRUCTIONS
    assert parse(INSTRUCTIONS).tags == (), "a model that repeats them keeps nothing by it"
    assert {tag.kind for tag in parse(INSTRUCTIONS.replace("`", "")).tags} == set(TagKind)
