"""`hmem-night report`: its page holds everything itself and treats ids of chats as text; what is drawn is also said in a table."""

from __future__ import annotations

import io
import json
import os
import re
import stat
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from PIL import Image

from nightly.night.counts import counts_of, free_bytes
from nightly.night.report.charts import BOTTOM, LEFT, RIGHT, TOP, charts_of
from nightly.night.report.page import SHOWN_CHATS, ChatLedger, page
from nightly.night.report.picture import picture
from nightly.night.report.refused import RefusedCount, refused_in
from nightly.night.report.words import headline, lines_of, span
from scripts.report_picture import made_up_nights
from shared.turns.records import Tombstone
from tests.support.world import REPOSITORY, World

ZONE = ZoneInfo("Europe/Berlin")
HOSTILE = "<img src=x onerror=alert(1)>\"'&{{7*7}}</td></table><script>alert(2)</script>"
VOID = {"meta", "br", "img", "link", "input", "hr"}
#: Attributes and tags that fetch something or run something.
FETCHING = {"src", "href", "srcset", "action", "data", "poster", "formaction", "xlink:href", "background"}
RUNNING = {"script", "iframe", "object", "embed", "link", "img", "form", "base"}


class Page(HTMLParser):
    """Tags with their attributes, headings, the rows of each table, and all text; nesting is checked on the way."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[tuple[int, str]] = []
        self.tables: list[list[list[str]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))
        elif tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._open and re.fullmatch("h[1-6]", self._open[-1]):
            level, text = self.headings[-1]
            self.headings[-1] = (level, text + data)
        if "td" in self._open or "th" in self._open:
            self.tables[-1][-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def made(nights: list[dict[str, Any]], refused: list[RefusedCount] | None = None, chats: int = 1) -> Page:
    rows = [[HOSTILE if at == 0 else f"c{at}", "5", "5"] for at in range(chats)]
    return Page(page(nights, {}, refused or [], ChatLedger(3, ("chat", "turns", "in chunks"), rows), ZONE))


def harmless(html: Page, text: str) -> None:
    assert not RUNNING & {tag for tag, _ in html.tags}
    for tag, attributes in html.tags:
        assert not FETCHING & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
    assert not re.search(r"url\(|@import|https?://", text)


def test_the_page_fetches_nothing_and_is_well_formed() -> None:
    nights = made_up_nights()
    text = page(nights, {}, [], None, ZONE)
    html = Page(text)
    harmless(html, text)
    assert html.all("html") == [{"lang": "en"}]
    assert html.text.count("The last 14 nights: 1 failed") == 2, "as title and heading"
    levels = [level for level, _ in html.headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    assert "prefers-color-scheme: dark" in text
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in html.all("meta")
    assert "default-src 'none'" in text


def test_every_chart_has_a_name_and_its_numbers_as_a_table() -> None:
    nights = made_up_nights()
    html = made(nights)
    ids = {attributes["id"] for _, attributes in html.tags if "id" in attributes}
    drawings = [one for one in html.all("svg") if one.get("role") == "img"]
    assert len(drawings) == 5
    for one in drawings:
        assert set((one["aria-labelledby"] or "").split()) <= ids
    names = [chart.title for chart in charts_of(nights, ZONE)]
    assert [text for level, text in html.headings if level == 3] == names
    for table in html.tables[:5]:
        assert [row[0] for row in table[1:]] == [str(night["run"]) for night in reversed(nights)]
    assert html.tables[0][1][2] == f"{nights[-1]['new']:,}"
    assert html.tables[4][1][2:] == ["100", str(nights[-1]["gate"]["found"])]


def test_an_id_of_a_chat_stays_text() -> None:
    html = made(made_up_nights(3), [RefusedCount(1, "record quarantined", 2, HOSTILE)])
    assert not RUNNING & {tag for tag, _ in html.tags}
    ledger, refused = html.tables[-1], html.tables[-2]
    assert ledger[1][0].startswith("<img")
    assert HOSTILE.startswith(ledger[1][0].rstrip("…"))
    assert refused[1] == ["1", "record quarantined", "2", HOSTILE]
    assert "49" not in ledger[1][0]


def test_a_page_of_no_nights_says_so() -> None:
    text = page([], {}, [], None, ZONE)
    html = Page(text)
    harmless(html, text)
    assert "No night has ended on this host yet." in html.text
    assert html.tables == []


def test_a_ledger_of_many_chats_ends_somewhere_and_says_so() -> None:
    html = made(made_up_nights(1), chats=SHOWN_CHATS + 3)
    assert len(html.tables[-1]) == SHOWN_CHATS + 1
    assert "3 smaller chats are not shown" in html.text


@pytest.mark.parametrize("count", [1, 2, 14, 400])
def test_everything_is_drawn_inside_of_its_frame(count: int) -> None:
    for chart in charts_of(made_up_nights(count), ZONE):
        for bar in chart.bars:
            assert bar.x >= LEFT
            assert bar.x + bar.width <= RIGHT
            assert TOP <= bar.y <= bar.y + bar.height <= BOTTOM + 0.2
        assert all(TOP <= y <= BOTTOM for _, y in chart.line)
        assert 2 <= len(chart.heights) <= 7
        assert len({text for _, text in chart.heights}) == len(chart.heights)
        assert 1 <= len(chart.days) <= 7


def test_nights_without_any_number_can_be_shown() -> None:
    nothing = made_up_nights(1)[0] | {"steps": {}, "seconds": 0.0, "new": 0, "exported": 0, "turns": 0, "chunks": 0} | dict.fromkeys(
        ("gate", "moved", "release_bytes", "free_bytes", "mirror")
    )  # fmt: skip
    html = made([nothing])
    assert "no step was done" in html.text
    assert "No questions were asked yet." in html.text
    assert picture([nothing], ZONE).startswith(b"\x89PNG")


def test_the_picture_of_the_documents_is_what_the_script_draws() -> None:
    """Its size, not its bytes: those depend on the fonts of the host."""
    for content in (picture(made_up_nights(), ZONE), (REPOSITORY / "docs" / "images" / "report.png").read_bytes()):
        image = Image.open(io.BytesIO(content))
        assert (image.format, image.size, len(content) < 100_000) == ("PNG", (900, 600), True)
        colors = {color for _, color in image.convert("RGB").getcolors(900 * 600) or ()}
        assert {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0xE6, 0x9F, 0x00), (255, 255, 255)} <= colors


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_picture_of_few_nights_can_be_drawn(count: int) -> None:
    assert Image.open(io.BytesIO(picture(made_up_nights(count), ZONE))).size == (900, 600)


def test_durations_and_headlines_in_words() -> None:
    assert [span(seconds) for seconds in (0.04, 9.96, 59.4, 60, 200, 3599.6, 7500)] == [
        "0.0 s", "10.0 s", "59 s", "1 min 0 s", "3 min 20 s", "1 h 00 min", "2 h 05 min"
    ]  # fmt: skip
    nights = made_up_nights(11)
    assert headline(nights[:9], ZONE)[0] == "The last 9 nights: all good"
    assert headline(nights[9:10], ZONE) == (
        "The last night: failed",
        "Night 407, 10 May 2026: failed at embed, 0 turns in 3.5 s",
    )
    assert headline(nights, ZONE)[0] == "The last 11 nights: 1 failed"
    assert len(list(lines_of(nights[-1], ZONE))) == 10


# ── what is counted ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("archive", "flush", "state"),
    [
        (None, {}, None),
        (None, {"mirrored": None, "mirror_failed": None}, None),
        ({"error": "it is away"}, {}, "lags"),
        ({"proven": 3}, {}, "ok"),
        ({"proven": 3}, {"mirror_failed": "it is full"}, "lags"),
        ({"error": "it was away"}, {"mirrored": 4, "mirror_failed": None}, "ok"),
    ],
)
def test_the_last_look_at_the_mirror_counts(archive: Any, flush: dict[str, Any], state: str | None) -> None:
    assert counts_of({"archive": {"mirror": archive}, "flush": flush})["mirror"] == state


def test_a_night_that_did_nothing_has_counts_too(tmp_path: Path) -> None:
    counts = counts_of({})
    assert [counts[name] for name in ("exported", "new", "deleted", "chats")] == [0, 0, 0, 0]
    assert [counts[name] for name in ("turns", "chunks", "release_bytes", "mirror")] == [None] * 4
    assert free_bytes(tmp_path / "nowhere") is None


def test_chats_with_news_are_those_that_something_new_went_to() -> None:
    chats = {"a": {"new": 1}, "b": {"already_archived": 2}, "c": {"new_version": 1}, "?": {"quarantined": 1}}
    assert counts_of({"archive": {"ledger": {"chats": chats}}})["chats"] == 2


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────


def two_nights(world: World) -> None:
    world.say("t1", "the boiler code is 4711", chat_id=HOSTILE)
    world.redis.set("hcli:memory:odd:user", "{")
    world.night()
    world.push_tombstone(Tombstone("s1", "9912", 1_800_000_000.0, turn_ids=frozenset({"t9:user"})))
    world.say("t2", "the wifi is called heron")
    world.night()


def test_the_command_shows_the_last_night_and_those_before(light: World) -> None:
    assert "No night has ended" in light.command("hmem-night", "report").stdout
    two_nights(light)
    lines = light.command("hmem-night", "report").stdout.splitlines()
    assert lines[0].split(":", 1)[0] == "Night 2"
    assert lines[3].split(maxsplit=1) == ["account:", "1 exported = 1 new; 1 deleted from Redis"]
    assert lines[10] == ""
    assert lines[11] == "The last 2 nights"
    assert [line.split()[0] for line in lines[12:]] == ["night", "1", "2"]
    told = json.loads(light.command("hmem-night", "report", "--json").stdout)
    assert [night["run"] for night in told] == [1, 2]
    assert json.loads(light.redis.get("hcli:mem:night:report") or "")["nights"] == told
    (only,) = json.loads(light.command("hmem-night", "report", "--json", "--nights", "1").stdout)
    assert only["run"] == 2


def test_the_command_writes_one_private_page(light: World) -> None:
    two_nights(light)
    target = light.root / "nights.html"
    target.write_text("an older page")
    target.chmod(0o644)
    assert light.command("hmem-night", "report", "--html", str(target)).stdout == f"2 nights are in {target}.\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    text = target.read_text(encoding="utf-8")
    html = Page(text)
    harmless(html, text)
    ledger, refused, nights = html.tables[-1], html.tables[-2], html.tables[-3]
    assert [row[0] for row in nights[1:]] == ["2", "1"]
    assert nights[2][-1].startswith(
        "turns: 1 archived = 1 in 1 chunks + 0 forgotten + 0 without text; index: 1 keywords"
    )
    assert refused[1][:3] == ["1", "record quarantined", "1"]
    assert [row[0] for row in ledger[1:]] == ["9912"], "the chats that this night has done"
    assert not list(light.root.glob(".nights.html*"))
    light.command("hmem-night", "report", "--html", str(target), "--nights", "1")
    assert len(Page(target.read_text(encoding="utf-8")).tables[-3]) == 2


def test_the_page_of_a_hostile_chat_and_of_a_failed_night(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    light.say("t1", "the boiler code is 4711", chat_id=HOSTILE)
    light.night()
    light.say("t2", "more")
    light.command(
        "hmem-night", "run", check=False, EMBEDDER="ollama", NIGHT_INDEXES="sqlite", OLLAMA_URL="http://127.0.0.1:1"
    )
    target = light.root / "nights.html"
    light.command("hmem-night", "report", "--html", str(target))
    html = Page(target.read_text(encoding="utf-8"))
    assert not RUNNING & {tag for tag, _ in html.tags}
    assert "failed at" in html.text
    assert HOSTILE.startswith(next(row[0] for row in html.tables[-1] if row[0].startswith("<img")).rstrip("…"))


@pytest.mark.parametrize(
    ("place", "why"),
    [("", "is a directory"), ("missing/page.html", "there is no directory"), ("pipe", "is not a file")],
)
def test_a_place_that_cannot_be_written_is_a_sentence(light: World, place: str, why: str) -> None:
    os.mkfifo(light.root / "pipe")
    done = light.command("hmem-night", "report", "--html", str(light.root / place), check=False)
    assert done.returncode == 24
    assert why in done.stderr
    assert "Traceback" not in done.stderr
    assert light.command("hmem-night", "report", "--nights", "0", check=False).returncode == 2


def test_what_was_refused_has_its_reasons() -> None:
    summary = {
        "reasons": {"it is not JSON": 2},
        "set_aside": {
            "t1": {"chat_id": "9912", "reason": "ValueError"},
            "t2": {"chat_id": "9912", "reason": "ValueError"},
        },
        "gate": {"warn": "The new release finds less."},
        "mirror_failed": None,
        "not_swept": "the server is away",
    }
    assert list(refused_in(7, summary)) == [
        RefusedCount(7, "record quarantined", 2, "it is not JSON"),
        RefusedCount(7, "turn that cannot be chunked", 2, "ValueError"),
        RefusedCount(7, "warning of the gate", 1, "The new release finds less."),
        RefusedCount(7, "old indexes", 1, "the server is away"),
    ]
