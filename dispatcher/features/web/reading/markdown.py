"""An answer as a person reads it: its Markdown as HTML in which nothing can run, load or hide."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Set
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from dispatcher.memory.relevance import text_roots
from shared.text.format import one_line, shorten

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

#: A longer answer is shown as it was written, and so is what comes after so many seconds on one page: some texts take the parser very long.
LONGEST, SECONDS = 10_000, 1.0
WORDS = re.compile(r"(\w+)")
_ELSEWHERE = re.compile(r"(https?://|mailto:)", re.IGNORECASE)


def readable_answers(texts: Iterable[str], wanted: Set[str] = frozenset(), characters: int = LONGEST) -> list[Markup]:
    """Each text as HTML, with the words of these roots marked; of one that is longer the blocks from the first with such a word on, while they
    have so many characters together."""
    ends, found = time.monotonic() + SECONDS, []
    for text in texts:
        if len(text) > LONGEST or time.monotonic() > ends:
            found.append(plain(text if characters == LONGEST else shorten(text, characters), wanted))
        else:
            found.append(_rendered(text, wanted, characters))
    return found


def words_of(text: str) -> str:
    """The words of an answer in one line, without the signs of its Markdown."""
    blocks = (
        [leaf.content or " " * (leaf.tag == "br") for leaf in token.children or [token]]
        for token in _parser().parse(text)
    )
    return one_line(" ".join(map("".join, blocks)))


def plain(text: str, wanted: Set[str] = frozenset()) -> Markup:
    """As it was written."""
    return Markup('<div class="text">{}</div>').format(marked(text, wanted))


def marked(text: str, wanted: Set[str]) -> Markup:
    """The text, escaped, with the words of these roots marked, whatever their endings."""
    if not wanted:
        return escape(text)
    shown = Markup()
    for number, part in enumerate(WORDS.split(text)):  # every second one is a word
        is_marked = number % 2 and says(part, wanted)
        shown += Markup("<mark>{}</mark>").format(part) if is_marked else escape(part)
    return shown


def says(text: str, wanted: Set[str]) -> bool:
    """Whether a word of one of these roots is in it, also as a part of a name_in_code."""
    return not wanted.isdisjoint(text_roots(f"{text} {text.replace('_', ' ')}"))


def _rendered(text: str, wanted: Set[str], characters: int) -> Markup:
    parser = _parser()
    tokens, before, after = parser.parse(text), "", ""
    if len(text) > characters:
        starts = [number for number, token in enumerate(tokens) if token.level == 0 and token.nesting >= 0]
        blocks = [tokens[start:end] for start, end in pairwise([*starts, len(tokens)])]
        said = ["\n".join(token.content for token in block) for block in blocks]
        first = next((number for number, words in enumerate(said) if says(words, wanted)), 0)
        sums = accumulate(map(len, said[first:]))
        last = first + max(1, sum(together <= characters for together in sums))
        tokens = [token for block in blocks[first:last] for token in block]
        before, after = "<p>…</p>\n" * (first > 0), "<p>…</p>\n" * (last < len(blocks))
    html = parser.renderer.render(tokens, parser.options, {"wanted": wanted})
    return Markup(f'<div class="markdown">{before}{html}{after}</div>')  # noqa: S704 - the parser escapes all HTML of the text


@cache
def _parser() -> MarkdownIt:
    """CommonMark and tables, without HTML and pictures; links lead elsewhere only; a heading is no heading of the page."""
    from markdown_it import MarkdownIt

    made = (
        MarkdownIt("commonmark", {"html": False, "breaks": True})
        .enable(["table", "strikethrough"])
        .disable(["image", "reference"])
    )
    made.validateLink = lambda url: bool(_ELSEWHERE.match(url))  # type: ignore[method-assign]
    made.add_render_rule("heading_open", lambda *_: "<p><strong>")
    made.add_render_rule("heading_close", lambda *_: "</strong></p>\n")
    made.add_render_rule("link_open", _link)
    made.add_render_rule("text", _content)
    made.add_render_rule("code_inline", _inline_code)
    for name in ("fence", "code_block"):
        made.add_render_rule(name, _code)
    made.add_render_rule(
        "table_open", lambda *_: '<div class="wide" tabindex="0" role="region" aria-label="Table"><table>\n'
    )
    made.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return made


def _link(renderer: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    tokens[at].attrSet("rel", "noreferrer noopener nofollow")
    return str(renderer.renderToken(tokens, at, options, env))


def _content(_: Any, tokens: Any, at: int, _options: Any, env: Any) -> str:
    return str(marked(tokens[at].content, env["wanted"]))


def _inline_code(*given: Any) -> str:
    return f"<code>{_content(*given)}</code>"


def _code(*given: Any) -> str:
    return f"<pre><code>{_content(*given)}</code></pre>\n"
