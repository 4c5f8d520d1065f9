"""Answers as messages: nothing is lost, every message fits, every entity lies inside its text; whatever the model writes."""

from __future__ import annotations

import re
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.bots.telegram.rendering import LONGEST, MessagePart, parts_of, plain_parts, readable
from shared.text.format import utf16_units

MARKUP = set(string.punctuation)
#: Items of a list may be counted anew, and boxes become signs.
LIST_SIGN = re.compile(r"^[ \t>*+-]*[0-9]{1,9}[.)](?=\s|$)|\[[xX]\]", re.MULTILINE)


def words(text: str) -> str:
    """All that is no markup."""
    return "".join(one for one in LIST_SIGN.sub("", text) if one not in MARKUP and not one.isspace())


def reading(parts: list[MessagePart]) -> str:
    """What a reader gets: texts, with the addresses of links and the languages of code where they stand."""
    read = ""
    for part in parts:
        marks: list[tuple[int, str]] = []
        for one in part.entities:
            marks += [(one["offset"], one.get("language", "")), (one["offset"] + one["length"], one.get("url", ""))]
        encoded, last = part.text.encode("utf-16-le"), 0
        for offset, more in sorted(marks, key=lambda mark: mark[0]):
            read += encoded[2 * last : 2 * offset].decode("utf-16-le") + more
            last = offset
        read += encoded[2 * last :].decode("utf-16-le")
    return read


def check(answer: str) -> list[MessagePart]:
    parts = parts_of(answer)
    there = iter(reading(parts))
    assert all(one in there for one in words(readable(answer))), "every letter, digit and symbol, in order"
    for part in parts:
        assert 0 < utf16_units(part.text) <= LONGEST
        assert part.text.strip()
        for entity in part.entities:
            assert entity["offset"] >= 0
            assert 0 < entity["length"] <= utf16_units(part.text) - entity["offset"]
    return parts


pieces = st.sampled_from([
    "**bold**", "_it_", "`code`", "```python\nprint(1)\n```", "~~gone~~", "[link](https://x.y/z?a=1&b=2)", "# Title", "> quote",
    "- item", "1. one", "10. ten", "| a | b |\n|---|---|\n| 1 | 2 |", "\n\n", "\n", " ", "<div>", "</div>", "List<String>", "&amp;",
    "$5", "$$x$$", "||", "a || b", "[^1]", "[^1]: note", "[x]: http://y.z", "![alt](http://i/m.png)", "***", "___", "```", "`", "\\",
    "👩‍👩‍👧", "שלום", "مرحبا", "‮", "\u200d", "é", "🦊" * 30, "https://a.b/c_d_e", "<!-- hidden -->", "- [ ] todo", "word " * 40,
    "~approx~", "\x00", "\ud800", "\uf8f0", "    indented",
])  # fmt: skip


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(pieces | st.text(max_size=40), max_size=30).map("".join))
def test_nothing_is_lost_of_anything_like_markdown(answer: str) -> None:
    check(answer)


@pytest.mark.parametrize(
    "answer", ["- " * 3000 + "a", ">" * 20_000, "[" * 40_000, "*a " * 13_000, "||" * 20_000, "`" * 20_000]
)
def test_what_means_the_parser_ill_neither_grows_nor_fails(answer: str) -> None:
    parts = check(answer)
    assert sum(utf16_units(part.text) for part in parts) <= 2 * len(answer) + 4000


def test_a_code_block_is_code_in_both_halves() -> None:
    code = "\n".join(f"value_{number} = '*not bold* {number}'" for number in range(320))
    first, second, third = check(f"Before\n\n```python\n{code}\n```\n\nAfter **it**")
    for part in (first, second, third):
        (block,) = [one for one in part.entities if one["type"] == "pre"]
        assert block["language"] == "python"
    assert first.text.startswith("Before\n\nvalue_0")
    assert second.entities[0] == {"type": "pre", "offset": 0, "length": utf16_units(second.text), "language": "python"}
    assert third.text.endswith("After it")
    assert [one["type"] for one in third.entities] == ["pre", "bold"]
    whole = f"Before\n\n{code}\n\nAfter it"
    assert all(line in whole for part in (first, second, third) for line in part.text.split("\n"))


def entity(kind: str, offset: int, length: int, **more: Any) -> dict[str, Any]:
    return {"type": kind, "offset": offset, "length": length, **more}


@pytest.mark.parametrize(("answer", "text", "entities"), [
    ("🦊 **b** and `c`", "🦊 b and c", [entity("bold", 3, 1), entity("code", 9, 1)]),
    ("[l](https://x.y/?a=1&b=2)", "l", [entity("text_link", 0, 1, url="https://x.y/?a=1&b=2")]),
    ("Use `a || b` or c || d || e", "Use a || b or c || d || e", [entity("code", 4, 6)]),
    ("a List<String> and <b>x</b> &amp; $5 to $6", "a List<String> and <b>x</b> &amp; $5 to $6", []),
    ("<div>\nkept\n</div>", "<div>\nkept\n</div>", []),
    ("see [^1]\n\n[^1]: the note", "see [^1]\n\n[^1]: the note", []),
    ("**bold**\n\n[x]: http://lost.example", "**bold**\n\n[x]: http://lost.example", []),
    ("- [ ] open\n- [x] done", "☐ open\n☑ done", []),
    ("3. gamma\n2. **beta**\n1) alpha", "3. gamma\n2. beta\n1) alpha", [entity("bold", 12, 4)]),
    ("1. a\n1. b\n1. c", "1. a\n2. b\n3. c", []),
])  # fmt: skip
def test_markdown_as_telegram_shows_it(answer: str, text: str, entities: list[dict[str, Any]]) -> None:
    (part,) = check(answer)
    assert (part.text.strip(), part.entities) == (text, entities)


def test_a_cut_is_behind_a_line_or_else_a_word() -> None:
    line = "word " * 700  # 3,500 units
    first, second = plain_parts(f"{line}\n{line}")
    assert first.text == line
    assert second.text == line
    long = [part.text for part in plain_parts("word " * 2000)]
    assert all(text.endswith("word ") for text in long)
    first, *_ = plain_parts("Here:\n" + "x" * 5000)
    assert len(first.text) > 2000, "no message of a few words only"
