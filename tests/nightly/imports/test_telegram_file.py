"""Telegram's `result.json`, read in pieces: the same as if it was read whole, however it is cut, and with nothing of it left in memory."""

from __future__ import annotations

import io
import json
import os
import re
import tracemalloc
from pathlib import Path
from typing import Any
from unittest import mock
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightly.imports import json_stream
from nightly.imports.candidates import BOM, Wanted
from nightly.imports.containers.members import Member, MemberStream
from nightly.imports.json_stream import JsonStream
from shared.errors import InvalidInput
from shared.turns.records import RecordRefused
from tests.nightly.imports.exports.builders import reading, said
from tests.support.night.old_history import ANN, BOT, bot_chat, message

UTC_ZONE = ZoneInfo("UTC")
TEXT = st.text('ab \\"/u0xd8\n\t\x00\x1b\x7fé🦉\ufeff\u2028\ud83d\ude00', max_size=12) | st.just("x" * 1500)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(1 - 2**63, 2**63 - 1) | st.floats(-1e9, 1e9) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
)


@settings(max_examples=100)
@given(JSON, st.booleans(), st.integers(1, 300))
def test_a_value_is_that_of_the_whole_document_however_it_is_cut(value: Any, ascii_only: bool, piece: int) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "backslashreplace")
    whole = re.sub("[\ud800-\udfff]", "\ufffd", json.dumps(json.loads(text), ensure_ascii=False))
    with mock.patch.object(json_stream, "_PIECE", piece):
        for content in (text, text.replace(b"\\u001b", b"\\x1B").replace(b"\\u0000", b"\\x00")):
            stream = JsonStream(io.BytesIO(content))
            assert stream.value(*stream.begin()) == json.loads(whole)
            stream.end()


@pytest.mark.parametrize("kind", [[], {}, ["personal_chat"], None])
def test_a_chat_of_no_known_type_is_refused_in_a_sentence(tmp_path: Path, kind: object) -> None:
    chat = {"name": "x", "type": kind, "id": 5, "messages": [message(1, ANN, "hello")]}
    (tmp_path / "result.json").write_text(json.dumps(chat))
    for bot, why in (("1", "is of a chat of no known type"), (None, "not known which sender")):
        with pytest.raises(InvalidInput, match=why):
            list(reading("telegram", tmp_path / "result.json", Wanted(), zone=UTC_ZONE, bot=bot))


@pytest.mark.parametrize("content", [
    b"", b"{", b"[[{}], 1]", b"1", b"NaN", b"{}{}", b'{"a": 1,}', b"{}\x00", b'{"messages": 1}', b'{"messages": [], "messages": {}}',
    b'{"chats": {"list": [1]}}', b'{"chats": [], "left_chats": {"list": [{"messages": [1]}]}}', BOM + BOM + b"{}", b'{"a": "\xc3"}', b'{"a": "\\x4"}',
    b'{"a": ' + b"1" * 5000 + b"}", b'{"messages": [' + b"[" * 2000 + b"]" * 2000 + b"]}", b'{"a": ' + b"[" * 2000,
])  # fmt: skip
def test_what_is_refused_gives_no_turn_and_a_reason(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "result.json").write_bytes(content)
    for piece in (1, 1 << 16):
        with mock.patch.object(json_stream, "_PIECE", piece):
            reads = list(reading("telegram", tmp_path / "result.json", Wanted(chat="5"), zone=UTC_ZONE, bot="1"))
        assert reads
        assert not said(reads)
        assert all(one.unreadable or one.left_out for one in reads)


def test_a_stream_refuses_with_no_word_of_the_file() -> None:
    stream = JsonStream(io.BytesIO(b'{"messages": ["a secret" secret]}'))
    with pytest.raises(RecordRefused) as refused:
        stream.value(*stream.begin())
    assert str(refused.value) == "not JSON: it is broken before byte 33"


def test_of_a_long_chat_only_a_piece_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    texts = (message(i, ANN if i % 2 else BOT, f"{i} " + "word " * 400, reply_to_message_id=i - 1) for i in range(2000))
    path.write_bytes(BOM + json.dumps(bot_chat(*texts)).encode())
    assert path.stat().st_size > 4_000_000
    tracemalloc.start()
    try:
        count = sum(1 for _ in reading("telegram", path, Wanted(), zone=UTC_ZONE))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 2000
    assert peak < 1_500_000


def test_a_file_that_cannot_be_read_twice_or_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, opening = list[MemberStream](), Member.open

    def noted(member: Member) -> MemberStream:
        opened.append(opening(member))
        return opened[-1]

    monkeypatch.setattr(Member, "open", noted)
    end, begin = os.pipe()
    os.close(begin)
    with pytest.raises(InvalidInput, match="neither a file nor a directory"):
        list(reading("telegram", Path(f"/dev/fd/{end}"), Wanted(), zone=UTC_ZONE))
    os.close(end)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(bot_chat(*(message(i, ANN, "word " * 100) for i in range(2000)))), encoding="utf-8")
    reads = reading("telegram", path, Wanted(), zone=UTC_ZONE)
    assert said([next(reads)]) == [("user", "word " * 100)]
    os.truncate(path, 500_000)
    with pytest.raises(InvalidInput, match="changed while it was read"):
        list(reads)
    assert opened
    assert all(one.closed for one in opened)


def test_a_number_of_any_size_breaks_nothing() -> None:
    stream = JsonStream(io.BytesIO(b"[100000000000000000000, 1e400, -9223372036854775808, 18446744073709551615, 1.5]"))
    assert stream.value(*stream.begin()) == [1e20, float("inf"), -(1 << 63), (1 << 64) - 1, 1.5]
    too_long = JsonStream(io.BytesIO(b"[" + b"1" * 5_000 + b"]"))
    with pytest.raises(RecordRefused, match="not JSON"):
        too_long.value(*too_long.begin())
