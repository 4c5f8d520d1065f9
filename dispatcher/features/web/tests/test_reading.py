"""What was said, as the page shows it to a person."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from zoneinfo import ZoneInfo

import pytest

from dispatcher.features.web.reading.facts import days_of
from dispatcher.features.web.reading.hits import around
from dispatcher.features.web.reading.markdown import readable_answers
from dispatcher.features.web.tests.conftest import Site
from dispatcher.memory.relevance import content_roots
from shared.search.types import HiddenTurns
from tests.support.world import World


def test_days_are_told_newest_first_with_their_turns() -> None:
    times = [0.0, 86_400.0 * 40, 86_400.0 * 41, 86_400.0 * 41 + 1]
    days = days_of(times, [], [], HiddenTurns(), ZoneInfo("UTC"))
    assert [(one.month, one.date, one.turns) for one in days] == [
        ("1970-02", "1970-02-11", 2), ("1970-02", "1970-02-10", 1), ("1970-01", "1970-01-01", 1)
    ]  # fmt: skip


@pytest.mark.parametrize("answer", [
    "<script>alert(1)</script>", "<b onclick=alert(1)>x</b>", "[a](javascript:alert(1))", "[a](JaVaScript&#58;alert(1))", "[a](data:text/html,x)",
    "[a](/leave)", "[a](//evil.example)", "![a](https://evil.example/x.png)", "<https://a.b/\" onload=\"x>", "```\" onload=\"x\n```",
    "[a](https://a.b \"\\\" onload=x\")", "[x]: https://a.b '<svg onload=x>'\n[x]", "| <i>a</i> |\n|---|\n| `<b>` |", "&lt;img src=x onerror=y&gt;",
])  # fmt: skip
def test_no_answer_can_do_more_than_be_read(answer: str) -> None:
    class Seen(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            given = dict(attrs)
            assert tag in {"div", "p", "a", "br", "pre", "code", "table", "thead", "tbody", "tr", "th", "td", "mark"}
            assert given.keys() <= {"class", "href", "rel", "title", "tabindex", "role", "aria-label"}, given
            assert re.match("https?://", given.get("href") or "https://")

    for wanted in (set[str](), {"alert", "x", "b", "onload", "svg", "https"}):
        (html,) = readable_answers([answer], wanted)
        Seen().feed(html)


ANSWER = (
    "# The boiler\n\nIt **hums** at <i>night</i>.\n\n```\nif hums:\n    # open_the_valve(**now**)\n```\n"
    + "\nThe end.\n" * 70
)


def test_hits_are_shown_as_a_person_reads_them_with_the_words_marked_and_code_as_it_is(
    site: Site, talked: World
) -> None:
    code = "\n".join(f"    call_{number}(__fast__)  # *not bold*" for number in range(60))
    talked.say("m1", ANSWER, role="asst", chat_id="77")
    talked.say("m2", f"So:\n\n```\n{code}\n    # the_zeppelin\n```\n\nDone **well**.", role="asst", chat_id="78")
    talked.night()
    visitor = site.visitor()
    for path in ("/search", "/chat/search"):
        page = visitor.get(path, q="hums", chat="77")
        assert "<p>It <strong><mark>hums</mark></strong> at &lt;i&gt;night&lt;/i&gt;.</p>" in page
        assert "<pre><code>if <mark>hums</mark>:\n    # open_the_valve(**now**)\n</code></pre>" in page
        page = visitor.get(path, q="zeppelin", chat="78")
        assert "(__fast__)  # *not bold*\n    # <mark>the_zeppelin</mark>" in page, (
            "what began in an earlier passage is code"
        )
        assert "<p>Done <strong>well</strong>.</p>" in page or path == "/search"
    assert "The end.</p>\n<p>…</p>\n</div>" in visitor.get("/search", q="hums"), "not all of a long one"
    assert "The boiler It hums at &lt;i&gt;night&lt;/i&gt;. if hums: # open_the_valve(**now**)" in visitor.get("/"), (
        "a last line"
    )


def test_an_answer_that_takes_the_parser_long_is_shown_as_it_was_written() -> None:
    first, second = readable_answers(["**short**", "**" + "x" * 20_000])
    assert first == '<div class="markdown"><p><strong>short</strong></p>\n</div>'
    assert second == f'<div class="text">**{"x" * 20_000}</div>'


def test_a_long_hit_shows_the_part_with_the_words() -> None:
    wanted = content_roots("herons")
    shown = around("Before it. " * 80 + "The heron flew away. " + "After it. " * 80, wanted, 500)
    assert shown.startswith("… ") and "The heron flew away." in shown and shown.endswith("…") and len(shown) <= 502
    assert around("The heron.", content_roots("zeppelin"), 500) == "The heron."
    for more in ("", "a"):
        flags = around(f"{'🇩🇪' * 400}{more} heron {'🇩🇪' * 400}", wanted, 500)
        assert set(re.sub("[… ]|heron", "", flags).replace("🇩🇪", "")) <= {"a"}, "no half of a flag"
