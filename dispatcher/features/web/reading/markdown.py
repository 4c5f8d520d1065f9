"""An answer as a person reads it: its Markdown as HTML in which nothing can run, load or hide."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

#: A longer answer is shown as it was written, and so is what comes after so many seconds on one page: some texts take the parser very long.
LONGEST, SECONDS = 10_000, 1.0
_ELSEWHERE = re.compile(r"(https?://|mailto:)", re.IGNORECASE)


def readable_answers(texts: Iterable[str]) -> list[Markup]:
    """Each text as HTML."""
    ends, found = time.monotonic() + SECONDS, []
    for text in texts:
        if len(text) > LONGEST or time.monotonic() > ends:
            found.append(plain(text))
        else:
            html = Markup(_parser().render(text))  # noqa: S704 - the parser escapes all HTML of the text
            found.append(Markup('<div class="markdown">{}</div>').format(html))
    return found


def plain(text: str) -> Markup:
    """As it was written."""
    return Markup('<div class="text">{}</div>').format(escape(text))


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
    made.add_render_rule(
        "table_open", lambda *_: '<div class="wide" tabindex="0" role="region" aria-label="Table"><table>\n'
    )
    made.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return made


def _link(renderer: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    tokens[at].attrSet("rel", "noreferrer noopener nofollow")
    return str(renderer.renderToken(tokens, at, options, env))
