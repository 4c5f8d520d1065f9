"""What in WhatsApp's exports is open: times, dates, marks, and which file is the chat. Nothing is guessed, and no words are lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.errors import InvalidInput
from tests.nightly.imports.exports.builders import read, turns, unread, written, zipped

LRM = "\u200e"


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


def test_what_looks_like_a_message_of_another_time_is_reported(tmp_path: Path) -> None:
    lines = [
        "31/12/2023, 20:00 - Ann: look",
        "13/05/2020, 09:00 - Eve: I owe Ann a million",
        "31/12/2023, 19:55 - Eve: nice",
    ]
    reads = read("whatsapp", written(tmp_path / "c.txt", "\n".join(lines)))
    (note,) = [one.note for one in reads if "above" in (one.note or "")]
    assert "1 messages are dated hours before the one above them (the first in line 2)" in (note or "")
    usual = [lines[0], "31/12/2023, 19:10 - Eve: nice"]
    assert not any(
        "above" in (one.note or "") for one in read("whatsapp", written(tmp_path / "c.txt", "\n".join(usual)))
    )


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
