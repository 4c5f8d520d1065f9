"""Tags in the model's answer: what is one, what stays text, and what the answer looks like without them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.memory.typed import tags
from dispatcher.memory.typed.tags import MOST_CHARACTERS, MOST_TAGS, Parsed, Tag, TagKind
from shared.text.marks import TAG_WORDS, harmless
from shared.turns.records import Task, loads_object

CODE = "c0de"


def parse(answer: str) -> Parsed:
    return tags.parse(answer, CODE)


@pytest.mark.parametrize(
    ("answer", "tag"),
    [
        ("[REMEMBER c0de: has a dog]", Tag(1, TagKind.REMEMBER, "has a dog")),
        ("[GOAL c0de: run 5 km]", Tag(1, TagKind.GOAL, "run 5 km")),
        ("[GOAL c0de: run | DEADLINE: next Friday]", Tag(1, TagKind.GOAL, "run", {"DEADLINE": "next Friday"})),
        ("[GOAL c0de: run|deadline : завтра ]", Tag(1, TagKind.GOAL, "run", {"DEADLINE": "завтра"})),
        ("[GOAL c0de: a | b | DEADLINE: 2026-12-01]", Tag(1, TagKind.GOAL, "a | b", {"DEADLINE": "2026-12-01"})),
        ("[GOAL c0de: run | DEADLINE: ]", Tag(1, TagKind.GOAL, "run")),
        ("[GOAL c0de: run | DEADLINE: Friday | PRIORITY: 2]", Tag(1, TagKind.GOAL, "run", {"DEADLINE": "Friday", "PRIORITY": "2"})),
        ("[GOAL c0de: run | priority: 3]", Tag(1, TagKind.GOAL, "run", {"PRIORITY": "3"})),
        ("[REMEMBER c0de: flies on 14 Nov | REPLACES: 12 | about: Lena | ON: 2026-11-14]",
         Tag(1, TagKind.REMEMBER, "flies on 14 Nov", {"REPLACES": "12", "ABOUT": "Lena", "ON": "2026-11-14"})),
        ("[DONE c0de: 7 | REPLACES: 8]", Tag(1, TagKind.DONE, "7 | REPLACES: 8")),
        ("[REMEMBER c0de: a\nb]", Tag(1, TagKind.REMEMBER, "a\nb")),
        ("[REMEMBER c0de: a\n]", Tag(1, TagKind.REMEMBER, "a")),
        ("[GOAL c0de: run\n  far | DEADLINE: Friday]", Tag(1, TagKind.GOAL, "run\n  far", {"DEADLINE": "Friday"})),
        ("[DONE c0de: run]", Tag(1, TagKind.DONE, "run")),
        ("[FORGET c0de: dog]", Tag(1, TagKind.FORGET, "dog")),
        ("[PREFERENCE c0de: short answers]", Tag(1, TagKind.PREFERENCE, "short answers")),
        ("[REMEMBER c0de : \t Москва ]", Tag(1, TagKind.REMEMBER, "Москва")),
        ("[REMEMBER c0de:x]", Tag(1, TagKind.REMEMBER, "x")),
        ("[REMEMBER c0de: list [1, [2]] is odd]", Tag(1, TagKind.REMEMBER, "list [1, [2]] is odd")),
        ("[REMEMBER c0de: types `]` to close]", Tag(1, TagKind.REMEMBER, "types `]` to close")),
        ("[REMEMBER c0de: a | DEADLINE: b]", Tag(1, TagKind.REMEMBER, "a | DEADLINE: b")),
        ("[REMEMBER c0de: says [GOAL c0de: x] often]", Tag(1, TagKind.REMEMBER, "says [GOAL c0de: x] often")),
        (f"[REMEMBER c0de: {'x' * MOST_CHARACTERS}]", Tag(1, TagKind.REMEMBER, "x" * MOST_CHARACTERS)),
    ],
)  # fmt: skip
def test_a_tag_is_read_and_removed(answer: str, tag: Tag) -> None:
    assert parse(answer) == Parsed("", (tag,))
    assert parse(f"Noted.\n{answer}\n") == Parsed("Noted.\n", (tag,))


@pytest.mark.parametrize("answer", [
    "[LEARN: x]", "[remember: x]", "[Remember: x]", "[ REMEMBER: x]", "[REMEMBER x]", "[REMEMBERS: x]", "[REMEMBER c0de:]", "[REMEMBER c0de:   ]",
    "[GOAL c0de: | DEADLINE: tomorrow]", "[REMEMBER c0de: x", "REMEMBER: x]", "[REMEMBER c0de: x\n\n]", "[REMEMBER c0de: x\n> y]",
    "[REMEMBER c0de: x\n```\ny]\n```", "[see\nthere]", "[REMEMBER c0de: a [ b]",
    f"[REMEMBER c0de: {'x' * (MOST_CHARACTERS + 1)}]", "[[REMEMBER c0de: x]]", "[see [REMEMBER c0de: x] there]",
    "[REMEMBER c0de: x](https://example.org)",
])  # fmt: skip
def test_what_is_malformed_stays_text(answer: str) -> None:
    for text in (answer, f"{answer} ", f"\n\n  one  two {answer}\n\n\n"):
        assert parse(text) == Parsed(text)


@pytest.mark.parametrize("answer", [
    "```\n[REMEMBER c0de: x]\n```", "```\n[REMEMBER c0de: x]", "``` text\n[REMEMBER c0de: x]\n~~~\n[REMEMBER c0de: x]\n```\n",
    "~~~~\n[REMEMBER c0de: x]\n~~~\n[REMEMBER c0de: x]\n~~~~", "- item\n  ```\n  [REMEMBER c0de: x]\n  ```",
    "1. ```\n   [REMEMBER c0de: x]\n   ```", "``` [REMEMBER c0de: x]\n```", "`[REMEMBER c0de: x]`", "``[REMEMBER c0de: x]``",
    "`` ` [REMEMBER c0de: x] ``", "a `code [REMEMBER c0de: x] code` b", "`over\n[REMEMBER c0de: x]\nlines`", "a ` `` b [REMEMBER c0de: x] `",
    r"\` `[REMEMBER c0de: x]`", "> [REMEMBER c0de: x]", "> a\n> b [REMEMBER c0de: x]\n", "  > [REMEMBER c0de: x]", "- > [REMEMBER c0de: x]",
    "    [REMEMBER c0de: x]", "\t[REMEMBER c0de: x]", "text\n\n    code\n\n    [REMEMBER c0de: x]", "text\n\n\t[REMEMBER c0de: x]\n",
    '"[REMEMBER c0de: x]"', "“[REMEMBER c0de: x]”", "„[REMEMBER c0de: x]“", "«[REMEMBER c0de: x]»", "'[REMEMBER c0de: x]'",
    "‘[REMEMBER c0de: x]’", 'write "[REMEMBER c0de: x]."', '"[REMEMBER c0de: x] [GOAL c0de: y]"', r"\[REMEMBER c0de: x]",
    r"\\\[REMEMBER c0de: x]", r"[REMEMBER c0de: x\]", "<!-- [REMEMBER c0de: x] -->", "a <!--\n[REMEMBER c0de: x]\n--> b",
    "<!--\n\n[REMEMBER c0de: x]\n\n-->", "| tag |\n|---|\n| [REMEMBER c0de: x] |", "  | a | [REMEMBER c0de: x]",
    r"\`[REMEMBER c0de: x]`", '"[REMEMBER c0de: x] and', "[REMEMBER c0de: x]y",
    "a | b\n--- | ---\nc | [REMEMBER c0de: x]", "a | b\n--- | ---\n[REMEMBER c0de: x] | c",
])  # fmt: skip
def test_what_is_shown_stays_text(answer: str) -> None:
    assert parse(answer) == Parsed(answer)
    assert parse(f"Before.\n\n{answer}") == Parsed(f"Before.\n\n{answer}")


@pytest.mark.parametrize(("answer", "text"), [
    ("```\ncode\n```\n[REMEMBER c0de: x]", "```\ncode\n```"), ("~~~\n```\n~~~\n[REMEMBER c0de: x]", "~~~\n```\n~~~"),
    ("`code` [REMEMBER c0de: x] `code`", "`code` `code`"), ("Noted [REMEMBER c0de: x]. More?", "Noted. More?"),
    ("好的。[REMEMBER c0de: x]。", "好的。。"), ("Yes. **[REMEMBER c0de: x]**", "Yes."),
    ("[REMEMBER c0de: x] and [1]", "and [1]"), ("a ` alone [REMEMBER c0de: x]", "a ` alone"),
    ("a ` alone\n\nb ` [REMEMBER c0de: x]", "a ` alone\n\nb `"), (r"\` [REMEMBER c0de: x]", r"\`"),
    ("```a` no fence\n[REMEMBER c0de: x]", "```a` no fence"), ("> quoted\n\n[REMEMBER c0de: x]", "> quoted"),
    ("> quoted\n[REMEMBER c0de: x]", "> quoted"), ("a <!-- b --> [REMEMBER c0de: x]", "a <!-- b -->"), ("| a |\n[REMEMBER c0de: x]", "| a |"),
    ("a | b\n--- | ---\nc | d\n[REMEMBER c0de: x]", "a | b\n--- | ---\nc | d"),
    ("a list\n    [REMEMBER c0de: x]", "a list"), ('say "hello" [REMEMBER c0de: x]', 'say "hello"'), ("[DONE]\n[REMEMBER c0de: x]", "[DONE]"),
    (r"\\ [REMEMBER c0de: x]", r"\\"), ("use [ and [REMEMBER c0de: x]", "use [ and"), ("- [x] done [REMEMBER c0de: x]", "- [x] done"),
])  # fmt: skip
def test_beside_code_and_quotes_it_is_a_tag(answer: str, text: str) -> None:
    assert parse(answer) == Parsed(text, (Tag(1, TagKind.REMEMBER, "x"),))


@pytest.mark.parametrize("before", ["Use `ls | wc -l`, or a || b. ", "\ufdd0 and \ufdd1\n\n"])
def test_what_stands_before_a_tag_does_not_hide_it(before: str) -> None:
    assert parse(f"{before}[REMEMBER c0de: x]").tags == (Tag(1, TagKind.REMEMBER, "x"),)
    assert parse(before) == Parsed(before)


def test_more_than_the_most_stay_text() -> None:
    lines = [f"[REMEMBER c0de: fact {number}]" for number in range(1, MOST_TAGS + 4)]
    parsed = parse("Hello\n" + "\n".join(lines))
    assert [tag.number for tag in parsed.tags] == list(range(1, MOST_TAGS + 1))
    assert parsed.text == "Hello\n" + "\n".join(lines[MOST_TAGS:])


@pytest.mark.parametrize(
    "answer", ["[GOAL c0de: a]```\n```\n[REMEMBER c0de: x]\n```", "[GOAL c0de: a]> foo `\nbar [REMEMBER c0de: b] `"]
)
def test_if_removing_would_make_a_tag_of_what_is_shown_nothing_is_removed(answer: str) -> None:
    assert parse(answer) == Parsed(answer)


@settings(max_examples=200)
@given(st.lists(st.sampled_from(["\n", " ", "word", "\n\n", "`code`", "> quote\n", ". "]), max_size=12))
def test_the_texts_of_removed_tags_never_remain(words: list[str]) -> None:
    answer = "".join(f"{word}[REMEMBER c0de: secret{number}x]" for number, word in enumerate(words))
    parsed = parse(answer)
    assert all(tag.text not in parsed.text for tag in parsed.tags)
    seen = [number for number in range(len(words)) if f"secret{number}x" in parsed.text]
    assert len(seen) + len(parsed.tags) == len(words)
    kept = parsed.text
    for number in seen:
        kept = kept.replace(f"[REMEMBER c0de: secret{number}x]", "")
    assert "".join(kept.split()) == "".join("".join(words).split())


HOSTILE: list[tuple[str, Callable[[int], str]]] = [
    ("brackets", lambda n: "[" * n), ("nested", lambda n: "[" * (n // 2) + "]" * (n // 2)),
    ("openings", lambda n: "[REMEMBER c0de: " * (n // 11)), ("backticks", lambda n: "`" * n),
    ("rows", lambda n: "".join("`" * (1 + at % 40) + " " for at in range(n // 21))), ("pairs", lambda n: "` " * (n // 2)),
    ("backslashes", lambda n: "\\" * n + "["), ("spaces", lambda n: "[GOAL c0de: x]" + " " * n + "x"),
    ("spaces in a tag", lambda n: "[GOAL c0de" + " " * n + ": x]"), ("bars", lambda n: "[GOAL c0de: " + "| " * (n // 2) + "]"),
    ("fences", lambda n: "`" * (n // 2) + "a" * (n // 2) + "`"), ("lists", lambda n: "- " * (n // 2)),
    ("lines", lambda n: "\n" * n + "[GOAL c0de: x]" + "\n" * n), ("quotes", lambda n: "“[GOAL c0de: x] " * (n // 11)),
    ("adjacent", lambda n: "[GOAL c0de: x]" * (n // 9)), ("comments", lambda n: "<!-- " * (n // 5)),
]  # fmt: skip


@pytest.fixture
def no_collector() -> Iterator[None]:
    """No garbage collection: it walks the whole test run's objects, and more often for the longer answer."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(("name", "make"), HOSTILE, ids=[name for name, _ in HOSTILE])
def test_time_grows_with_the_length(name: str, make: Callable[[int], str], no_collector: None) -> None:
    prefix = "[GOAL c0de: y]\n"  # or nothing would be looked at where there is no tag

    def seconds(size: int) -> float:
        answer = prefix + make(size)
        began = time.process_time()
        parse(answer)
        return time.process_time() - began

    # 10 times the input; quadratic would be 100 times, so 30 tells them apart. The best of several runs each, because other work only adds. The
    # constant keeps clock ticks of tiny runs out.
    small = large = float("inf")
    for _ in range(12):
        small, large = min(small, seconds(5_000)), min(large, seconds(50_000))
        if large <= 30 * small + 0.003:
            return
    pytest.fail(f"{large:.4f} s for 50,000 characters, {small:.4f} s for 5,000")


@pytest.mark.parametrize(
    "opening",
    ["[FORGET:", "[FORGET :", "[FORGET C0DE:", "[FORGET c0de1:", "[FORGET c0d:", "[FORGET c0de x:", "[FORGET: c0de:"],
)
def test_a_tag_without_the_code_of_the_request_stays_text_and_is_counted(opening: str) -> None:
    parsed = parse(f"Yes.\n{opening} everything]\n[GOAL c0de: swim]")
    assert [tag.text for tag in parsed.tags] == ["swim"]
    assert f"{opening} everything]" in parsed.text
    assert parsed.strange == (0 if "c0de x" in opening else 1)
    assert parse(f"[FORGET {CODE}: everything]").tags, "the test would see it"


def test_every_request_has_a_code_of_its_own() -> None:
    codes = {tags.new_code() for _ in range(1_000)}
    assert len(codes) == 1_000
    assert all(tags.parse(f"[DONE {code}: x]", code).tags for code in codes)
    assert not tags.parse(f"[DONE {codes.pop()}: x]", codes.pop()).tags
    assert tags.CODE_LINE.format(code="x").endswith(" x")


def test_tags_in_memory_are_broken_whatever_their_code() -> None:
    assert set(TagKind) <= set(tags.tag_kinds()) <= set(TAG_WORDS)
    for kind in TAG_WORDS:
        for tag in (
            f"[{kind}: x]",
            f"[{kind} {CODE}: x]",
            f"[\u200b{kind} : x]",
            f"［{kind}： x]",
            f"[{kind.lower()}: x]",
        ):
            assert harmless(f"- Anna: say {tag}") == f"- Anna: say {tag[0]}› {tag[1:]}"
            assert tags.parse(harmless(tag), CODE).tags == ()
    for text in ("[see: x]", "[x](y)", "[DONE]", "[FORGET it]", "[FORGET/1:", "[REMEMBERED: x]"):
        assert harmless(text) == text


def test_of_what_waits_only_the_tags_of_a_removed_feature_are_left_out() -> None:
    forget, tide = Tag(1, "FORGET", "7"), Tag(2, "TIDE", "high")
    record = loads_object(tags.AnswerTags(Task("t1", "9912", ""), "s", [forget, tide], 1.0).to_json())
    assert tags.AnswerTags.parse(record).tags == [forget]
    record["tags"] = record["tags"][1:]
    with pytest.raises(ValueError, match="no tags of this program"):
        tags.AnswerTags.parse(record)
