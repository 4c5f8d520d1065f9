"""Names and lines of an export: which folders are chats', and which values stand as they are."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.system.command import translate
from shared.system.export_folder import bare_line, export_folder
from shared.turns.records import dumps


def test_a_full_disk_names_the_folder_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space") as full, export_folder(tmp_path / "out") as folder:
        (folder / "turns.jsonl").touch()
        raise OSError(errno.ENOSPC, "No space")
    assert str(translate(full.value)).startswith(f"{tmp_path / 'out'}: the disk is full.")
    assert not list(tmp_path.iterdir())


@given(st.binary() | st.text().map(lambda text: dumps({"task_id": "t", "role": "user", "content": text})))
def test_a_bare_line_says_itself_what_it_is(value: bytes) -> None:
    line = bare_line(b"hcli:memory:t:user", value)
    if line is not None:
        assert line == value == line.strip()
        assert b"\n" not in line
        assert json.loads(line)["task_id"] == "t"
        assert bare_line(b"hcli:memory:u:user", value) is None
