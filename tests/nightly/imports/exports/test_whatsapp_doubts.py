"""What in WhatsApp's exports is open: times, dates, marks, and which file is the chat. Nothing is guessed, and no words are lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.errors import InvalidInput
from tests.nightly.imports.exports.builders import left, read, turns, unread, written, zipped

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


@pytest.mark.parametrize("notice", [
    'Carlos cambió el asunto a "Obra: torre"', "Анна изменила тему с «Дом: крыша» на «Дом: окна»", "アン が件名を「旅行: 京都」に変更しました",
    "‏כרמל שינה את נושא הקבוצה ל״בית: גג״", "Jens ændrede emnet til »Hus: tag«.",
])  # fmt: skip
def test_a_notice_with_a_colon_in_a_name_is_no_person(tmp_path: Path, notice: str) -> None:
    lines = [
        "Undated: and in no language that is known",
        f"31/12/2023, 10:00 - {notice}",
        '31/12/2023, 10:01 - Bob "the owl": I said "no: never"',
        '31/12/2023, 10:02 - 12" pipes: ok',
        '31/12/2023, 10:02 - 12" pipes: or 5"',
    ]
    reads = read("whatsapp", written(tmp_path / "_chat.txt", "\n".join(lines)))
    assert [(turn.name, turn.content) for turn in turns(reads)] == [
        ('Bob "the owl"', 'I said "no: never"'),
        ('12" pipes', "ok"),
        ('12" pipes', 'or 5"'),
    ]
    assert [why.partition(" (")[0] for why in left(reads)] == ["ahead of the first message", "a notice of WhatsApp"]


def test_notices_by_the_groups_name_or_without_a_date_are_no_ones(tmp_path: Path) -> None:
    lines = [
        "[31.12.23, 10:00:00] Haus: Ann hat die Gruppe erstellt",
        f"[31.12.23, 10:01:00] Ann: hi\n{LRM}Bob ist beigetreten",
        f"[31.12.23, 10:02:00] Bob: hello\nyou {LRM}<Bearbeitet in keiner Sprache>",
    ]
    reads = read("whatsapp", written(tmp_path / "WhatsApp Chat - Haus (1).txt", "\n".join(lines)))
    assert [(turn.name, turn.content) for turn in turns(reads)] == [("Ann", "hi"), ("Bob", "hello\nyou")]
    assert left(reads) == ["a notice of WhatsApp"] * 2
    assert any("'Haus' is the chat's own name: 1 messages" in (one.note or "") for one in reads)
    two = written(tmp_path / "WhatsApp Chat - Bob.txt", "\n".join(lines[1:]))
    assert [turn.name for turn in turns(read("whatsapp", two))] == ["Ann", "Bob"], "a chat with Bob is called Bob"


def test_marks_in_a_language_of_no_table_are_known_by_their_form_and_reported(tmp_path: Path) -> None:
    texts = [
        "karibu <Ujumbe huu umehaririwa>", "<Faili imeachwa>", "<Faili imeachwa>", "ndiyo\nkweli <Ujumbe huu umehaririwa>",
        "IMG-2024.jpg (archivo adjuntado)", "report.pdf (archivo adjuntado)\ncuenta", "plan.pdf (final version)", "x <script>", "y <script>",
        *["Ujumbe huu umefutwa kabisa"] * 3,
    ]  # fmt: skip
    lines = [f"31/12/2023, 10:{number:02} - Ann: {text}" for number, text in enumerate(texts)]
    reads = read("whatsapp", written(tmp_path / "_chat.txt", "\n".join(lines)))
    words = [
        "karibu",
        "ndiyo\nkweli",
        "cuenta",
        "plan.pdf (final version)",
        "x <script>",
        "y <script>",
        *["Ujumbe huu umefutwa kabisa"] * 3,
    ]
    assert [turn.content for turn in turns(reads)] == words
    assert left(reads) == ["media"] * 3
    notes = [(one.note or "").partition("_chat.txt: ")[2] for one in reads if one.note][1:-1]
    assert notes == [
        "'ujumbe huu umehaririwa' (2 ×), 'faili imeachwa' (2 ×), 'archivo adjuntado' (1 ×) is read as WhatsApp's own mark of media, a file or an "
        "edit, by where it stands",
        "'final version' (1 ×) stands where WhatsApp's own marks do, but only once, or beside known ones: it came in as words",
        "'Ujumbe huu umefutwa kabisa' (3 ×) came in as words; perhaps WhatsApp wrote that in the place of deleted messages",
    ]


@pytest.mark.parametrize(
    "mark", ["<Media omitted>", "IMG-20231231-WA0001.jpg (file attached)", "ok <This message was edited>"]
)
def test_beside_a_known_mark_no_other_phrase_is_one(tmp_path: Path, mark: str) -> None:
    words = [
        "see you <big hug>", "love you <big hug>", "<big hug>", "<sleepy face>", "<sleepy face>", "sold <my old car>", "miss <my old car>",
        "plan.pdf (final version)", "plan.pdf (final version)",
    ]  # fmt: skip
    lines = [f"31/12/2023, 10:{number:02} - Ann: {text}" for number, text in enumerate([*words, mark])]
    reads = read("whatsapp", written(tmp_path / "_chat.txt", "\n".join(lines)))
    assert [turn.content for turn in turns(reads)][: len(words)] == words
    assert any("'big hug' (3 ×), 'sleepy face' (2 ×), 'my old car' (2 ×), …" in (one.note or "") for one in reads)
    unknown = read("whatsapp", written(tmp_path / "_chat.txt", "\n".join(lines[:3])))
    assert [turn.content for turn in turns(unknown)] == ["see you", "love you", "<big hug>"]


def test_what_was_copied_from_whatsapp_web_is_read_and_forges_nothing_in_an_export(tmp_path: Path) -> None:
    copied = [
        "[10:15, 4.10.2025] Ana: hola",
        "[10:16 PM, 4.10.2025] +49 170 1234567: two",
        "lines",
        "[上午10:17, 5.10.2025] Bob: hi",
    ]
    found = turns(read("whatsapp", written(tmp_path / "copied.txt", "\n".join(copied))))
    assert [(turn.name, turn.content) for turn in found] == [
        ("Ana", "hola"),
        ("+49 170 1234567", "two\nlines"),
        ("Bob", "hi"),
    ]
    phone = turns(read("whatsapp", written(tmp_path / "a.txt", f"04.10.25, 10:15 - Ana: hola\n{copied[1]}")))
    assert [(turn.name, turn.content) for turn in phone] == [("Ana", f"hola\n{copied[1]}")]
    assert phone[0].task_id != found[0].task_id
    assert (
        turns(read("whatsapp", written(tmp_path / "b.txt", "04.10.25, 10:15 - Ana: hola")))[0].task_id
        == found[0].task_id
    )


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
