"""Records from the wire: what is refused and why, what survives a round trip, what is signed."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.turns.records import (
    RecordRefused,
    Task,
    Tombstone,
    Turn,
    chat_id_of,
    dumps,
    loads_object,
    task_id_of,
    turn_key,
)
from shared.turns.signed import Result
from shared.wire import keys
from shared.wire.ids import bot_of

PROPERTY = settings(max_examples=60)
TASK: dict[str, Any] = {"task_id": "t1", "chat_id": 7, "message": "hello"}
TURN: dict[str, Any] = {"chat_id": "7", "role": "user", "content": "hello", "timestamp": 5, "task_id": "t1"}
STONE: dict[str, Any] = {"tombstone_id": "s1", "chat_id": "7", "created_at": 100}
RESULT: dict[str, Any] = {"output": "yes", "completed_at": "2024-02-09T18:00:00+00:00", "hmac": "00"}
MISSING = object()
Parser = Callable[[bytes], object]


def changed(record: dict[str, Any], name: str, value: object) -> bytes:
    rest = {key: kept for key, kept in record.items() if key != name}
    return json.dumps(rest if value is MISSING else rest | {name: value}).encode()


parse_turn: Parser = partial(Turn.parse, b"hcli:memory:t1:user")
PARSERS: list[Parser] = [Task.parse, parse_turn, Tombstone.parse, Result.parse]
#: A record that each parser takes.
SOUND: dict[Parser, dict[str, Any]] = dict(zip(PARSERS, (TASK, TURN, STONE, RESULT), strict=True))

# A text as it can come out of JSON: lone surrogates, but no surrogate pair in two characters.
wire_text = st.text(st.characters() | st.characters(categories=["Cs"])).map(lambda t: str(json.loads(json.dumps(t))))
ids = st.from_regex(r"[A-Za-z0-9_-]{1,100}", fullmatch=True)
turn_ids = st.builds("{}:{}".format, ids, st.sampled_from(["user", "asst"]))
chats = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=40).filter(lambda text: text != "0")
moments = st.floats(0, 253_370_764_799)
numbers = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | wire_text
json_values = st.recursive(scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(wire_text, v), max_leaves=8)
extras = st.dictionaries(wire_text, json_values, max_size=3)


@pytest.mark.parametrize("parse", PARSERS)
def test_what_is_no_json_object_is_refused_with_its_reason(parse: Parser) -> None:
    for raw, reason in {
        b"": "not JSON: ",
        b'{"x": -Infinity}': "not JSON: -Infinity is not a JSON number",
        b'{"x":"\xff"}': "not UTF-8 at byte 6",
        b"[" * 100_000: "nested too deep",
        b"[]": "a JSON object was expected, not list",
        b"null": "a JSON object was expected, not NoneType",
    }.items():
        with pytest.raises(RecordRefused, match=f"^{re.escape(reason)}"):
            parse(raw)


#: Parser, field, wrong values, and the reason that is given.
WRONG: list[tuple[Parser, str, list[object], str]] = [
    (Task.parse, "message", [MISSING], "command is missing"),
    (Task.parse, "message", ["", " \n"], "message is empty"),
    (Task.parse, "task_id", [MISSING, 7, "", "a:b", "a*", "a\n", "é", "x" * 101], "task_id must match"),
    (
        Task.parse,
        "model",
        ["--verbose", "", ["opus"], "a b", "x" * 129],
        "model is not the name of a model, such as opus",
    ),
    (parse_turn, "task_id", ["t2", None], "task_id in the value differs from the key's"),
    (parse_turn, "role", ["asst"], "role in the value differs from the key's"),
    (parse_turn, "timestamp", [MISSING], "timestamp is missing"),
    (parse_turn, "timestamp", [True], "timestamp has type bool"),
    (parse_turn, "timestamp", [-1, 253_370_764_800, 10**400], "timestamp is not a date between 1970 and 9998"),
    (Tombstone.parse, "tombstone_id", [MISSING, "a b"], "task_id must match"),
    (Tombstone.parse, "before", ["today"], "timestamp has type str"),
    (
        Tombstone.parse,
        "turn_ids",
        ["t1:user", [1], [], {}, 0, "", False, ["t2"], ["\ud800"]],
        "turn_ids must be a list of task_id:role",
    ),
    (Result.parse, "output", [MISSING, None], "output is missing"),
    (Result.parse, "hmac", [None], "hmac is missing"),
]


@pytest.mark.parametrize(("parse", "name", "values", "reason"), WRONG)
def test_a_wrong_field_is_refused_with_its_reason(parse: Parser, name: str, values: list[object], reason: str) -> None:
    assert parse(json.dumps(SOUND[parse]).encode())
    for value in values:
        with pytest.raises(RecordRefused, match=f"^{re.escape(reason)}"):
            parse(changed(SOUND[parse], name, value))


@pytest.mark.parametrize("parse", PARSERS[:3])
def test_a_chat_id_that_is_none_is_refused_everywhere(parse: Parser) -> None:
    wrong: dict[str, list[object]] = {
        "chat_id is missing": [MISSING, None],
        "chat_id has type bool": [True, False],
        "chat_id has type float": [1.0],
        "chat_id is not a valid chat number": [0],
        "chat_id has 0 characters": [""],
        "chat_id has 257 characters": ["x" * 257],
        "chat_id has characters that": ["0", " 7", "7 ", "a\nb", "a\x00", "a\u202eb", "\ud800"],
    }
    for reason, chats in wrong.items():
        for chat in chats:
            with pytest.raises(RecordRefused, match=f"^{re.escape(reason)}"):
                parse(changed(SOUND[parse], "chat_id", chat))


@PROPERTY
@given(st.integers(-(2**63), 2**63).filter(bool))
def test_a_number_and_its_text_are_one_chat(number: int) -> None:
    assert chat_id_of(number) == chat_id_of(str(number)) == str(number)
    assert Task.parse(changed(TASK, "chat_id", -100123)).chat_id == "-100123"
    with pytest.raises(RecordRefused, match="not a valid chat number"):
        chat_id_of(number + (2**63 if number > 0 else -(2**63)))


@pytest.mark.parametrize(
    "key",
    ["memory:t1:system", "memory:t1", "memory::user", "memory:\xff:user", "memory:t1:user:asst", "session:t1:user"],
)
def test_a_key_that_names_no_turn_is_refused(key: str) -> None:
    assert turn_key(b"hcli:memory:t1:asst") == ("t1", "asst")
    with pytest.raises(RecordRefused):
        Turn.parse(f"hcli:{key}".encode("latin-1"), b'{"chat_id":"7","content":"x","timestamp":1}')


def test_a_task_keeps_its_known_fields_and_forgives_odd_optional_ones() -> None:
    whole = {"model": "opus", "name": "Anna", "user_id": 42, "submitted_at": "1970-01-01T00:01:00Z"}
    assert Task.parse(json.dumps(TASK | whole).encode()) == Task("t1", "7", "hello", "42", 60.0, "opus", "Anna")
    odd = {"model": None, "name": " ", "user_id": [1], "submitted_at": 5, "unknown": 1}
    assert Task.parse(json.dumps(TASK | odd).encode()) == Task("t1", "7", "hello")


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_date_without_a_zone_is_utc_and_an_unreadable_one_is_none(tokyo: None) -> None:
    def read(text: str) -> float | None:
        return Task.parse(changed(TASK, "submitted_at", text)).submitted_at

    noon = ["2024-02-09T12:00:00+00:00", "2024-02-09T12:00:00Z", "2024-02-09T12:00:00", "2024-02-09T13:00+01:00"]
    assert {read(text) for text in noon} == {1_707_480_000.0}
    assert read("2024-02-09 12:00:00.500") == 1_707_480_000.5
    assert [read(text) for text in ("1969-12-31T23:59:59Z", "9999-12-31T23:59:59", "noon", "", "\ud800")] == [None] * 5


@PROPERTY
@given(ids, st.sampled_from(["user", "asst"]), chats, wire_text, moments, wire_text, extras)
@example("t", "user", "7", "half \ud83d of a smile", 1.0, "\udc00", {"reply_to": {"deep": [1, None, "\ud800"]}})
def test_a_turn_survives_the_round_trip_with_what_it_does_not_know(
    task_id: str, role: str, chat_id: str, content: str, timestamp: float, name: str, extra: dict[str, Any]
) -> None:
    extra = {f"x_{key}": value for key, value in extra.items()}
    turn = Turn(task_id, role, chat_id, content, timestamp, name if name.strip() else None, "session", extra)
    again = Turn.parse(f"hcli:memory:{turn.turn_id}".encode(), turn.to_json())
    assert again == turn
    assert again.extra == extra


@PROPERTY
@given(ids, chats, moments, st.none() | moments, st.none() | st.frozensets(turn_ids, min_size=1, max_size=4))
def test_a_tombstone_survives_the_round_trip(
    stone_id: str, chat: str, created: float, before: float | None, turns: frozenset[str]
) -> None:
    stone = Tombstone(stone_id, chat, created, before, turns)
    assert Tombstone.parse(stone.to_json()) == stone


def test_a_tombstone_covers_its_own_chat_and_nothing_else() -> None:
    def covered(stone: Tombstone) -> set[tuple[str, float]]:
        turns = [Turn(f"t{t:g}", "user", chat, "x", t) for chat in ("7", "8") for t in (1.0, 2.0, 3.0)]
        return {(turn.chat_id, turn.timestamp) for turn in turns if stone.covers(turn)}

    assert covered(Tombstone("s", "7", 3.0)) == {("7", 1.0), ("7", 2.0)}
    assert covered(Tombstone("s", "7", 3.0, before=2.0)) == {("7", 1.0)}
    assert covered(Tombstone("s", "7", 1.0, turn_ids=frozenset({"t3:user", "t2:asst"}))) == {("7", 3.0)}


#: What both sides write, with and without microseconds.
completed = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat())
#: Outputs made to be cut: pieces that look like (parts of) a time, between colons.
cuttable = st.lists(
    st.sampled_from(["No", "", " "]) | st.text(max_size=9) | completed | completed.map(lambda at: at[:-6]), max_size=6
)


@settings(PROPERTY, max_examples=4 * PROPERTY.max_examples)
@given(ids, cuttable.map(":".join), completed)
@example("t1", "No: the pressure is too high", "2026-11-22T10:00:00+00:00")
@example("t1", "It was at:2026-11-22T10:00:00+00:00", "2026-11-22T10:00:00.000001+00:00")
@example("t1", "2026-11-22T10:00:00.000001+00:00", "2026-11-22T10:00:00+00:00")
def test_of_all_ways_to_split_what_was_signed_only_the_true_one_counts(task: str, output: str, at: str) -> None:
    signed = Result.sign("key", task, output, at)
    pieces = f"{task}:{output}:{at}".split(":")
    splits = {
        (":".join(pieces[:first]), ":".join(pieces[first:second]), ":".join(pieces[second:]))
        for first in range(1, len(pieces))
        for second in range(first + 1, len(pieces))
    }
    taken = {
        split
        for split in splits
        if _named_soundly(split[0]) and Result(*split[1:], signed.signature).verify("key", split[0])
    }
    assert taken == {(task, output, at)}


def _named_soundly(task: str) -> bool:
    with suppress(RecordRefused):
        return bool(task_id_of(task))
    return False


def test_a_signature_equals_what_openssl_computes() -> None:  # openssl dgst -sha256 -hmac test-secret
    signed = Result.sign("test-secret", "t1", "yes", "2024-02-09T18:00:00+00:00", {"in": 3})
    assert signed.signature == "cc4885ab9c622c322acae88ca3b118eec04512fba33e5431a781c632b1ad01e9"
    assert json.loads(signed.to_json()) == RESULT | {"hmac": signed.signature, "usage": {"in": 3}}


def test_a_changed_or_foreign_result_does_not_verify() -> None:
    signed = Result.sign("key", "t1", "half \ud83d", "2026-01-01T00:00:00+00:00")
    raw = json.loads(signed.to_json())
    assert Result.parse(signed.to_json()).verify("key", "t1")
    assert not signed.verify("key", "t2")
    assert not signed.verify("other", "t1")
    assert not Result("hello", "2026-01-01T00:00:00+00:00", "\u00e9\ud800").verify("key", "t1"), "nor is it raised"
    for name in ("output", "completed_at", "hmac"):
        assert not Result.parse(dumps(raw | {name: raw[name] + "0"})).verify("key", "t1")


@PROPERTY
@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()), st.sampled_from(PARSERS))
def test_arbitrary_bytes_raise_nothing_but_a_refusal(raw: bytes, parse: Parser) -> None:
    with pytest.raises(RecordRefused):
        parse(raw)


FIELDS = sorted(
    {*TASK, *TURN, *STONE, *RESULT, *"command model name user_id submitted_at before turn_ids usage".split()}
)


@PROPERTY
@given(st.dictionaries(st.sampled_from(FIELDS), json_values, min_size=1, max_size=4), st.binary(max_size=9))
def test_a_record_with_arbitrary_values_is_read_or_refused(odd: dict[str, Any], key: bytes) -> None:
    for parse, record in SOUND.items():
        raw = dumps(record | odd)
        assert loads_object(raw) == record | odd
        with suppress(RecordRefused):
            assert parse(raw) == parse(raw)
        with suppress(RecordRefused):
            Turn.parse(key, raw)


@pytest.mark.parametrize(("chat", "bot"), [
    ("9912", "main"), ("-1001234", "main"), ("discord:815", "discord"), ("discord:", "main"), ("Odd:1", "main"), ("a b:1", "main"), (":1", "main"),
])  # fmt: skip
def test_a_chat_is_with_one_bot(chat: str, bot: str) -> None:
    assert bot_of(chat) == bot
    assert keys.outbox(bot_of(chat)) == f"hcli:mem:outbox:{bot}"
