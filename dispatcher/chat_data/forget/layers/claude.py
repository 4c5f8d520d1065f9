"""What the Claude CLI stores of a chat: it files its transcripts by working directory, and each chat has its own directory.

The CLI's folder names are not unique (`a_b` and `a-b` share one), so a transcript is removed only if it names this chat's directory. All
transcripts of the chat are removed, whatever is forgotten: once the session has ended, nothing reads them again. The current session's stays.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import orjson

from dispatcher.claude.client import ALONE
from dispatcher.claude.environment import cli_environment
from shared.config.settings import Settings
from shared.system.files import remove_tree, safe_name

#: Characters of a directory's name from which the CLI cuts it and adds a hash.
LONGEST_NAME = 200
#: Lines of a transcript in which its directory is looked for.
LINES_READ = 50
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ClaudeLayer:
    """The CLI's files of this user."""

    def __init__(self, settings: Settings) -> None:
        environment = cli_environment(settings)
        self._settings = settings
        self._home = Path(environment.get("HOME") or Path.home())
        self._config = Path(environment.get("CLAUDE_CONFIG_DIR") or self._home / ".claude")
        self._temporary = Path(environment.get("TMPDIR") or "/tmp") / f"claude-{os.getuid()}"  # noqa: S108 - the CLI's

    @property
    def places(self) -> list[Path]:
        """Where the CLI may have stored something; for the scan."""
        cache = self._home / ".cache" / "claude-cli-nodejs"
        return [self._config, self._home / ".claude.json", cache, self._temporary]

    def find(self, chats: Collection[str], sessions: Collection[str], keep: Collection[str]) -> list[Path]:
        """Files and directories of these chats. `sessions`: ids of theirs, wherever they were filed; `keep`: ids of current sessions, left out."""
        state = self._settings.hmem_state_dir
        found = [
            path for name in (*map(safe_name, chats), ALONE) for path in self._of_directory(state / "chats" / name)
        ]
        for shared in (state / "chats", state):  # on a full disk
            found += self._of_directory(shared, sessions)
        sessions = {session for session in sessions if _UUID.fullmatch(session)}
        known = {path.stem for path in found if _UUID.fullmatch(path.stem)} | sessions
        found += self._named_after(known)
        return [path for path in dict.fromkeys(found) if not any(session in path.name for session in keep)]

    def remove(self, chats: Collection[str], sessions: Collection[str], keep: Collection[str]) -> int:
        """Remove them; returns how many."""
        found = self.find(chats, sessions, keep)
        for path in found:
            remove_tree(path)
        for folder in {path.parent for path in found}:
            if folder.parent == self._config / "projects" and not any(folder.iterdir()):
                folder.rmdir()
        return len(found)

    def _of_directory(self, directory: Path, sessions: Collection[str] | None = None) -> Iterator[Path]:
        """What was filed under a working directory: everything, or these sessions."""
        named = {str(directory), str(directory.resolve())}
        for slug in {re.sub(r"[^A-Za-z0-9]", "-", name) for name in named}:
            for folder in _called(self._config / "projects", slug):
                own = {path.stem for path in folder.glob("*.jsonl") if _begun_in(path, named)}
                wanted = own if sessions is None else own & set(sessions)
                yield from (path for path in folder.iterdir() if path.stem in wanted)
            if sessions is None:
                yield from _called(self._home / ".cache" / "claude-cli-nodejs", slug)

    def _named_after(self, sessions: Collection[str]) -> Iterator[Path]:
        """Other files with a session's id in their names, such as its to-do list."""
        for folder in sorted(self._config.iterdir()) if sessions and self._config.is_dir() else []:
            if folder.is_dir() and not folder.is_symlink() and folder.name not in ("projects", "plugins"):
                for path in folder.iterdir():
                    if any(session in path.name for session in sessions):
                        yield path


def _called(base: Path, slug: str) -> list[Path]:
    """Directories that the CLI may have given this name."""
    if not base.is_dir():
        return []
    if len(slug) <= LONGEST_NAME:
        return [base / slug] if (base / slug).is_dir() else []
    return [path for path in base.iterdir() if path.is_dir() and path.name.startswith(slug[:LONGEST_NAME])]


def _begun_in(transcript: Path, directories: Collection[str]) -> bool:
    """Whether the first working directory that a transcript names is one of these; also true if it names none."""
    try:
        with transcript.open("rb") as lines:
            for _, line in zip(range(LINES_READ), lines, strict=False):
                try:
                    record = orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue
                if isinstance(record, dict) and isinstance(record.get("cwd"), str):
                    return record["cwd"] in directories
    except FileNotFoundError:
        return False
    return True
