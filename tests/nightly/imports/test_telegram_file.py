"""Telegram's `result.json`, read in pieces: the same as if it was read whole, however it is cut, and with nothing of it left in memory."""

from __future__ import annotations

import json
import os
import threading
import tracemalloc
from pathlib import Path
from typing import Any
from unittest import mock
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nightly.imports import json_stream
from nightly.imports.candidates import BOM, Wanted
from nightly.imports.json_stream import JsonStream
from shared.errors import InvalidInput
from shared.turns.records import RecordRefused
from tests.nightly.imports.exports.builders import reading
from tests.support.night.old_history import ANN, BOT, NOON, bot_chat, message

UTC_ZONE = ZoneInfo("UTC")
SLOW = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


class Members(list[tuple[str, Any]]):
    """An object with its members in this order, several of one name perhaps."""


def written(value: Any, ascii_only: bool = False) -> str:
    if isinstance(value, Members):
        return "{" + ", ".join(f"{json.dumps(name)}:\n{written(one, ascii_only)}" for name, one in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(one, ascii_only) for one in value) + "]"
    if isinstance(value, dict):
        return written(Members(value.items()), ascii_only)
    return json.dumps(value, ensure_ascii=ascii_only or not _is_unicode(value))


def _is_unicode(value: object) -> bool:
    return not isinstance(value, str) or not any(0xD800 <= ord(letter) < 0xE000 for letter in value)


def outcome(path: Path, wanted: Wanted, bot: str | None, token: str | None, piece: int) -> tuple[list[Any], str]:
    """All that it yields of pieces of this size, and what it raises; of broken JSON not where it is broken, which the size decides."""
    reads, raised = list[Any](), ""
    try:
        with mock.patch.object(json_stream, "_PIECE", piece):
            for one in reading("telegram", path, wanted, zone=UTC_ZONE, bot=bot, token=token):
                record = one.candidate.record if one.candidate else None
                why = "not JSON" if (one.unreadable or "").startswith("not JSON") else one.unreadable
                reads.append((one.done, record and (record.key, record.value), why, one.left_out, one.place))
    except (InvalidInput, TypeError) as error:
        raised = f"{type(error).__name__}: {error}"
    return reads, raised


def assert_same(
    folder: Path,
    content: bytes,
    wanted: Wanted = Wanted(),  # noqa: B008 - it is frozen
    bot: str | None = None,
    token: str | None = None,
    piece: int = 1 << 16,
) -> tuple[list[Any], str]:
    path = folder / "result.json"
    path.write_bytes(content)
    found = outcome(path, wanted, bot, token, piece)
    assert found == outcome(path, wanted, bot, token, 1 << 30)
    return found


PEOPLE = [ANN, BOT, 5, 6]
NAMES = {ANN: "Аня", BOT: "Helper", 5: "Bob", 6: "@helper"}
TEXT = st.one_of(
    st.text("ab \\\"/u0xd8\n\t\x00\x1b\x7fé🦉\ufdd0\ufeff\u2028\ud83d\ude00", max_size=12),
    st.sampled_from(["/new", "/run uptime", "Queued task 1 Polling for result", "x" * 1500, "@Helper, hi", "\ufdd0d83d"]),
)  # fmt: skip
PART = st.one_of(
    TEXT,
    st.builds(
        lambda kind, text: {"type": kind, "text": text}, st.sampled_from(["bold", "mention", "bot_command"]), TEXT
    ),
)
ODD: st.SearchStrategy[Any] = st.sampled_from([None, 7, 1.5, -0.0, True, [], {}, {"odd": [1]}, "", "9912"])


@st.composite
def messages(draw: st.DrawFn) -> Any:
    if draw(st.integers(0, 19)) == 0:
        return draw(ODD)
    who = draw(st.sampled_from(PEOPLE))
    made: dict[str, Any] = {
        "id": draw(st.integers(1, 9)),
        "type": "message",
        "date_unixtime": str(int(NOON) + draw(st.integers(0, 3))),
        "from": NAMES[who],
        "from_id": f"user{who}",
        "text": draw(st.one_of(TEXT, st.lists(PART, max_size=3))),
    }
    if draw(st.booleans()):
        made["reply_to_message_id"] = draw(st.integers(1, 9))
    more: dict[str, st.SearchStrategy[Any]] = {
        "id": ODD.filter(lambda value: value != 1.5), "type": st.sampled_from(["service", "unsupported", 1]), "date_unixtime": ODD, "from": ODD,
        "from_id": st.sampled_from([None, "channel5", 9912, 1.5, {"a": 1}]), "text": ODD, "forwarded_from": st.one_of(TEXT, ODD),
        "media_type": st.sampled_from(["sticker", "voice_message", 3]), "photo": ODD, "file": ODD, "file_name": TEXT,
        "reply_to_peer_id": ODD, "deep": st.just([[[{"a": [[]]}]]]), "text_entities": st.lists(PART, max_size=2),
    }  # fmt: skip
    for name in draw(st.lists(st.sampled_from(sorted(more)), max_size=2, unique=True)):
        made[name] = draw(more[name])
    members = list(made.items())
    if draw(st.integers(0, 5)) == 0:
        members += [("id", draw(st.integers(1, 9))), ("text", draw(TEXT))]
    return Members(draw(st.permutations(members)))


@st.composite
def chats(draw: st.DrawFn, strange: bool = True) -> Any:
    if strange and draw(st.integers(0, 30)) == 0:
        return draw(ODD)
    kind: str = draw(
        st.sampled_from(["bot_chat", "personal_chat", "private_group", "private_supergroup", "saved_messages"])
    )
    members: list[tuple[str, Any]] = [
        ("name", draw(st.sampled_from(["Helper", "helper ", "Bea", None]))),
        ("type", kind),
        ("id", draw(st.sampled_from([BOT, 42, -7, "x", None]))),
        ("messages", draw(st.lists(messages(), max_size=7))),
    ]
    extra = draw(st.integers(0, 20))
    if extra == 0:
        members.append(("messages", draw(st.one_of(ODD, st.lists(messages(), max_size=3)))))
    if extra == 1:
        members.pop()
    if extra < 5:
        members.append(("id", 43))
        members.append(("about", {"messages": [1, {"messages": []}], "list": []}))
    return Members(draw(st.permutations(members)) if extra < 8 else members)


@st.composite
def documents(draw: st.DrawFn) -> Any:
    if draw(st.booleans()):
        return draw(chats())
    members: list[tuple[str, Any]] = [("about", "an export"), ("contacts", {"list": [{"id": 1}]})]
    for name in draw(st.lists(st.sampled_from(["chats", "left_chats"]), max_size=3)):
        group = [("about", "x"), ("list", draw(st.lists(chats(), max_size=3)))]
        if draw(st.integers(0, 9)) == 0:
            group.append(("list", draw(st.one_of(ODD, st.lists(chats(), max_size=2)))))
        members.append(
            (name, draw(st.one_of(st.just(Members(group)), ODD)) if draw(st.integers(0, 9)) == 0 else Members(group))
        )
    for _ in range(draw(st.integers(0, 2))):
        members.append(
            ("personal_information", draw(st.sampled_from([{"user_id": ANN}, {"user_id": "5"}, {}, [], None])))
        )
    if draw(st.integers(0, 20)) == 0:
        members.append(("messages", draw(st.one_of(ODD, st.lists(messages(), max_size=3)))))
    return Members(draw(st.permutations(members)))


BOTS = st.sampled_from([None, None, "Helper", "@helper", str(BOT), "Bob", "nobody", ""])
WANTED = st.sampled_from([Wanted(), Wanted(), Wanted(chat="-5"), Wanted(NOON + 1, NOON + 3)])


@SLOW
@given(
    documents(), WANTED, BOTS, st.sampled_from([None, str(BOT), "1"]), st.booleans(), st.booleans(), st.integers(1, 300)
)
def test_it_yields_the_same_however_it_is_cut(
    tmp_path: Path,
    document: Any,
    wanted: Wanted,
    bot: str | None,
    token: str | None,
    ascii_only: bool,
    with_bom: bool,
    piece: int,
) -> None:
    text = written(document, ascii_only)
    content = BOM * with_bom + text.encode("utf-8")
    assert_same(tmp_path, content, wanted, bot, token, piece)
    escaped = text.replace("\\u001b", "\\x1B").replace("\\u0000", "\\x00").encode("utf-8")
    assert_same(tmp_path, BOM * with_bom + escaped, wanted, bot, token, piece)


@pytest.mark.parametrize("content", [
    b"", b" ", b"{", b"[]", b"[[{}], 1]", b'"x"', b"1", b"1.5", b"true", b"null", b"NaN", b"{}{}", b"{} x", b'{"a": 1,}', b"{}\x0c", b"{}\x00",
    b'{"messages": 1}', b'{"messages": [], "messages": {}}', b'{"chats": {"list": []}}', b'{"chats": {"list": {}}}', b'{"chats": {"list": [1]}}',
    b'{"chats": {"list": [[]]}, "messages": []}', b'{"chats": [], "left_chats": {"list": [{"messages": [1]}]}}', BOM + BOM + b"{}", BOM, b"\xef\xbb",
    b'{"a": "\xc3', b'{"a": "\xc3"}', b"{\xff", b'{"a": "\\x4"}', b'{"a": "\\\\x41", "messages": [{"id": NaN}]}', b'{"a": 01}', b'{"a": "\x01"}',
    b'{"a": ' + b"1" * 5000 + b"}", b'{"messages": [' + b"[" * 1022 + b"]" * 1022 + b"]}", b'{"messages": [' + b"[" * 1023 + b"]" * 1023 + b"]}",
    b'{"a": ' + b"[" * 1023 + b"]" * 1023 + b', "messages": []}', b'{"a": ' + b"[" * 1024 + b"]" * 1024 + b', "messages": []}',
    b"[" * 2000 + b"\xff", b'{"a": ' + b"[" * 2000,
])  # fmt: skip
def test_what_is_refused_gives_no_turn_however_it_is_cut(tmp_path: Path, content: bytes) -> None:
    for piece in (1, 1 << 16):
        reads, _ = assert_same(tmp_path, content, Wanted(chat="5"), "1", piece=piece)
        assert not [record for _, record, *_ in reads if record]


def test_a_stream_refuses_with_no_word_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(b'{"messages": ["a secret" secret]}')
    with path.open("rb") as handle, pytest.raises(RecordRefused) as refused:
        list(JsonStream(handle, 0).document())
    assert str(refused.value) == "not JSON: it is broken between byte 0 and byte 33"


def test_of_a_long_chat_only_a_piece_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    texts = (message(i, ANN if i % 2 else BOT, f"{i} " + "word " * 200, reply_to_message_id=i - 1) for i in range(4000))
    path.write_text(json.dumps(bot_chat(*texts)), encoding="utf-8")
    assert path.stat().st_size > 4_000_000
    tracemalloc.start()
    try:
        count = sum(1 for _ in reading("telegram", path, Wanted(), zone=UTC_ZONE))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 4000
    assert peak < 1_500_000


def test_a_file_that_cannot_be_rewound(tmp_path: Path) -> None:
    content = json.dumps(bot_chat(*(message(i, ANN, f"x{i}", reply_to_message_id=i - 1) for i in range(500)))).encode()
    expected, _ = assert_same(tmp_path, content)
    end, begin = os.pipe()

    def write() -> None:
        with os.fdopen(begin, "wb") as pipe:
            pipe.write(content)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found, raised = outcome(Path(f"/dev/fd/{end}"), Wanted(), None, None, 1 << 16)
    finally:
        os.close(end)
        writer.join()
    assert (found, raised) == (expected, "")


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(bot_chat(*(message(i, ANN, "word " * 100) for i in range(2000)))), encoding="utf-8")
    reads = reading("telegram", path, Wanted(), zone=UTC_ZONE)
    next(reads)
    os.truncate(path, 500_000)
    with pytest.raises(InvalidInput, match="changed while it was read"):
        list(reads)
