"""The byte scan: a piece of a text is found wherever it stands, and what is kept is no evidence."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from shared.system import byte_scan
from shared.system.byte_scan import MOST_WINDOWS, Needles, scan, scan_values

TEXTS = ["the zanzibar lighthouse canary sleeps at noon", "фиолетовый жираф читает канареечный роман"]


def places(folder: Path, needles: Needles) -> set[str]:
    return {Path(one.place).name for one in scan([folder], needles).found}


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_found_in_every_format(tmp_path: Path, text: str) -> None:
    (tmp_path / "plain.txt").write_text(f"before {text} after")
    (tmp_path / "part.txt").write_text(text[: len(text) * 3 // 4])
    (tmp_path / "utf8.json").write_text(json.dumps({"content": text}, ensure_ascii=False))
    (tmp_path / "ascii.json").write_text(json.dumps({"content": text}))
    (tmp_path / "twice.json").write_text(json.dumps({"task": json.dumps({"message": text})}))
    (tmp_path / "base64.json").write_text(
        json.dumps({"value_base64": base64.b64encode(f"\xff {text}".encode()).decode()})
    )
    (tmp_path / "binary").write_bytes(os.urandom(1000).replace(b"\n", b"") + text.encode() + b"\0\xff" * 500)
    (tmp_path / "innocent.txt").write_text("nothing of the kind")
    with closing(sqlite3.connect(tmp_path / "rows.sqlite")) as connection:
        connection.execute("CREATE TABLE t (words TEXT)")
        connection.execute("INSERT INTO t VALUES (?)", [max(text.split(), key=len).casefold()])
        connection.commit()
    assert places(tmp_path, Needles.of([text])) == {p.name for p in tmp_path.iterdir()} - {"innocent.txt"}


def test_across_the_border_of_two_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_scan, "LARGE_BYTES", 0)
    monkeypatch.setattr(byte_scan, "BLOCK_BYTES", 4096)
    needles = Needles.of(TEXTS[:1])
    assert needles.only_windows().patterns()
    for at in (0, 4000, 4080, 4095, 4096, 8190, 12_000):
        (tmp_path / "large").write_bytes(b"x" * at + TEXTS[0].encode() + b"y" * 5000)
        assert places(tmp_path, needles.only_windows()) == {"large"}, at
    (tmp_path / "large").write_bytes(b"x" * 20_000)
    assert places(tmp_path, needles) == set()


def test_what_is_kept_is_no_evidence(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text(" ".join(TEXTS))
    needles = Needles.of(TEXTS)
    assert len(needles.without(["The ZANZIBAR thing"]).words) == len(needles.words) - 1
    left = needles.without([f"others say: {TEXTS[0]}"])
    assert left.said_elsewhere > 0
    assert len(left) + left.said_elsewhere == len(needles)
    (tmp_path / "one.txt").write_text(TEXTS[0])
    assert places(tmp_path, needles) == {"one.txt"}
    assert places(tmp_path, left) == set()
    assert len(needles.without(TEXTS)) == 0


def test_the_end_of_an_escape_is_no_letter_of_the_text(tmp_path: Path) -> None:
    """`\\u043e recipe` ends as a window that was cut in mid-word begins."""
    gone, kept = "x" * 32 + "e recipe of the garden party now", "его recipe of the garden party now"
    needles = Needles.of([gone]).without([kept])
    (tmp_path / "kept.json").write_text(json.dumps({"content": kept}))
    assert places(tmp_path, needles) == set()


def test_links_are_not_followed_and_pipes_do_not_keep_us(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "said.txt").write_text(TEXTS[0])
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(outside / "said.txt")
    (inside / "folder").symlink_to(outside)
    os.mkfifo(inside / "pipe")
    (inside / "skipped").mkdir()
    (inside / "skipped" / "said.txt").write_text(TEXTS[0])
    scanned = scan([inside, tmp_path / "none"], Needles.of(TEXTS), skip=[inside / "skipped"])
    assert (scanned.files, scanned.found, scanned.unreadable) == (0, [], [])


def test_names_are_looked_at_and_not_told(tmp_path: Path) -> None:
    (tmp_path / f"notes on {TEXTS[0]}.txt").write_text("")
    (found,) = scan([tmp_path], Needles.of(TEXTS)).found
    assert found.place == f"name of a file in {tmp_path}"


def test_what_cannot_be_read_is_named() -> None:
    unreadable = Path("/proc/self/mem")  # also for root
    assert scan([unreadable], Needles.of(TEXTS)).unreadable == [str(unreadable)]


def test_values_that_lie_in_no_file() -> None:
    values = [("redis: a", b"nothing"), ("redis: b", f"x\n{TEXTS[1]}\n".encode()), ("redis: b", TEXTS[0].encode())]
    scanned = scan_values(values, Needles.of(TEXTS))
    assert [(one.place, one.hits) for one in scanned.found] == [("redis: b", 2)]
    assert scanned.files == 3


def test_of_many_texts_each_is_looked_for_as_long_as_there_is_room(tmp_path: Path) -> None:
    texts = [
        f"sentence number {number} that nobody else has said in quite this way" for number in range(3 * MOST_WINDOWS)
    ]
    needles = Needles.of(texts)
    assert len(needles.windows) <= MOST_WINDOWS
    (tmp_path / "last.txt").write_text(texts[-1])
    assert places(tmp_path, needles) == {"last.txt"}
    assert scan([tmp_path], Needles.of([])).found == []
