"""Versions of the program: which one is newer. Here, because `packaging` is not among our own dependencies."""

from __future__ import annotations

import re
from pathlib import Path

#: (numbers, (stage before the final version, its number), post, dev) of a version.
Precedence = tuple[tuple[int, ...], tuple[int, int], int, int]
#: As builders normalise it, in names of wheels and in metadata.
_VERSION = re.compile(
    r"(?P<release>\d+(\.\d+)*)((?P<stage>a|b|rc)(?P<number>\d+))?(\.post(?P<post>\d+))?(\.dev(?P<dev>\d+))?"
)
#: Of a version that is no .devN: after each that is.
_NO_DEV = 1 << 62
_STAGES = {"dev": 0, "a": 1, "b": 2, "rc": 3, "final": 4}


def wheel_version(path: Path) -> str | None:
    """The version in a wheel's name."""
    parts = path.name.split("-")
    return parts[1] if len(parts) >= 5 else None


def precedence(version: str) -> Precedence:
    """For comparison, as Python orders versions: 0.2.0.dev1 < 0.2.0a1 < 0.2.0rc1 < 0.2.0 = 0.2 < 0.2.0.post1 < 0.10.0.

    What is no version is before all of them.
    """
    found = _VERSION.match(version)
    if found is None:
        return (), (0, 0), 0, 0
    numbers = [int(part) for part in found["release"].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    only_dev = found["dev"] and not found["post"]
    stage = found["stage"] or ("dev" if only_dev else "final")
    post = int(found["post"]) if found["post"] else -1
    return tuple(numbers), (_STAGES[stage], int(found["number"] or 0)), post, int(found["dev"] or _NO_DEV)
