"""Files of messages in exports: readable names that are ours, links, and the way back in."""

from __future__ import annotations

import json
import re
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from nightly.archive.export import ExportScope, export_archive
from nightly.night.progress import Reporter
from shared.turns.conversation import FileNamer, ending_of
from shared.turns.media import media_of
from shared.turns.records import Tombstone, Turn
from tests.nightly.archive.media.kept_media import PHOTO, entry, file_of, keep, send, sha256
from tests.support.world import World

NOON = 1_770_638_400.0
#: What a sender may call a file, and what could become of it.
HOSTILE = [
    "../../etc/passwd", "..\\..\\x.jpg", "/etc/shadow", "C:\\con.jpg", "a/b.jpg", "]] ![[Secret]] `= 1`.jpg", "x](http://e/).jpg", "%%hidden%%.jpg",
    "<% tp.system.prompt() %>.jpg", "#tag ^block |alias.jpg", "\u202egpj.exe", "a\nb.jpg", "a\0b.jpg", ".hidden", "note.md", "run.sh", "page.html",
    "x" * 5000 + ".jpg", "ж" * 5000, "@/etc/passwd", "`rm -rf`", "$(id).jpg", "key:: value", "  ", "...", "~root.jpg", "-rf.jpg", "\ud83d.jpg",
]  # fmt: skip
ENDINGS = "jpg|png|gif|webp|ogg|mp3|m4a|txt|bin|pdf"


def export(world: World, out: str = "out", **wanted: bool) -> Path:
    folder = world.root / out
    export_archive(world.settings(), folder, ExportScope(**wanted), Reporter(quiet=True))  # type: ignore[arg-type]
    return folder / "9912"


def turn(name: str | None, mime: str = "image/jpeg", kind: str = "photo") -> Turn:
    media = entry(PHOTO, mime=mime, kind=kind) | ({"name": name} if name is not None else {})
    return Turn("t1", "user", "9912", "x", NOON, extra={"media": [media]})


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_of_a_sender_does_anything(name: str) -> None:
    for mime in ("image/jpeg", "text/markdown", "text/html", "application/x-sh", "image/svg+xml"):
        made = turn(name, mime)
        (one,) = media_of(made.extra)
        given = FileNamer(ZoneInfo("UTC")).name(made, one)
        assert re.fullmatch(rf"2026-02-09_12-00_[^\W_]+(-[^\W_]+)*\.({ENDINGS})", given), given
        assert len(given.encode()) < 120


def test_names_are_readable_and_never_the_same() -> None:
    namer = FileNamer(ZoneInfo("Europe/Berlin"))
    made = [turn(name) for name in ("Holiday photo (2).JPG", "holiday PHOTO 2.png", None, "Отпуск.jpg")]
    names = [namer.name(one, media_of(one.extra)[0]) for one in made]
    assert names == [
        "2026-02-09_13-00_Holiday-photo-2.jpg", "2026-02-09_13-00_holiday-PHOTO-2-2.jpg", "2026-02-09_13-00_photo.jpg", "2026-02-09_13-00_Отпуск.jpg",
    ]  # fmt: skip
    assert [ending_of(mime) for mime in ("text/html", "application/x-sh", "image/svg+xml", "IMAGE/PNG")] == [
        "txt",
        "bin",
        "bin",
        "png",
    ]


def test_files_lie_beside_the_conversation_and_are_linked(light: World) -> None:
    keep(light, "t1", PHOTO)
    keep(light, "t2", b"%PDF the contract")
    pdf = entry(b"%PDF the contract", kind="document", mime="application/pdf", name="Contract [final].pdf")
    light.say("t1", "look at this", timestamp=NOON, extra={"media": [entry(PHOTO)]})
    light.say("t2", "and read this", timestamp=NOON + 60, extra={"media": [pdf]})
    light.night()
    folder = export(light)
    photo, contract = "2026-02-09_12-00_photo.jpg", "2026-02-09_12-01_Contract-final.pdf"
    assert {path.name: path.read_bytes() for path in (folder / "media").iterdir()} == {
        photo: PHOTO,
        contract: b"%PDF the contract",
    }
    document = (folder / "conversation.md").read_text()
    assert f"![2026-02-09\\_12-00\\_photo.jpg](media/{photo})" in document
    assert f"\n[2026-02-09\\_12-01\\_Contract-final.pdf](media/{contract})" in document
    lines = [json.loads(line) for line in (folder / "media.jsonl").read_text().splitlines()]
    assert [(line["turn_id"], line["sha256"], line["file"]) for line in lines] == [
        ("t1:user", sha256(PHOTO), f"media/{photo}"), ("t2:user", sha256(b"%PDF the contract"), f"media/{contract}"),
    ]  # fmt: skip
    assert oct((folder / "media" / photo).stat().st_mode & 0o777) == "0o600"


def test_hidden_damaged_and_missing_files_are_not_exported(light: World) -> None:
    for task in ("hidden", "damaged", "gone", "whole"):
        send(light, task, PHOTO, timestamp=NOON)
    light.push_tombstone(Tombstone("s1", "9912", NOON + 9, turn_ids=frozenset({"hidden:user"})))
    light.night()
    file_of(light, "damaged", PHOTO).write_bytes(b"x")
    file_of(light, "gone", PHOTO).unlink()
    folder = export(light)
    assert [path.read_bytes() for path in (folder / "media").iterdir()] == [PHOTO]
    lines = {
        (line := json.loads(text))["turn_id"]: line["file"]
        for text in (folder / "media.jsonl").read_text().splitlines()
    }
    assert {turn_id: bool(file) for turn_id, file in lines.items()} == {
        "damaged:user": False,
        "gone:user": False,
        "whole:user": True,
    }
