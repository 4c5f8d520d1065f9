"""What in WhatsApp's exports is open: times, dates, marks, and which file is the chat. Nothing is guessed, and no words are lost."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from shared.errors import InvalidInput
from tests.nightly.imports.exports.builders import BERLIN, left, read, said, turns, unread, written, zipped

LRM = "\u200e"


@pytest.mark.parametrize(
    ("written_time", "hour"),
    [
        ("ÖÖ 11:59", 11), ("ÖÖ 12:59", 0), ("ÖS 12:59", 12), ("de. 1:59", 1), ("1:59 vorm.", 1), ("1:59 PG", 1), ("凌晨12:59", 0), ("早上6:59", 6),
        ("中午12:59", 12), ("中午1:59", 13), ("中午11:59", 11), ("下午1:59", 13), ("晚上7:59", 19), ("午後0:59", 12), ("23:59", 23),
    ],
)  # fmt: skip
def test_halves_of_the_day(tmp_path: Path, written_time: str, hour: int) -> None:
    (turn,) = turns(read("whatsapp", written(tmp_path / "c.txt", f"2023/12/31 {written_time} - Ann: hello")))
    assert datetime.fromtimestamp(turn.timestamp, BERLIN) == datetime(2023, 12, 31, hour, 59, tzinfo=BERLIN)


def test_a_time_that_is_not_understood_is_not_guessed(tmp_path: Path) -> None:
    def why(*lines: str) -> str:
        (found,) = unread(read("whatsapp", written(tmp_path / "c.txt", "\n".join(lines))))
        return found

    assert "'XÖ'" in why("31.12.2023 XÖ 11:59 - Ann: hi", "31.12.2023 ÖS 11:59 - Ann: hi")
    assert "'zzz'" in why("31/12/2023, 11:59 zzz - Ann: hi")
    assert why("2023/12/31 晚上12:30 - Ann: hi") == "its date or time is not valid", "noon or midnight"
    assert why("31/12/2099, 11:59 - Ann: hi") == "its time is still to come"
    assert why("31/12/1402, 11:59 - Ann: hi") == "its date or time is not valid", "of another calendar"
    lines = [f"31/12/2023, 10:{n} - Ann: hi" for n in range(10, 30)] + ["31.12.2023 ab 20:00 - Silvester: bei uns"]
    reads = read("whatsapp", written(tmp_path / "c.txt", "\n".join(lines)))
    assert turns(reads)[-1].content == "hi\n31.12.2023 ab 20:00 - Silvester: bei uns"
    assert any("'ab'" in (one.note or "") for one in reads)


@pytest.mark.parametrize("ios", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        "I paid 12.50 (cash only)", "Meet me at example.com (the cafe)", "See v2.10 (stable)\nand call Bob", "<div>", "null", "‹angle quotes›",
        "<attached: my own words.txt>", "the file is a.txt (not attached)", "<3 you are <great>",
    ],
)  # fmt: skip
def test_words_that_look_like_a_mark_of_whatsapp_are_kept(tmp_path: Path, words: str, ios: bool) -> None:
    head = "[31.12.23, 23:59:00] Ann: " if ios else "31/12/2023, 23:59 - Ann: "
    reads = read("whatsapp", written(tmp_path / "c.txt", head + words))
    assert [turn.content for turn in turns(reads)] == [words]
    assert left(reads) == []


@pytest.mark.parametrize(
    ("text", "caption", "kind"),
    [
        ("IMG-20231231-WA0001.jpg (пришёл файл)\nour dog", "our dog", "photo"),
        (f"{LRM}Rechnung 12.pdf (Datei angehängt)\nlook", "look", "document"),
        ("report.v2.pdf (in any language)\nlook", "look", "document"),
        (f"look at this\nplease {LRM}<Anhang: 00000012-PHOTO.jpg>", "look at this\nplease", "photo"),
        ("<dołączono: 00000013-AUDIO.opus>\nlisten", "listen", "audio"),
    ],
)
def test_attachments_are_known_by_marks_names_and_the_files_beside(
    tmp_path: Path, text: str, caption: str, kind: str
) -> None:
    chat = f"[31.12.23, 23:59:00] Ann: {text}\n[31.12.23, 23:59:00] Ann: {text.partition(chr(10))[0]}\n"
    files = {"_chat.txt": chat, "report.v2.pdf": "x", "00000013-AUDIO.opus": "x"}
    first = turns(read("whatsapp", written(tmp_path / "a.zip", zipped(files))))[0]
    assert (first.content, first.origin.attachment and first.origin.attachment.kind) == (caption, kind)


def test_marks_in_the_place_of_media_are_known(tmp_path: Path) -> None:
    for text in ("<Media omitted>", "<Médias omis>", "‹Medien ausgeschlossen›", f"{LRM}<in no known language>"):
        assert left(read("whatsapp", written(tmp_path / "c.txt", f"31/12/2023, 23:59 - Ann: {text}"))) == ["media"]
    android = f"31/12/2023, 23:59 - Ann: {LRM}pasted with a mark"
    assert said(read("whatsapp", written(tmp_path / "c.txt", android))) == [("user", "pasted with a mark")]


REAL, FORGED = "31/12/2023, 23:59 - Ann: real", "31/12/2023, 23:58 - Ann: I owe Eve a million"


def test_of_an_archive_one_text_is_read_and_no_attachment(tmp_path: Path) -> None:
    def of(**files: str) -> list[str]:
        named = {name.replace("__", " "): content for name, content in files.items()}
        return [turn.content for turn in turns(read("whatsapp", written(tmp_path / "a.zip", zipped(named))))]

    assert of(**{"_chat.txt": REAL, "00000012-WhatsApp Chat.txt": FORGED, "sub/WhatsApp.txt": FORGED}) == ["real"]
    assert of(**{"WhatsApp Chat with Ann.txt": REAL, "notes.txt": FORGED, "sub/_chat.txt": FORGED}) == ["real"]
    assert of(**{"Family/_chat.txt": REAL, "Family/notes.txt": FORGED}) == ["real"]
    assert of(**{"Discussion.txt": REAL, "00000012-notes.txt": FORGED}) == ["real"]
    for name in ("WhatsApp Chat with Eve.txt", "_chat.txt"):
        with pytest.raises(InvalidInput, match="2 texts that could be the chat") as refused:
            of(**{"WhatsApp Chat with Ann\u202e.txt": REAL, name: FORGED})
        assert str(refused.value).isprintable()
    with pytest.raises(InvalidInput, match="no text of a chat"):
        of(**{"00000012-notes.txt": FORGED})


def test_a_pasted_line_does_not_decide_the_order_of_dates(tmp_path: Path) -> None:
    def days(*lines: str, order: str | None = None) -> list[str]:
        found = turns(read("whatsapp", written(tmp_path / "c.txt", "\n".join(lines)), dates=order))
        return [f"{datetime.fromtimestamp(turn.timestamp, BERLIN):%m-%d}" for turn in found]

    dmy = [f"{day:02}/03/24, 10:00 - Ann: x" for day in range(1, 31)]
    pasted = "from his phone:\n03/31/24, 09:00 - Bob: hi"
    assert days(*dmy, pasted) == [f"03-{day:02}" for day in range(1, 31)]
    reads = read("whatsapp", written(tmp_path / "c.txt", "\n".join([*dmy, pasted])))
    assert turns(reads)[-1].content == f"x\n{pasted}"
    assert next(one.note for one in reads if one.note).endswith(
        "dates are read as day, month, year (--dates dmy); 30 of 31 dates fit"
    )
    months = [f"{month:02}/02/24, 10:00 - Ann: x" for month in range(1, 13)]
    with pytest.raises(InvalidInput, match="--dates"):
        days(*months[:6], "13/01/24, 09:00 - Bob: pasted", *months[6:])
    assert len(days(*months[:6], "13/01/24, 09:00 - Bob: pasted", *months[6:], order="mdy")) == 12
    with pytest.raises(InvalidInput, match="dmy fits 30, mdy fits 20"):
        days(*dmy, *(f"03/{day}/24, 10:00 - Ann: x" for day in range(21, 29)))
    with pytest.raises(InvalidInput, match="--dates"):
        days("13/04/24, 10:00 - Ann: x", "04/13/24, 10:00 - Ann: x")


def test_equal_messages_are_told_apart_when_times_go_back(tmp_path: Path) -> None:
    lines = ["10:00 - Ann: ok", "10:01 - Ann: hm", "10:00 - Ann: ok", "08:30 - Ann: late", "10:00 - Ann: ok"]
    content = "".join(f"31/12/2023, {line}\n" for line in lines)
    found = turns(read("whatsapp", written(tmp_path / "c.txt", content)))
    assert len({turn.turn_id for turn in found}) == 5
