"""The readers of old history: each format as its program writes it, and as it may come: cut, mended, with other line ends, in other hands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from nightly.archive.segments import RawRecord
from nightly.imports.candidates import ReadCandidate, Wanted
from nightly.imports.formats import Source, format_named
from shared.config.settings import settings_from
from shared.errors import InvalidInput
from tests.nightly.imports.exports.builders import HERE, left, reading, turns, written
from tests.support.night.old_history import ANN, BOT, EXCHANGE, LOG, NOON, bare, bot_chat, chunk_file, message

UTC_ZONE = ZoneInfo("UTC")
ALL = Wanted()


def said(reads: list[ReadCandidate]) -> list[tuple[str, str, str]]:
    return [(turn.chat_id, turn.role, turn.content) for turn in turns(reads)]


def places(reads: list[ReadCandidate]) -> list[str]:
    return [one.place.rpartition(":")[2].strip() for one in reads if one.unreadable is not None]


# --------------------------------------------------------------------------------------------------------- JSON lines


def test_bare_turns_keep_their_bytes(tmp_path: Path) -> None:
    lines = [bare("a1", "Привет, как дела?"), bare("a2", "🦉 owl", odd={"x": [1, 2]}), bare("a3", "x" * 3_000_000)]
    raw = b"\xef\xbb\xbf" + lines[0] + b"\r\n\r\n" + lines[1] + b"\n  \n" + lines[2]
    reads = list(reading("jsonl", written(tmp_path / "t.jsonl", raw), ALL))
    assert [one.candidate.record.value for one in reads if one.candidate and one.candidate.record] == lines
    assert reads[-1].done == len(raw)


def test_wrong_lines_are_named_and_the_others_read(tmp_path: Path) -> None:
    wrong = [
        b"not json",
        b'{"role": "user"',
        b"[1]",
        bare("b", "x", chat_id=None),
        bare("b", "x", role="tool"),
        bare("bad id", "x"),
        bare("b", "x", timestamp="soon"),
        b'{"content": "\xff\xfe"}',
        b'{"neither": 1}',
        b'{"kind": "turn", "key": "hcli:memory:a:user"}',
    ]
    reads = list(reading("jsonl", written(tmp_path / "t.jsonl", b"\n".join([*wrong, bare("good", "still here")])), ALL))
    assert places(reads) == [str(number) for number in range(1, len(wrong) + 1)]
    assert said(reads) == [("9912", "user", "still here")]
    assert not any("still here" in (one.unreadable or "") for one in reads)


def test_lines_of_an_archive_are_proven_by_their_hash(tmp_path: Path) -> None:
    records = [
        RawRecord(b"hcli:memory:a:user", "string", bare("a", "x\n\xe9")),
        RawRecord(b"hcli:memory:\xff", "hash", b"\x00\xff"),
    ]
    lines: list[dict[str, Any]] = [
        {"kind": "segment", "format": 1, "run": 3},
        {"kind": "turn", **records[0].to_json()},
        {"kind": "quarantine", **records[1].to_json(), "reason": "the key is a hash, not a string"},
        {"kind": "turn", **records[0].to_json(), "value": "another"},
        {"kind": "erased", "key": "hcli:memory:b:user", "chat_id": "1", "timestamp": 1.0, "sha256": "sha256:00"},
        {"kind": "tombstone", "tombstone": {"tombstone_id": "s", "chat_id": "9912", "created_at": 1.0, "before": None, "turn_ids": None}},
        {"kind": "text", "key": "k", "model": "m", "digest": "d", "chat_id": "9912", "text": "a summary", "turns": []},
        {"kind": "end", "lines": 7, "sha256": ""},
    ]  # fmt: skip
    reads = list(
        reading("jsonl", written(tmp_path / "s.jsonl", b"\n".join(json.dumps(x).encode() for x in lines)), ALL)
    )
    found = [one.candidate for one in reads if one.candidate]
    assert [candidate.record for candidate in found] == [records[0]]
    assert places(reads) == ["4"]
    others = ("quarantine", "erased", "tombstone", "text")
    assert left(reads) == [f"{kind}, no turn: a copy of the archive brings it (hmem restore)" for kind in others]


# ------------------------------------------------------------------------------------------------------ session files


def read_chunks(path: Path, wanted: Wanted = ALL) -> list[ReadCandidate]:
    return list(reading("chunks", path, wanted))


@pytest.mark.parametrize("crlf", [False, True])
def test_a_session_file(tmp_path: Path, crlf: bool) -> None:
    content = chunk_file(EXCHANGE)
    path = written(tmp_path / "chunk_1.txt", b"\xef\xbb\xbf" + (content.replace(b"\n", b"\r\n") if crlf else content))
    reads = read_chunks(path)
    assert [(turn.chat_id, turn.content, turn.timestamp) for turn in turns(reads)] == [
        ("9912", content, at) for at, _, content in EXCHANGE
    ]
    first, answer, last = turns(reads)
    assert (first.role, answer.role, last.role) == ("user", "asst", "user")
    assert first.task_id == answer.task_id != last.task_id
    assert answer.extra == {"source": "chunks"}


def test_what_a_session_file_may_lack(tmp_path: Path) -> None:
    content = (
        b"[2026-02-09 12:00:00 UTC] SYSTEM:\nx\n\n---\n\n[2026-99-09 12:00:00 UTC] USER:\nx\n\n---\n\n"
        b"[2026-02-09 12:00:00 UTC] USER:\n\xff\n\n---\n\n[2026-02-09 12:00:00 UTC] user:\n\n\n---\n"
        b"[2026-02-09 12:00:01 UTC] Asst:\nan answer that is cut o"
    )
    path = written(tmp_path / "chunk_1.txt", content)
    with pytest.raises(InvalidInput, match="--chat"):
        read_chunks(path)
    reads = read_chunks(path, Wanted(chat="77"))
    assert places(reads) == ["1", "6", "11"]
    assert left(reads) == ["without text"]
    assert said(reads) == [("77", "asst", "an answer that is cut o")]
    assert places(read_chunks(written(tmp_path / "empty.txt", b""))) == ["1"]
    assert (
        left(read_chunks(written(tmp_path / "c.txt", chunk_file(EXCHANGE)), Wanted(chat="77")))
        == ["of another chat than --chat"] * 3
    )


# ----------------------------------------------------------------------------------------------------------- audit log


def read_audit(folder: Path, entries: list[dict[str, Any] | str], wanted: Wanted) -> list[ReadCandidate]:
    lines = [entry if isinstance(entry, str) else json.dumps(entry) for entry in entries]
    path = written(folder / "audit.log", "\n".join(lines).encode())
    return list(reading("audit", path, wanted))


def test_an_audit_log(tmp_path: Path) -> None:
    reads = read_audit(tmp_path, LOG, Wanted(chat="9912"))
    assert [(turn.turn_id, turn.content, turn.timestamp) for turn in turns(reads)] == [
        ("q1:user", "сколько портов?", NOON),
        ("q1:asst", "Two", NOON + 9),
        ("q3:user", "and now?", NOON),
    ]
    assert {turn.chat_id for turn in turns(reads)} == {"9912"}
    assert places(reads) == ["10", "11"]
    assert left(reads).count("not known to be from the user of the private chat in --chat") == 3


# ------------------------------------------------------------------------------------------------------------ Telegram


def read_telegram(folder: Path, document: object, wanted: Wanted = ALL, **more: Any) -> list[ReadCandidate]:
    path = written(folder / "result.json", json.dumps(document, ensure_ascii=False).encode())
    return list(reading("telegram", path, wanted, **{"zone": UTC_ZONE, **more}))


def test_a_chat_with_the_bot(tmp_path: Path) -> None:
    reads = read_telegram(
        tmp_path,
        bot_chat(
            {"id": 1, "type": "service", "action": "create", "date": "2026-02-09T12:00:00"},
            message(2, ANN, "какая погода?"),
            message(
                3,
                BOT,
                ["It is ", {"type": "bold", "text": "cold"}, ".", {"type": "link", "text": " https://x.y"}],
                NOON + 5,
            ),
            message(4, BOT, "Second part", NOON + 6),
            message(5, ANN, "", media_type="sticker"),
            message(6, ANN, [{"type": "bot_command", "text": "/new"}]),
            message(7, ANN, [{"type": "bot_command", "text": "/run"}, " uptime"]),
            message(8, BOT, "Queued task `1a2b`...\nPolling for result..."),
            message(9, BOT, "up 3 days"),
            {"id": 10, "type": "unsupported"},
            message(11, ANN, {"odd": 1}),
            message(12, ANN, "never", at=-1),
        ),
    )
    assert said(reads) == [
        ("9912", "user", "какая погода?"),
        ("9912", "asst", "It is cold. https://x.y"),
        ("9912", "asst", "Second part"),
        ("9912", "user", "uptime"),
        ("9912", "asst", "up 3 days"),
    ]
    asked, answered, second, task, result = turns(reads)
    assert (asked.name, answered.name, asked.timestamp) == ("Аня", None, NOON)
    assert asked.task_id == answered.task_id != second.task_id
    assert task.task_id == result.task_id
    assert len(left(reads)) == 5
    assert places(reads) == ["message 11", "message 12"]


@pytest.mark.parametrize(
    ("kind", "number", "chat_id"),
    [
        ("private_group", 4_511_223, "-4511223"),
        ("private_supergroup", 1_234_567_890, "-1001234567890"),
        ("public_supergroup", 99, "-1000000000099"),
    ],
)
def test_groups_have_the_number_that_the_bot_knows(tmp_path: Path, kind: str, number: int, chat_id: str) -> None:
    asked = message(1, ANN, [{"type": "mention", "text": "@HelperBot"}, ", what now?"])
    group = {"name": "Home", "type": kind, "id": number, "messages": [
        asked, message(2, 5, "between"), message(3, BOT, "This.", reply_to_message_id=1)]}  # fmt: skip
    with pytest.raises(InvalidInput, match="It is not known which sender"):
        read_telegram(tmp_path, group)
    for bot, token in (("helper", None), (str(BOT), None), (None, str(BOT))):
        reads = read_telegram(tmp_path, group, bot=bot, token=token)
        assert {turn.chat_id for turn in turns(reads)} == {chat_id}
        first, _, answer = turns(reads)
        assert (answer.role, answer.task_id) == ("asst", first.task_id), "it replies to the first"
    assert {turn.chat_id for turn in turns(read_telegram(tmp_path, group, Wanted(chat="7"), bot="Helper"))} == {"7"}
    with pytest.raises(InvalidInput, match="writes displayed names"):
        read_telegram(tmp_path, group, bot="@nobody")


def test_in_a_chat_of_people_nobody_is_the_assistant(tmp_path: Path) -> None:
    """A friend's words are never the bot's; two chats in one of ours, each with a message 1, lose nothing."""
    talk = [message(1, ANN, "/shall we?"), message(2, 5, "yes", NOON + 9) | {"from": "Dora"}]
    friend = {"name": "Dora", "type": "personal_chat", "id": 5, "messages": talk}
    group = {"name": "Choir", "type": "private_supergroup", "id": 42, "messages": talk}
    with pytest.raises(InvalidInput, match=r"a chat of people\. Name the bot's chat that it belongs to with --chat=ID"):
        read_telegram(tmp_path, friend)
    with pytest.raises(InvalidInput, match="a chat of people"):
        read_telegram(tmp_path, group, bot="-")
    reads = read_telegram(tmp_path, friend, HERE)
    assert [(turn.role, turn.name, turn.content) for turn in turns(reads)] == [
        ("user", "Аня", "/shall we?"),
        ("user", "Dora", "yes"),
    ]
    assert not any(one.candidate.by_words for one in reads if one.candidate), "not what the bot may have recorded"
    both = turns(reads) + turns(read_telegram(tmp_path, group, HERE, bot="-"))
    assert len({turn.turn_id for turn in both}) == 4
    read_telegram(tmp_path, friend, HERE)  # the file
    source = Source([], ALL, settings_from({"allowed_chats": "9912"}))
    read = format_named("telegram").reading(source)(tmp_path / "result.json", 0)
    assert said(list(read)) == [("9912", "user", "/shall we?"), ("9912", "user", "yes")], (
        "the only chat that it answers"
    )


def test_of_an_account_only_the_chats_with_the_bot(tmp_path: Path) -> None:
    other = {
        "name": "Bea",
        "type": "personal_chat",
        "id": 42,
        "messages": [message(1, 42, "a secret"), message(2, ANN, "of ours")],
    }
    document = {"personal_information": {"user_id": ANN}, "left_chats": {"list": [bot_chat(message(1, BOT, "Hello"))]},
                "chats": {"list": [other, {"type": "saved_messages", "id": ANN, "messages": [message(1, ANN, "note")]}]}}  # fmt: skip
    with pytest.raises(InvalidInput, match="--bot"):
        read_telegram(tmp_path, document)
    with pytest.raises(InvalidInput, match="export one chat alone"):
        read_telegram(tmp_path, document, bot="-")
    reads = read_telegram(tmp_path, document, bot="Helper")
    assert said(reads) == [("9912", "asst", "Hello")], "nobody but the bot wrote: the chat is its owner's"
    assert left(reads) == ["of a chat without the bot"] * 3


def test_what_an_export_says_of_replies_forwards_and_captions_is_kept(tmp_path: Path) -> None:
    bob = message(1, 5, "The train leaves at 7:40", photo="photos/1.jpg") | {"from": "Bob"}
    reads = read_telegram(tmp_path, bot_chat(
        bob, message(2, ANN, "please remember this", reply_to_message_id=1),
        message(3, ANN, "I am vegetarian", forwarded_from="Cem"), message(4, ANN, "from nobody", forwarded_from=None),
        message(5, ANN, "the bill", file="files/b.pdf", file_name="b.pdf"), message(6, BOT, "Noted.", reply_to_message_id=5),
        message(7, ANN, "sure?", reply_to_message_id=6), message(8, ANN, "gone", reply_to_message_id=99),
        message(9, ANN, "odd", reply_to_message_id=[1], forwarded_from={"x": 1}),
    ), Wanted(chat="-5"))  # fmt: skip
    found = {turn.content: turn.origin.to_json() for turn in turns(reads)}
    private = {"chat_type": "private"}
    photo = {"attachment": "photo", "from": "Bob", "user_id": "5", "text": "The train leaves at 7:40"}
    assert found["please remember this"] == private | {"quote": photo}
    assert found["I am vegetarian"] == private | {"forward": {"from": "Cem"}}
    assert found["from nobody"] == private | {"forward": {}}
    assert found["the bill"] == private | {"attachment": {"kind": "document", "name": "b.pdf"}}
    assert found["sure?"] == private | {
        "quote": {"text": "Noted.", "from": "Helper", "user_id": str(BOT), "by_bot": True}
    }
    assert found["gone"] == private
    assert found["Noted."] == {}
    assert found["odd"] == private | {"forward": {}}
