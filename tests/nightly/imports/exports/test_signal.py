"""Signal's exports: whose chat, who said it, and when."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nightly.imports.candidates import Wanted
from shared.errors import InvalidInput
from tests.nightly.imports.exports.builders import (
    NOON,
    left,
    read,
    said,
    signal_frames,
    signal_item,
    turns,
    unread,
    written,
)


def own(path: Path, *items: dict[str, object]) -> Path:
    return written(path, "".join(json.dumps(line) + "\n" for line in signal_frames(*items)))


def test_signals_own_export(tmp_path: Path) -> None:
    reply = {"quote": {"authorId": "2", "targetSentTimestamp": "1", "text": {"body": "are you there?"}}}
    items = [
        signal_item("2", "are you there?"),
        {**signal_item("1", "yes 🦉", NOON + 1), "standardMessage": {"text": {"body": "yes 🦉"}, **reply}},
        signal_item("2", "", NOON + 2),
        {"chatId": "10", "authorId": "2", "dateSent": "1", "updateMessage": {"simpleUpdate": {}}},
        {**signal_item("2", "when?"), "dateSent": "soon"},
    ]
    own(tmp_path / "export" / "main.jsonl", *items)
    written(tmp_path / "export" / "metadata.json", "{}")
    reads = read("signal", tmp_path / "export")
    assert [(turn.name, turn.content, turn.timestamp) for turn in turns(reads)] == [
        ("Bob B", "are you there?", NOON),
        ("Ann Example", "yes 🦉", NOON + 1),
    ]
    assert turns(reads)[1].origin.to_json()["quote"] == {"text": "are you there?", "from": "Bob B"}
    assert unread(reads) == ["its time is not valid"]
    assert len(left(reads)) == 2
    bot = read("signal", tmp_path / "export", bot="bob b")
    assert [turn.role for turn in turns(bot)] == ["asst", "user"]


def test_who_is_mentioned_stands_in_the_words(tmp_path: Path) -> None:
    bob = {"length": 1, "mentionAci": "Qm9i"}
    ranges = [{"start": 9, "length": 1, "mentionAci": "T3du"}, {"start": 3, **bob}, {"length": 2, "style": "BOLD"}]
    text = {"body": "🦉 \ufffc and \ufffc: \ufffc is an object", "bodyRanges": ranges}
    quote = {"authorId": "2", "text": {"body": "\ufffc?", "bodyRanges": [bob]}}
    lines = signal_frames(signal_item("2", "x"), signal_item("1", "yes", quote=quote))
    lines[3]["recipient"]["contact"]["aci"] = "Qm9i"
    lines[7]["chatItem"]["standardMessage"]["text"] = text
    found = turns(read("signal", written(tmp_path / "main.jsonl", "\n".join(map(json.dumps, lines)))))
    assert [turn.content for turn in found] == ["🦉 @Bob B and @Ann Example: \ufffc is an object", "yes"]
    assert found[1].origin.to_json()["quote"]["text"] == "@Bob B?"


def test_an_export_without_a_message_says_so(tmp_path: Path) -> None:
    path = own(tmp_path / "main.jsonl")
    assert [one.note for one in read("signal", path) if one.note] == [f"{path} holds no message and no fact"]
    assert unread(read("signal", written(path, '{"some": "thing"}'))) == ["it is no frame of Signal's that is known"]


def test_chats_of_one_name_or_of_none_do_not_mix(tmp_path: Path) -> None:
    people: dict[str, dict[str, object]] = {
        "2": {"contact": {"profileGivenName": "Bob"}},
        "3": {"contact": {"profileGivenName": "Bob\u202e"}},
        "4": {"contact": {"username": "eve.01"}},
        "5": {"contact": {}},
        "6": {"group": {"snapshot": {}}},
        "1": {"self": {}},
    }
    frames: list[dict[str, object]] = [{"recipient": {"id": name, **one}} for name, one in people.items()]
    frames += [{"recipient": {"id": "7", "contact": {"profileGivenName": "Bob"}}}]
    frames += [{"chat": {"id": f"1{name}", "recipientId": name}} for name in (*people, "7")]
    frames += [{"chatItem": signal_item("2", f"in 1{name}", chat=f"1{name}")} for name in (*people, "7")]
    frames += [{"chatItem": signal_item("2", "again", chat="17")}]
    path = written(tmp_path / "main.jsonl", "\n".join(map(json.dumps, frames)))
    with pytest.raises(InvalidInput, match="--only") as refused:
        read("signal", path)
    told = str(refused.value)
    for listed in ("#17 (Bob; a person; 2 messages)", "#14 (eve.01; a person", "#15 (without a name; a person", "#16 (without a name; a group",
                   "#11 (Note to Self; notes to oneself", "#12 (Bob; a person; 1 messages)"):  # fmt: skip
        assert listed in told
    assert told.isprintable()
    with pytest.raises(InvalidInput, match=r"that --only fits: #17 .*; #12 ") as refused:
        read("signal", path, only="bob")
    assert "#14" not in str(refused.value)
    assert said(read("signal", path, only="#17")) == [("user", "in 17"), ("user", "again")]
    assert said(read("signal", path, only="note to self")) == [("user", "in 11")]
    assert said(read("signal", path, only="nobody")) == []
    for name in ("a/Bob", "b/Bob"):
        row = {"date": "2026-02-09T13:00:00", "sender": "Bob", "body": f"in {name}"}
        written(tmp_path / "out" / name / "data.json", json.dumps(row))
    with pytest.raises(InvalidInput, match=r"a/Bob \(Bob; a directory of sigexport; 1 messages\)"):
        read("signal", tmp_path / "out", only="Bob")
    assert said(read("signal", tmp_path / "out", only="b/Bob")) == [("user", "in b/Bob")]


def test_sigexports_files(tmp_path: Path) -> None:
    rows = [
        {"date": "2026-02-09T13:00:00.250000", "sender": "Bob", "body": "hello  ", "quote": "", "sticker": None, "attachments": []},
        {"date": "2026-02-09T13:00:05", "sender": "Me", "body": "two\nlines", "quote": "\n\n> hello\n\n",
         "attachments": [{"name": "a.pdf", "path": "media/a.pdf"}]},
        {"date": "2026-02-09T13:00:06", "sender": "Me", "body": "", "quote": "", "attachments": [{"name": "b.jpg", "path": "media/b.jpg"}]},
        {"date": "x", "sender": "Me", "body": "odd"},
    ]  # fmt: skip
    chat = tmp_path / "out" / "Bob"
    written(chat / "data.json", "".join(json.dumps(row) + "\n" for row in rows))
    reads = read("signal", tmp_path / "out")
    assert [(turn.name, turn.content, turn.timestamp) for turn in turns(reads)] == [
        ("Bob", "hello", NOON + 0.25),
        ("Me", "two\nlines", NOON + 5),
    ]
    assert turns(reads)[1].origin.quote is not None
    assert unread(reads) == ["its time is not valid"]
    official = own(
        tmp_path / "main.jsonl", signal_item("2", "hello", NOON + 0.25), signal_item("1", "two\nlines", NOON + 5)
    )
    assert [turn.turn_id for turn in turns(read("signal", official))] == [turn.turn_id for turn in turns(reads)]
    late = read("signal", tmp_path / "out", Wanted(since=NOON + 1, chat="9912"))
    assert said(late) == [("user", "two\nlines")]
