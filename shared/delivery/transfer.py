"""How a release is copied by rsync, and what that moved. Content decides, not time and size."""

from __future__ import annotations

import re
from pathlib import Path

#: In what `--stats` prints.
_MOVED = re.compile(r"^Total bytes (?:sent|received): ([\d.,]+)$", re.MULTILINE)


def copy_command(source: Path, destination: str, base: str | None = None, *more: str) -> list[str]:
    """`base`: a directory on the other host, relative to the destination: identical files are linked from it and not sent."""
    command = ["rsync", "--recursive", "--times", "--checksum", "--perms", "--stats", *more]
    # Whole files: Debian 12's rsync (3.2.7) assembles some files wrongly from parts of others, and refuses them ("failed verification").
    command += [f"--link-dest={base}", "--whole-file"] if base else []
    return [*command, f"{source}/", destination]


def moved_bytes(output: str) -> int:
    """Sent and received together."""
    return sum(int(re.sub(r"\D", "", count)) for count in _MOVED.findall(output))
