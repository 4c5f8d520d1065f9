"""WhatsApp's exports: every line format, who said it, and when."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from nightly.imports.candidates import Wanted
from shared.errors import InvalidInput
from tests.nightly.imports.exports.builders import (
    BERLIN,
    NOON,
    gpt_conversation,
    gpt_node,
    left,
    read,
    said,
    turns,
    unread,
    written,
    zipped,
)

AT = datetime(2023, 12, 31, 23, 59, tzinfo=BERLIN).timestamp()
LRM, RLM, NARROW = "\u200e", "\u200f", "\u202f"


@pytest.mark.parametrize(
    ("line", "second"),
    [
        ("31/12/2023, 23:59 - Ann: hello", 0),
        ("31/12/2023 23:59 - Ann: hello", 0),
        ("31/12/23, 23:59 - Ann: hello", 0),
        ("31.12.23, 23:59 - Ann: hello", 0),
        ("31/12/2023 à 23:59 - Ann: hello", 0),
        ("31.12.2023 klo 23.59 - Ann: hello", 0),
        ("2023-12-31 23:59 - Ann: hello", 0),
        ("2023/12/31 23:59 - Ann: hello", 0),
        ("2023. 12. 31. 23:59 - Ann: hello", 0),
        ("2023. 12. 31. 오후 11:59 - Ann: hello", 0),
        ("2023년 12월 31일 오후 11:59 - Ann: hello", 0),
        ("2023年12月31日 下午11:59 - Ann: hello", 0),
        ("12/31/23, 11:59 PM - Ann: hello", 0),
        (f"12/31/23, 11:59{NARROW}PM - Ann: hello", 0),
        ("31/12/2023, 11:59 p. m. - Ann: hello", 0),
        ("[31/12/23, 23:59:07] Ann: hello", 7),
        ("[31.12.23, 23:59:07] Ann: hello", 7),
        (f"{LRM}[12/31/23, 11:59:07{NARROW}PM] ~{NARROW}Ann: hello", 7),
        ("[31/12/2023 à 23:59:07] Ann : hello", 7),
        ("[2023-12-31, 11:59:07 p.m.] Ann: hello", 7),
        ("31.12.2023 ÖS 11:59 - Ann: hello", 0),
        ("2023. 12. 31. du. 11:59 - Ann: hello", 0),
        ("31.12.2023, 11:59 nachm. - Ann: hello", 0),
        ("31/12/2023, 11:59 PTG - Ann: hello", 0),
        ("2023-12-31 kl. 11:59 em - Ann: hello", 0),
        ("31/12/2023 às 23:59 - Ann: hello", 0),
        ("31.12.23, 11:59 μ.μ. - Ann: hello", 0),
        ("2023/12/31 晚上11:59 - Ann: hello", 0),
        (f"{RLM}31{RLM}/12{RLM}/2023، 11:59 م - {RLM}Ann: hello", 0),
        (f"[{RLM}31{RLM}/12{RLM}/2023، 11:59:07 م] Ann: hello", 7),
        ("31/12/2566 23:59 - Ann: hello", 0),
    ],
)
def test_each_way_to_write_a_line(tmp_path: Path, line: str, second: int) -> None:
    (turn,) = turns(read("whatsapp", written(tmp_path / "_chat.txt", line)))
    assert (turn.role, turn.name, turn.content, turn.timestamp) == ("user", "Ann", "hello", AT + second)


ANDROID = """31/12/2023, 23:57 - Messages and calls are end-to-end encrypted. Tap to learn more.
31/12/2023, 23:58 - Ann: first line
second line

12 monkeys, 3 - not: a date
31/12/2023, 23:58 - Bob: <Media omitted>
31/12/2023, 23:58 - Bob: ok
31/12/2023, 23:58 - Bob: ok
31/12/2023, 23:59 - Ann: IMG-20231231-WA0001.jpg (file attached)
our dog 🐕
31/12/2023, 23:59 - Bob: This message was deleted
31/12/2023, 23:59 - Bob: IMG-2.jpg (file attached)
31/12/2023, 23:59 - \u202a+49 170 1234567\u202c: fine <This message was edited>
01/01/2024, 00:01 - Bob added Carl
"""


def test_an_android_chat(tmp_path: Path) -> None:
    reads = read("whatsapp", written(tmp_path / "WhatsApp Chat with Ann.txt", ANDROID.replace("\n", "\r\n")))
    assert [(turn.name, turn.content) for turn in turns(reads)] == [
        ("Ann", "first line\nsecond line\n\n12 monkeys, 3 - not: a date"),
        ("Bob", "ok"),
        ("Bob", "ok"),
        ("Ann", "our dog 🐕"),
        ("+49 170 1234567", "fine"),
    ]
    assert turns(reads)[3].origin.attachment is not None
    assert len({turn.turn_id for turn in turns(reads)}) == 5, "two equal messages are two"
    assert sorted(left(reads)) == [
        "a notice of WhatsApp",
        "a notice of WhatsApp",
        "deleted, or not received yet",
        "media",
        "media",
    ]
    assert unread(reads) == []


def test_an_ios_chat_in_a_zip_has_the_same_ids(tmp_path: Path) -> None:
    ios = (
        f"[31.12.23, 23:57:01] Family: {LRM}Messages and calls are end-to-end encrypted.\n"
        "[31.12.23, 23:58:30] Ann E.: first line\nsecond line\n\n12 monkeys, 3 - not: a date\n"
        f"[31.12.23, 23:58:40] Bob: {LRM}image omitted\n[31.12.23, 23:58:41] Bob: ok\n[31.12.23, 23:58:42] Bob: ok\n"
        f"{LRM}[31.12.23, 23:59:00] Ann E.: {LRM}<attached: 00000012-PHOTO-2023-12-31.jpg>\n"
        f"[31.12.23, 23:59:50] +49 170 1234567: fine {LRM}<This message was edited>\n"
    )
    packed = zipped({"_chat.txt": ios, "00000012-PHOTO-2023-12-31.jpg": b"\xff\xd8"})
    reads = read("whatsapp", written(tmp_path / "WhatsApp Chat - Family.zip", packed))
    assert [turn.content for turn in turns(reads)][1:] == ["ok", "ok", "fine"]
    android = turns(read("whatsapp", written(tmp_path / "a.txt", ANDROID)))
    assert {turn.turn_id for turn in turns(reads)} < {turn.turn_id for turn in android}, "by minute and words"
    assert len(left(reads)) == 3


def test_a_later_export_repeats_the_ids_of_an_earlier_one(tmp_path: Path) -> None:
    lines = ANDROID.splitlines(keepends=True)
    early = turns(read("whatsapp", written(tmp_path / "a.txt", "".join(lines[:8]))))
    late = turns(read("whatsapp", written(tmp_path / "b.txt", "".join(lines))))
    assert [turn.turn_id for turn in late][: len(early)] == [turn.turn_id for turn in early]
    assert early


def test_the_order_of_dates_is_found_or_asked_for(tmp_path: Path) -> None:
    def at(*dates: str, order: str | None = None) -> list[str]:
        content = "".join(f"{date}, 10:00 - Ann: x{number}\n" for number, date in enumerate(dates))
        found = turns(read("whatsapp", written(tmp_path / "c.txt", content), dates=order))
        return [f"{datetime.fromtimestamp(turn.timestamp, BERLIN):%Y-%m-%d}" for turn in found]

    assert at("03/04/24", "13/04/24") == ["2024-04-03", "2024-04-13"]
    assert at("03/04/24", "04/13/24") == ["2024-03-04", "2024-04-13"]
    assert at("30/01/24", "02/02/24") == ["2024-01-30", "2024-02-02"]
    assert at("01/02/24", "02/01/24") == ["2024-01-02", "2024-02-01"], "in the other order it would go back"
    assert at("03.04.24") == ["2024-04-03"]
    with pytest.raises(InvalidInput, match="--dates"):
        at("03/04/24", "04/04/24")
    assert at("03/04/24", order="mdy") == ["2024-03-04"]
    assert at("24/03/04", order="ymd") == ["2024-03-04"]


def test_the_bot_of_a_chat_is_the_assistant(tmp_path: Path) -> None:
    path = written(tmp_path / "c.txt", "31/12/23, 10:00 - Ann: hi\n31/12/23, 10:00 - Meta AI: hello\n")
    assert said(read("whatsapp", path, bot="meta ai")) == [("user", "hi"), ("asst", "hello")]
    assert said(read("whatsapp", path)) == [("user", "hi"), ("user", "hello")]


def test_who_is_the_person_of_the_chat_has_no_name_there(tmp_path: Path) -> None:
    path = written(tmp_path / "_chat.txt", "31/12/2023, 23:59 - Ann: hello\n31/12/2023, 23:59 - Bob: hi\n")
    reads = read("whatsapp", path, as_="ann")
    mine, who = turns(reads), "people in it: Ann, Bob (--as NAME says which of them is you)"
    assert [turn.name for turn in mine] == [None, "Bob"]
    assert who not in [one.note for one in reads]
    assert who in [one.note for one in read("whatsapp", path)]
    with pytest.raises(InvalidInput, match="is called Eve: there are Ann, Bob"):
        read("whatsapp", path, as_="Eve")
    assert [turn.turn_id for turn in mine] == [turn.turn_id for turn in turns(read("whatsapp", path))]
    export = written(tmp_path / "conversations.json", [gpt_conversation(gpt_node("q", "root", "user", "hello", NOON))])
    assert [turn.name for turn in turns(read("chatgpt", export, Wanted(chat="-100"), as_="Ann"))] == ["Ann"]
