"""Takes pictures out of what the Claude CLI stores of a session: they are not kept longer than the conversation needs them.

The CLI writes a picture into the session's transcript (base64, also in its record of the request) and, as a file, into its temporary directory.
Follow-up questions need the first. So each session that got one is listed in HMEM_STATE_DIR, before the CLI is started; when the conversation has
ended, or SESSION_TTL after its last answer, the pictures are replaced by words. The session can be resumed after that. The list is worked off in
the background, and at the next start, after the time that an answer may take: none is being written in that session by then.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from dispatcher.claude.environment import cli_environment
from dispatcher.claude.reply import SESSION_ID
from shared.config.settings import Settings
from shared.system.faults import crash_point
from shared.system.files import make_dir, remove_tree, write_atomic
from shared.text.logs import Logger
from shared.wire.json import dumps, record_of

log = Logger()

#: The folder of the list in HMEM_STATE_DIR.
FOLDER = "media-sessions"
#: Seconds between two looks at the list.
LOOK_SECONDS = 60.0
#: What stands in the place of a picture, and of another file.
NO_PICTURE, NO_FILE = "[picture, no longer kept]", "[file, no longer kept]"


class ClaudeSessions:
    """The list, and the CLI's files of this user."""

    def __init__(self, settings: Settings) -> None:
        environment = cli_environment(settings)
        home = Path(environment.get("HOME") or Path.home())
        self._projects = Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"
        self._temporary = Path(environment.get("TMPDIR") or "/tmp") / f"claude-{os.getuid()}"  # noqa: S108 - the CLI's
        self._list = settings.hmem_state_dir / FOLDER
        self._kept_seconds, self._answer_seconds = settings.session_ttl, settings.task_timeout + LOOK_SECONDS

    @asynccontextmanager
    async def using(self, session: str, chat_id: str, *, media: bool) -> AsyncIterator[None]:
        """While the CLI works on a session. `media`: it gets pictures now."""
        entry = self._list / session
        if not SESSION_ID.fullmatch(session) or not (media or entry.exists()):
            yield
            return
        await asyncio.to_thread(
            lambda: write_atomic(make_dir(self._list) / session, chat_id.encode("utf-8", "replace"))
        )
        crash_point("claude:media-session-listed")
        yield
        with suppress(FileNotFoundError):
            os.utime(entry)

    async def look(self, current: Callable[[str], Awaitable[str | None]]) -> float:
        """Clear the sessions that are over; the seconds until the next look. `current`: the session that a chat goes on with."""
        for session, chat_id, last in await asyncio.to_thread(lambda: list(self._listed())):
            age = time.time() - last
            over = age > self._answer_seconds and await current(chat_id) != session
            if over or age > self._kept_seconds:
                await asyncio.to_thread(self.clear, session)
        return LOOK_SECONDS

    def clear(self, session: str) -> None:
        """Take the pictures out of a listed session."""
        for transcript in self._projects.glob(f"*/{session}.jsonl"):
            _rewrite(transcript)
        for folder in self._temporary.glob(f"*/{session}/images"):
            remove_tree(folder)
        crash_point("claude:media-removed")
        (self._list / session).unlink(missing_ok=True)
        log.info("the pictures of a conversation were taken out of Claude's files", session=session)

    def _listed(self) -> Iterator[tuple[str, str, float]]:
        """(session, chat, time of the last answer)."""
        for entry in sorted(self._list.iterdir()) if self._list.is_dir() else ():
            with suppress(OSError):
                if SESSION_ID.fullmatch(entry.name):
                    yield entry.name, entry.read_text(encoding="utf-8", errors="replace"), entry.stat().st_mtime


def _rewrite(transcript: Path) -> None:
    """Whole or not at all; a line that is not JSON stays, as does a transcript without pictures."""
    lines, changed = [], False
    for line in transcript.read_bytes().splitlines(keepends=True):
        record = record_of(line) if b'"base64"' in line else {}
        if (without := without_media(record)) != record:
            lines.append(dumps(without) + b"\n")
            changed = True
        else:
            lines.append(line)
    if changed:
        write_atomic(transcript, b"".join(lines))


def without_media(value: Any) -> Any:
    """A record of the CLI in which each picture or file, wherever it stands, is words."""
    if isinstance(value, list):
        return [without_media(one) for one in value]
    if not isinstance(value, dict):
        return value
    source = value.get("source")
    if isinstance(source, dict) and source.get("type") == "base64":
        return {"type": "text", "text": NO_PICTURE if value.get("type") == "image" else NO_FILE}
    return {name: without_media(one) for name, one in value.items()}
