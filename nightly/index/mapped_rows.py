"""`vectors.npy`: one vector a chunk, in the order of the chunks, mapped into memory. What has been looked at is given back now and then.

Pages of a mapped file count as memory of the process that looked at them until it gives them back, so all vectors of a night that does every chat
would: 1.5 GB for a million turns. They stay in the file, whoever wrote them.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

#: Rows that are in memory at most, beside those of the chat that is asked for.
MOST_ROWS = 32_768


class MappedRows:
    """The file, shape (rows, dimensions), float32."""

    def __init__(self, path: Path, *, write: bool = False) -> None:
        """ValueError if it is no such file."""
        with path.open("r+b" if write else "rb") as file:
            np.lib.format.read_magic(file)
            self.shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
            self._mapping, start = mmap.mmap(file.fileno(), 0, access=access), file.tell()
        if len(self.shape) != 2 or dtype != np.float32:
            raise ValueError(f"{path} has no vectors")
        self._rows: Vectors = np.ndarray(self.shape, dtype, self._mapping, start)
        self._looked_at = 0

    def __len__(self) -> int:
        return int(self.shape[0])

    def looking_at(self, count: int) -> Vectors:
        """All rows, for somebody who looks at so many of them."""
        self._looked_at += count
        if self._looked_at > MOST_ROWS:
            self._looked_at = count
            self._mapping.madvise(mmap.MADV_DONTNEED)
        return self._rows


def write_zeros(path: Path, rows: int, dimensions: int) -> MappedRows:
    """A new file of zeros, to be written to."""
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, dimensions)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 4 * rows * dimensions)
    return MappedRows(path, write=True)
