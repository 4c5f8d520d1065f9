"""A chat as a document: no text reaches out of its quote, and code stays code."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from shared.turns.conversation import conversation, inline, quoted
from shared.turns.records import Turn

UTC = ZoneInfo("UTC")


#: What Markdown is made of, and what ends a line.
PIECES = """``` ```` ~~~ ` # > - 1. < <!-- --> <script> </blockquote> <https://a.b> [a] [a]:/u ]: \\ --- === | a Ж &lt; **17:33"""
BLANKS = (" ", "  ", "    ", "\t", "\n", "\n\n", "\r", "\x0b", "\u2028", "\x00", "\ud800", "## 9 February 2024")
marks = st.lists(st.sampled_from([*PIECES.split(), *BLANKS])).map("".join)


def tokens(text: str) -> tuple[list[Any], dict[str, Any]]:
    environment: dict[str, Any] = {}
    return MarkdownIt("commonmark").parse(text, environment), environment


@given(st.lists(marks | st.text(), min_size=1, max_size=4), marks)
def test_no_text_reaches_out_of_its_quote(contents: list[str], name: str) -> None:
    said = [
        Turn("t", "user", "9912", content, 86_400.0 * number, name or None) for number, content in enumerate(contents)
    ]
    text = "".join(conversation("9912", said, UTC))
    text.encode()
    parsed, environment = tokens(text)
    outer = [token.type for token in parsed if token.level == 0 and token.nesting >= 0]
    assert outer == [
        "heading_open",
        "paragraph_open",
        *["heading_open", "paragraph_open", "blockquote_open"] * len(said),
    ]
    inner = [token.type for token in parsed] + [child.type for token in parsed for child in token.children or ()]
    assert not {"html_block", "html_inline"} & set(inner)
    assert not environment.get("references"), "a link that is defined counts in the whole document"
    assert all(line.startswith((">", "#", "**", "Times ")) for line in text.split("\n") if line)


@given(marks | st.text())
def test_a_text_within_a_line_means_nothing(text: str) -> None:
    parsed, _ = tokens(f"x {inline(text)} x")
    assert [token.type for token in parsed] == ["paragraph_open", "inline", "paragraph_close"]
    children = parsed[1].children or []
    assert {child.type for child in children} <= {"text", "text_special"}


@given(
    st.lists(st.sampled_from(["```", " ````", "~~~", "", "    a"]) | st.text("ab`~ <>\\[]:#", max_size=8)),
    st.sampled_from(["", "py", "c++"]),
)
def test_code_stays_code(lines: list[str], language: str) -> None:
    fence = "`" * 9
    parsed, _ = tokens(quoted("\n".join(["before", fence + language, *lines, fence, "after"])))
    (code,) = [token for token in parsed if token.type == "fence"]
    assert (code.info, code.content) == (language, "".join(line + "\n" for line in lines))
