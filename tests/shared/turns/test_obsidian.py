"""A vault for Obsidian: notes that link to each other, and words in it that do nothing."""

from __future__ import annotations

import io
import re
from typing import IO, Any
from zoneinfo import ZoneInfo

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from shared.turns.obsidian import Vault, front_matter, inline, quoted
from shared.turns.records import Turn

ZONE = ZoneInfo("Europe/Berlin")
NOON = 1_770_638_400.0  # 2026-02-09 13:00 in Berlin
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
#: What begins something in Obsidian or its plugins, wherever it stands in a note.
LIVE = re.compile(r"(?<!\\)(?:\[|`|<|\$|#|==|~~|\{\{)|\[\[|!\[|(?<!\\)\]\(|<%|%%|::|https?:/|\{\{|\$=")
HOSTILE = [
    "---\ntitle: x\n---",
    "[[Secret]] ![[Secret]] ![x](http://tracker.example/p.png) [a](obsidian://open?vault=x)",
    "<script>alert(1)</script> <img src=x onerror=alert(1)> <!-- hidden",
    "```dataviewjs\ndv.paragraph(app.vault.getName())\n```",
    "`= this.file.name` `$= dv.current()`",
    "<% tp.system.clipboard() %> <%* await app.vault.delete(x) %>",
    "key:: value\n[a:: b]",
    "%% hidden %% ==mark== $x^2$ #tag ^block {{date}} [^1]",
    "> [!danger]+ callout\n- [ ] task\n1. one\n# heading\nheading\n=====\n| a | b |\n|---|---|\n    code\n\tcode",
    "https://example.com www.example.com <https://example.com> mailto:a@b.example",
    "\\[[x]] \\\\[[x]] \\<% x %>",
]


class Notes(dict[str, Any]):
    """The notes by path, as text."""

    def open(self, name: str) -> IO[bytes]:
        notes = self

        class Note(io.BytesIO):
            def close(self) -> None:
                notes[name] = self.getvalue().decode()
                super().close()

        assert name not in notes
        return Note()


def vault(*turns: Turn, chat: str = "9912") -> Notes:
    notes = Notes()
    with Vault(chat, ZONE, notes.open, {}, ["Memories"]) as made:
        for turn in turns:
            made.add(turn)
    return notes


def turn(text: str, at: float = NOON, name: str | None = "Ann") -> Turn:
    return Turn(f"t{at:.0f}", "user", "9912", text, at, name)


def test_a_note_a_day_with_links_both_ways() -> None:
    notes = vault(
        turn("one"), turn("two", NOON + 60), turn("later", NOON + 86_400 * 20), turn("last", NOON + 86_400 * 31)
    )
    assert sorted(notes) == ["Chat.md", "Days/2026-02-09.md", "Days/2026-03-01.md", "Days/2026-03-12.md"]
    first, second = notes["Days/2026-02-09.md"], notes["Days/2026-03-01.md"]
    assert first == (
        '---\ntitle: "2026-02-09"\ndate: "2026-02-09"\nchat: "9912"\ntimezone: "Europe/Berlin"\n---\n'
        "\n# 2026-02-09\n\nChat: [[Chat]] · [[Memories]]\n"
        "\n**13:00 Ann**\n\n> one  \n\n**13:01 Ann**\n\n> two  \n"
        "\nNext: [[Days/2026-03-01|2026-03-01]]\n"
    )
    assert "Before: [[Days/2026-02-09|2026-02-09]]" in second
    assert "Next: [[Days/2026-03-12|2026-03-12]]" in second
    assert re.findall(r"\[\[Days/(.*?)\|", notes["Chat.md"]) == ["2026-02-09", "2026-03-01", "2026-03-12"]


def test_an_empty_chat_has_an_index() -> None:
    assert list(vault()) == ["Chat.md"]


def _kinds(body: str) -> set[str]:
    """The kinds of tokens of a note, as CommonMark reads it with HTML and tables."""
    return {inner.type for token in MARKDOWN.parse(body) for inner in (token, *(token.children or []))}


SHOWN = {
    "blockquote_open",
    "blockquote_close",
    "paragraph_open",
    "paragraph_close",
    "inline",
    "text",
    "hardbreak",
    "softbreak",
    "text_special",
}


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=80), st.text("ab1 .)\\`*_[]<>{}&|~$=%^#:!-+/\n\t\r\"'w", max_size=60)))
@example(HOSTILE[0])
@example("\n".join(HOSTILE))
@example("0)")
def test_no_text_becomes_anything_but_text(text: str) -> None:
    shown = quoted(text)
    assert _kinds(shown) <= SHOWN
    assert not LIVE.search(shown), shown
    assert all(line.startswith(">") for line in shown.split("\n"))
    rendered = "".join(inner.content for token in MARKDOWN.parse(shown) for inner in token.children or [])
    kept = "".join(re.sub(r"[\x00-\x08\x0e-\x1b\x7f\u202a-\u202e\u2066-\u2069]", "\ufffd", text).split())
    assert "".join(rendered.split()) == kept, "and none is lost"
    assert _kinds(f"- {inline(text)} (x)") <= SHOWN | {
        "bullet_list_open",
        "bullet_list_close",
        "list_item_open",
        "list_item_close",
    }
    assert not LIVE.search(inline(text))


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40))
@example('x"\n---\nevil: true')
@example("\u2028\x85\x7f'\"\\")
@example("\ud83d")
def test_no_value_breaks_the_front_matter(value: str) -> None:
    head = front_matter({"title": value, "chat": "9912"})
    first, body, end = head.partition("\n")[0], head[4:-4], head[-4:]
    assert (first, end) == ("---", "---\n")
    read = yaml.safe_load(body)
    assert sorted(read) == ["chat", "title"]
    assert isinstance(read["title"], str)
    assert "---" not in body.split("\n")


def test_hostile_texts_and_names_do_nothing() -> None:
    hostile = "\n".join(HOSTILE)
    notes = vault(turn(hostile, name="[[Ann]] <% x %> **"), turn("ok", NOON + 9, '"\n---\n'), chat='9912"\n---\n[[x]]')
    assert sorted(notes) == ["Chat.md", "Days/2026-02-09.md"]
    for text in notes.values():
        _, head, body = text.split("---\n", 2)
        assert set(yaml.safe_load(head)) <= {"title", "date", "chat", "timezone"}
        ours = re.sub(r"\[\[(?:Chat|Memories|Days/[\d|/-]+)\]\]|^#+ ", "", body, flags=re.MULTILINE)
        assert not LIVE.search(ours), LIVE.search(ours)
