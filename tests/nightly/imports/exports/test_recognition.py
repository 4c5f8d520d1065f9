"""An export is recognised by its content: each of ours as one format, in whatever it comes, and nothing else as any."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import pytest

from nightly.imports.formats import format_of, formats, other_format, recognised
from nightly.imports.json_stream import JsonStream
from shared.errors import InvalidInput
from tests.nightly.imports.exports.builders import written, zipped
from tests.nightly.imports.exports.golden import GOLDEN

#: Of these, the reader takes no archive.
UNPACKED = ("jsonl", "chunks", "audit")


def names(path: Path) -> list[str]:
    return [one.name for one, _ in recognised(path)]


def test_each_format_has_a_golden_sample() -> None:
    assert set(GOLDEN) == set(formats())


@pytest.mark.parametrize("source", GOLDEN)
def test_each_of_ours_is_one_format(tmp_path: Path, source: str) -> None:
    path = GOLDEN[source](tmp_path / "made", True)
    assert names(path) == [source]
    if path.suffix != ".zip":
        files = {
            str(one.relative_to(tmp_path)): one.read_bytes() for one in (tmp_path / "made").rglob("*") if one.is_file()
        }
        assert names(written(tmp_path / "a.zip", zipped(files))) == ([] if source in UNPACKED else [source])
        if source != "audit":  # in a directory its files end with .jsonl
            assert names(tmp_path / "made") == [source]
    if path.is_file() and source != "openclaw":
        assert names(written(tmp_path / "renamed", path.read_bytes())) == [source], "by its content, not its name"
    for other in formats():
        hint = other_format(other, [path])
        assert bool(hint) is (other != source)
        assert not hint or f": hmem-night backfill {source} {path}" in hint
    assert format_of([path, path])[0] == source


def test_nothing_else_is_any(tmp_path: Path) -> None:
    chance = random.Random(4)
    others: dict[str, bytes | str] = {
        "empty": "", "noise": chance.randbytes(5000), "a.png": b"\x89PNG\r\n\x1a\n" + chance.randbytes(500), "a.pdf": "%PDF-1.7\n1 0 obj\n<<>>\n",
        "a.zip": zipped({"a.txt": "hello", "b/c.json": "[]", "conversations.json": "[]"}), "b.zip": zipped({"a.png": b"x"})[:40],
        "conversations.json": json.dumps([{"title": "x", "messages": [{"id": 1}], "mapping": 3}]), "package.json": '{"name": "x", "type": "module"}',
        "deep.json": "[" * 60_000, "half.json": '{"messages": [{"id": 1, "text": "\\ud83d"', "data.json": '{"a": 1}', "main.jsonl": '{"a": 1}\n[2]',
        "README.md": "# Title\n- [link](https://x.y) to [[it\n- [ ] a task\n- [x] done", "notes.txt": "On 31/12/2023 at 23:59 - we met: it rained",
        "a.log": "[2026-02-09 12:00:00] INFO: starting\n[2026-02-09 12:00:01] ERROR: ended", "result.json": '{"results": [{"title": "x"}]}',
        "laravel.log": "[2024-05-01 12:00:00] production.ERROR: no\n[2024-05-01 12:00:01] production.INFO: yes",
        "rooms.csv": "2024-05-01, 12:00 - room: 21\n2024-05-01, 12:05 - room: 22", "b.log": "[INFO] - starting\n[ERROR] - ended\n",
        "c.log": "[2026-02-09 12:00:00] - starting\n[2026-02-09 12:00:01] - ended\n", "CHANGES": "[1.2.0] - quicker\n[1.1.0] - smaller\n",
        "todo.txt": "- [x] - tea\n- [ ] - milk\n", "links.txt": "[a]: 1\n[b]: https://x.y\n", "stock.json": '[{"id": 1, "memory": "16 GB"}]',
        "hosts.json": '{"results": [{"memory": 12}]}', "NOTES.md": "# Title\n- [note] hello\n", "tasks.jsonl": '{"task_id": "a", "output": "b"}',
        "keys.jsonl": '{"key": "a", "kind": "text"}',
        "utf16.txt": "31/12/2023, 10:00 - A: b".encode("utf-16"),
    }  # fmt: skip
    for name, content in others.items():
        path = written(tmp_path / "others" / name, content)
        assert names(path) == [], name
        with pytest.raises(
            InvalidInput, match=r"not recognised by its content|holds no text|is empty|is refused"
        ) as refused:
            format_of([path])
        if name == "README.md":
            assert "\n  claude        Claude's data export" in str(refused.value)
    assert names(tmp_path / "others") == []
    assert names(tmp_path / "missing") == names(tmp_path / ("x" * 5000)) == names(Path("/dev/zero")) == []
    both = [GOLDEN[source](tmp_path / source, False) for source in ("chatgpt", "whatsapp")]
    with pytest.raises(
        InvalidInput, match=r"is read as chatgpt, as a ZIP with .*_chat\.txt is read as whatsapp, as a file"
    ):
        format_of(both)


def test_a_name_of_any_length_costs_little() -> None:
    named = {"messages": {"x" * 5000: {"y" * 5000: {"id": 1}}}}
    paths = JsonStream(io.BytesIO(json.dumps(named).encode())).outline()
    assert "messages" in paths
    assert max(map(len, paths)) < 200
