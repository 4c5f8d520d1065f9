"""The files of messages in an export of a chat: copied under readable names (shared/turns/conversation.py) as its turns pass.

media/<name>, media.jsonl      {"turn_id", "sha256", "kind", "mime", "file"}, one line each; "file" is null for one that is not in the archive
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import orjson

from nightly.archive.media.places import is_there, path_of
from nightly.night.progress import Reporter
from shared.errors import StorageError
from shared.system.export_folder import private_file
from shared.system.files import opened
from shared.turns.conversation import FOLDER, INDEX, FileNamer, index_line
from shared.turns.media import Media
from shared.turns.records import Turn

#: Bytes that are copied at once.
_BLOCK_BYTES = 1 << 20


class MediaExport:
    """Of one chat. `names`: (task id, SHA-256) → name, filled as turns pass."""

    def __init__(self, archive_dir: Path, folder: Path, zone: ZoneInfo) -> None:
        self._archive_dir, self._folder, self._namer = archive_dir, folder, FileNamer(zone)
        self.names: dict[tuple[str, str], str] = {}
        self._lines: list[dict[str, Any]] = []

    def passing(self, turns: Iterable[Turn]) -> Iterator[Turn]:
        """The same turns; the files of each are written before it passes."""
        for turn in turns:
            for one in {one.sha256: one for one in turn.media if one.kept}.values():
                self._add(turn, one)
            yield turn

    def finish(self, report: Reporter) -> int:
        """Write the index; how many files were written."""
        if self._lines:
            with private_file(self._folder / INDEX) as handle:
                handle.writelines(orjson.dumps(line) + b"\n" for line in self._lines)
        if missing := sum(line["file"] is None for line in self._lines):
            report.say(
                f"  {missing} files of messages in {self._folder.name} are not in the archive, or damaged there (hmem-night verify)."
            )
        return len(self.names)

    def _add(self, turn: Turn, one: Media) -> None:
        path, name = path_of(turn.chat_id, turn.task_id, one.sha256), self._namer.name(turn, one)
        written = is_there(self._archive_dir, path) and self._copy(self._archive_dir / path, name, one.sha256)
        if written:
            self.names[turn.task_id, one.sha256] = name
        self._lines.append(index_line(turn, one, name if written else None))

    def _copy(self, source: Path, name: str, sha256: str) -> bool:
        """Whether it was what its name says."""
        target, digest = self._folder / FOLDER / name, hashlib.sha256()
        try:
            with opened(source, os.O_RDONLY) as read, private_file(target) as written:
                while block := read.read(_BLOCK_BYTES):
                    digest.update(block)
                    written.write(block)
        except (OSError, StorageError):  # forgotten meanwhile, or no plain file
            target.unlink(missing_ok=True)
            return False
        if digest.hexdigest() != sha256:
            target.unlink()
            return False
        return True
