"""The file of a night's vectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightly.index.rows import write_zeros
from tests.support.night.indexes.damage import files_limited_to


def test_the_disk_has_room_for_every_page_before_one_is_written_to(tmp_path: Path) -> None:
    """A write to a mapped page that the full disk has no room for is no error but SIGBUS, which ends the process."""
    rows = write_zeros(tmp_path / "vectors.npy", 1000, 384)
    assert len(rows) == 1000
    assert (tmp_path / "vectors.npy").stat().st_blocks * 512 >= 4 * 1000 * 384


def test_a_disk_without_room_is_an_error(tmp_path: Path) -> None:
    with files_limited_to(100_000), pytest.raises(OSError, match="File too large"):
        write_zeros(tmp_path / "vectors.npy", 1000, 384)
