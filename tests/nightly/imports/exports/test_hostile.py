"""Archives, directories and files that were made to do harm, or were damaged: each is refused with a sentence, and nothing is written anywhere."""

from __future__ import annotations

import copy
import io
import json
import os
import random
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from nightly.imports.candidates import ReadCandidate
from nightly.imports.containers import members, opening
from nightly.imports.formats import recognised
from shared.errors import InvalidInput
from shared.turns.records import Turn
from shared.wire import keys
from tests.nightly.imports.exports.builders import (
    claude_conversation,
    claude_message,
    gpt_conversation,
    gpt_node,
    left,
    read,
    reading,
    said,
    signal_frames,
    signal_item,
    turns,
    unread,
    written,
    zipped,
)
from tests.nightly.imports.exports.golden import GOLDEN
from tests.support.night.old_history import ANN, BOT, bot_chat, message

GOOD = json.dumps([gpt_conversation(gpt_node("q", "root", "user", "hello"))])
FILES = {"conversations.json": GOOD}


def entry(name: str, content: str = "x", mode: int = 0, **fields: int) -> bytes:
    """An archive with our file and one more entry."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", GOOD)
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        for field, value in fields.items():
            setattr(info, field, value)
        archive.writestr(info, content)
    return packed.getvalue()


def twice() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive, pytest.warns(UserWarning):
        archive.writestr("conversations.json", GOOD)
        archive.writestr("conversations.json", "[]")
    return packed.getvalue()


def flagged(flag: int) -> bytes:
    """With this flag of each entry set in the archive's list."""
    packed = bytearray(zipped(FILES))
    at = packed.find(b"PK\x01\x02")
    packed[at + 8 : at + 10] = struct.pack("<H", struct.unpack_from("<H", packed, at + 8)[0] | flag)
    return bytes(packed)


def declared(size: int) -> bytes:
    """With this size of the file in the archive's list."""
    packed = bytearray(zipped(FILES))
    struct.pack_into("<L", packed, packed.find(b"PK\x01\x02") + 24, size)
    return bytes(packed)


def overlapping() -> bytes:
    """Two entries that share their data."""
    packed = zipped({"a.json": "x" * 99_000, "b.json": os.urandom(5_000)})
    at, second = packed.find(b"PK\x01\x02"), packed.rfind(b"PK\x01\x02")
    listed = packed[second : second + 46]
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 2, 2, 2 * 52, at, 0)
    return packed[:at] + listed + b"b.json" + listed + b"c.json" + end


def bomb() -> bytes:
    return zipped({"conversations.json": GOOD, "bomb.json": b"0" * (32 << 20)})


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "an absolute path": (lambda: entry("/etc/passwd"), "absolute path"),
    "a drive": (lambda: entry("C:/x"), "absolute path"),
    "a way out": (lambda: entry("a/../../x"), r"leads out of the archive \(\.\.\)"),
    "a way out, as Windows writes it": (lambda: entry("..\\x"), "leads out"),
    "a link": (lambda: entry("link", "/etc/passwd", stat.S_IFLNK | 0o777), "is a link"),
    "a device": (lambda: entry("dev", "", stat.S_IFCHR | 0o600), "a device or a pipe"),
    "a control character": (lambda: entry("a\nb"), "control characters"),
    "one name in two cases": (lambda: entry("Conversations.JSON"), "the same name"),
    "one name twice": (twice, "the same name"),
    "encryption": (lambda: flagged(0x1), "is encrypted"),
    "another method": (lambda: zipped(FILES, zipfile.ZIP_LZMA), "a method other than DEFLATE"),
    "a bomb": (bomb, "200 times its size"),
    "shared data": (overlapping, "overlap"),
    "no end": (lambda: zipped(FILES)[:-30], "cut off"),
    "no list": (lambda: zipped(FILES).replace(b"PK\x01\x02", b"PK\x01\x03"), "damaged"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_with_a_sentence(tmp_path: Path, name: str) -> None:
    make, why = HOSTILE[name]
    path = written(tmp_path / "export.zip", make())
    with pytest.raises(InvalidInput, match=why) as raised:
        read("chatgpt", path)
    assert "Nothing was imported." in str(raised.value)
    assert [one.name for one in tmp_path.iterdir()] == ["export.zip"]


def test_entries_and_sizes_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.zip", zipped({**FILES, **{f"{number}.png": b"" for number in range(20)}}))
    monkeypatch.setattr(opening, "MOST_ENTRIES", 20)
    with pytest.raises(InvalidInput, match="more than 20 entries"):
        read("chatgpt", path)
    lying = bytearray(path.read_bytes())
    struct.pack_into("<HH", lying, len(lying) - 14, 3, 3)  # in the record at its end
    with pytest.raises(InvalidInput, match="more than 20 entries"):
        read("chatgpt", written(tmp_path / "b.zip", bytes(lying)))
    monkeypatch.setattr(opening, "MOST_DIRECTORY_BYTES", 99)
    with pytest.raises(InvalidInput, match="very long names"):
        read("chatgpt", tmp_path / "b.zip")
    monkeypatch.undo()
    monkeypatch.setattr(opening, "MOST_BYTES", 10)
    with pytest.raises(InvalidInput, match="unpacks to"):
        read("chatgpt", path)


def test_no_more_is_read_than_an_entry_declares(tmp_path: Path) -> None:
    reads = read("chatgpt", written(tmp_path / "a.zip", declared(10)))
    assert said(reads) == []
    assert len(unread(reads)) == 1
    assert said(read("chatgpt", written(tmp_path / "b.zip", declared(len(GOOD) + 50_000)))) == [("user", "hello")]


#: Of these, whatever is lost is seen, because the whole is one document, or each line one.
DOCUMENTS_OF_JSON, LINES = ("chatgpt", "claude", "mem0", "telegram"), ("jsonl", "audit")


def damages(content: bytes, chance: random.Random) -> Iterator[bytes]:
    """Cut off, with flipped bits, with half of a character, or with far too much of something."""
    for _ in range(12):
        at = chance.randrange(len(content))
        yield content[:at]
        for half in (b"\xed\xa0\xbd", b"\\ud83d", b"\0"):
            yield content[:at] + half + content[at:]
        flipped = bytearray(content)
        for _ in range(chance.randint(1, 3)):
            flipped[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        yield bytes(flipped)
    yield content[: chance.randrange(len(content))] + b"[" * 50_000
    yield content + content


@pytest.mark.parametrize("source", GOLDEN)
def test_a_damaged_export_is_refused_or_reported_and_doubles_nothing(tmp_path: Path, source: str) -> None:
    path, chance = GOLDEN[source](tmp_path / "made", True), random.Random(source)
    files = [(path, one) for one in (tmp_path / "made").rglob("*") if one.is_file()]
    if path.suffix == ".zip":
        zipfile.ZipFile(path).extractall(tmp_path / "unpacked")
        files += [(one, one) for one in (tmp_path / "unpacked").iterdir()]
    for named, file in files:
        content = file.read_bytes()
        whole, told = outcome(list(contract(source, named)))
        for damaged in damages(content, chance):
            file.write_bytes(damaged)
            with suppress(InvalidInput):
                found, more = outcome(list(contract(source, named)))
                assert source not in DOCUMENTS_OF_JSON or found >= whole or more > told, damaged
                assert source not in LINES or found + more == sum(bool(line.strip()) for line in damaged.split(b"\n"))
            packed = written(tmp_path / "a.zip", zipped({f"export/{file.name}": damaged}))
            with suppress(InvalidInput):
                list(contract(source, packed))
            assert len(recognised(packed)) + len(recognised(named)) <= 2
        file.write_bytes(content)


def outcome(reads: list[ReadCandidate]) -> tuple[int, int]:
    """(turns, places that are reported)"""
    return len(turns(reads)), len(unread(reads)) + len(left(reads))


def contract(source: str, path: Path) -> Iterator[ReadCandidate]:
    """What a reader yields, with what is asked of all of them."""
    ids, some = set[str](), False
    for one in reading(source, path, bot="Helper" if source == "telegram" else None):
        for turn in turns([one]):
            assert Turn.parse(keys.turn(turn.task_id, turn.role).encode(), turn.to_json()) == turn
            assert turn.turn_id not in ids or source == "jsonl", "of its lines, later ones are versions of earlier ones"
            ids.add(turn.turn_id)
        some = some or any((one.candidate, one.unreadable, one.left_out, one.note))
        yield one
    assert some


# ---------------------------------------------------------------------------------------------------------------- files


def test_nesting_and_long_strings_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = written(tmp_path / "a.json", b'[{"mapping": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]")
    assert "nested too deep" in unread(read("chatgpt", deep))[0]
    monkeypatch.setattr(members, "MOST_TEXT_BYTES", 1 << 20)
    long = json.dumps([gpt_conversation(gpt_node("q", "root", "user", "x" * (3 << 20)))])
    for source in ("chatgpt", "claude", "mem0"):
        assert "longer than 1 MiB" in unread(read(source, written(tmp_path / f"{source}.json", long)))[0]
    for chat in (
        bot_chat(message(1, ANN, "x" * (3 << 20))),
        {"other": {"deep": ["x" * (3 << 20)]}, **bot_chat()},
        {"personal_information": {"bio": "x" * (3 << 20)}, "chats": {"list": []}},
    ):
        found = reading("telegram", written(tmp_path / "result.json", json.dumps(chat)), bot="Helper")
        assert "longer than 1 MiB" in unread(list(found))[0]
    longer = bot_chat(*(message(number, ANN, "x" * 1000) for number in range(1, 3000)), other=["y" * 1000] * 3000)
    found = reading("telegram", written(tmp_path / "result.json", json.dumps(longer)), bot="Helper")
    assert len(said(list(found))) == 2999, "only one value has a limit"
    assert "longer than 1 MiB" in unread(read("openclaw", written(tmp_path / "MEMORY.md", "x" * (2 << 20))))[0]
    many = "31/12/23, 10:00 - Ann: ok\n" + "y" * (2 << 20) + "\n31/12/23, 10:01 - Ann: fine\n"
    reads = read("whatsapp", written(tmp_path / "_chat.txt", many))
    assert said(reads) == [("user", "fine")]
    assert len(unread(reads)) == 1


def test_text_that_is_not_utf8_is_named_in_each_format(tmp_path: Path) -> None:
    bad = GOOD.encode().replace(b"hello", b"caf\xe9")
    for source, name in (("chatgpt", "c.json"), ("claude", "c.json"), ("mem0", "c.json"), ("openclaw", "MEMORY.md")):
        assert "not UTF-8" in unread(read(source, written(tmp_path / name, bad)))[-1]
    assert "null byte" in unread(read("basic-memory", written(tmp_path / "n.md", b"a\0b")))[0]


# ---------------------------------------------------------------------------------------------------------- directories


DOCUMENTS: dict[str, tuple[str, Any]] = {
    "chatgpt": ("conversations.json", [gpt_conversation(gpt_node("q", "root", "user", "hello"), gpt_node("a", "q", "assistant", "hi"))]),
    "claude": ("conversations.json", [claude_conversation(claude_message("q", "human", "hello"), claude_message("a", "assistant", "hi"))]),
    "signal": ("main.jsonl", signal_frames(signal_item("1", "hello"), signal_item("2", "hi"))),
    "telegram": ("result.json", bot_chat(message(1, ANN, "hello"), message(2, BOT, "hi", reply_to_message_id=1))),
}  # fmt: skip


@pytest.mark.parametrize("source", DOCUMENTS)
def test_a_value_of_a_wrong_type_anywhere_is_a_turn_or_a_reason(tmp_path: Path, source: str) -> None:
    name, document = DOCUMENTS[source]
    path, others = tmp_path / name, list[Any](([], {"a": [1]}, 1.5, None, "\0"))
    for place in places(document):
        for wrong in others:
            path.write_text(as_file(name, with_value(document, place, wrong)), encoding="utf-8")
            with suppress(InvalidInput):
                list(contract(source, path))
    path.write_text(as_file(name, document), encoding="utf-8")
    assert len(said(list(reading(source, path, bot="Helper")))) == 2


def as_file(name: str, document: Any) -> str:
    lines = document if name.endswith("l") and isinstance(document, list) else [document]
    return "\n".join(map(json.dumps, lines))


def with_value(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """The document with another value at this place."""
    if not place:
        return value
    changed = copy.copy(document)
    changed[place[0]] = with_value(document[place[0]], place[1:], value)
    return changed


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in a document each of its values is."""
    yield above
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, one in inside:
        yield from places(one, (*above, step))


def test_links_and_pipes_in_a_directory_are_not_opened(tmp_path: Path) -> None:
    secret = written(tmp_path / "secret.md", "- the word is heron")
    root = tmp_path / "ws"
    written(root / "MEMORY.md", "- likes tea")
    (root / "memory").mkdir()
    (root / "memory" / "out.md").symlink_to(secret)
    (root / "memory" / "in.md").symlink_to(root / "MEMORY.md")
    (root / "memory" / "elsewhere").symlink_to(tmp_path)
    (root / "memory" / "loop").symlink_to(root)
    os.mkfifo(root / "memory" / "pipe.md")
    reads = read("openclaw", root)
    assert said(reads) == [("user", "likes tea")]
    assert sorted(why.partition(":")[0] for why in unread(reads)) == [
        "a link that leads out of the directory",
        "a link that leads out of the directory",
        "not a plain file (a pipe, socket or device)",
    ]
    with pytest.raises(OSError, match="not a plain file"):
        opening.open_plain(root / "memory" / "pipe.md")
    with pytest.raises(OSError):
        opening.open_plain(root / "memory" / "out.md")
    with pytest.raises(InvalidInput, match="neither a file nor a directory"):
        read("openclaw", root / "memory" / "pipe.md")


def test_a_directory_has_a_limit_and_odd_names_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "ws"
    written(root / "memory" / "a.md", "- one")
    (tmp_path / "ws" / "memory" / os.fsdecode(b"\xff\xfe.md")).write_bytes(b"\xff")
    reads = read("openclaw", root)
    assert said(reads) == [("user", "one")]
    places = [one.place for one in reads if one.unreadable]
    assert all(place.encode() for place in places)
    assert len(places) == 1
    monkeypatch.setattr(opening, "MOST_FILES", 2)
    with pytest.raises(InvalidInput, match="more than 2 files"):
        read("openclaw", root)


def test_no_name_reaches_a_terminal(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    written(root / "memory" / "a\x1b[2Jb.md", b"\xff")
    (root / "memory" / "out\n\x1b[31m.md").symlink_to("/etc/hostname")
    reads = read("openclaw", root)
    assert len(unread(reads)) == 2
    assert all(one.place.isprintable() for one in reads)
