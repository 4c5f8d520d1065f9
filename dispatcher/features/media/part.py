"""This feature's part of a dispatcher: what is read of a message's files, kept of them, and sent with the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import cast

from redis import ResponseError

from dispatcher.answering.commands.again import earlier_message
from dispatcher.answering.hooks import Core
from dispatcher.answering.retry import keep_trying, look_again
from dispatcher.answering.turn import ForAnswer, ForClaude, ForQuestion, TurnInProgress
from dispatcher.features.media import pictures
from dispatcher.features.media.claude_sessions import LOOK_SECONDS, ClaudeSessions
from dispatcher.features.media.documents.conversion import DocumentReader
from dispatcher.features.media.made_files import INSTRUCTIONS, MadeFiles
from dispatcher.features.media.reading import NOT_THERE, MediaReader, Read, with_shown
from dispatcher.features.media.settings import MediaSettings
from dispatcher.features.media.transcription import Transcriber
from dispatcher.prompt.render import fenced
from dispatcher.queue.chats import ChatRecords, chosen_language
from dispatcher.queue.tasks import Counters, Finished
from shared.errors import HmemError
from shared.hooks import hook
from shared.system.faults import crash_point
from shared.text.logs import Logger
from shared.text.translations import tr
from shared.turns.media import HEARD, Media
from shared.turns.records import CORRECTED, Task, Turn
from shared.wire import keys
from shared.wire.media import KeptFiles, MediaStore

log = Logger()

#: Counter of the day: files that could not be kept.
NOT_KEPT = "media_not_kept"
#: Note of a turn: the places of its pictures among its files.
PICTURES = "media.pictures"


class MediaPart:
    """One per dispatcher."""

    def __init__(self, core: Core) -> None:
        settings, store = core.settings.of(MediaSettings), MediaStore(core.redis)
        chosen = partial(chosen_language, core.background)
        self._reader = MediaReader(store, Transcriber(settings), DocumentReader(core.settings), chosen)
        self._made = MadeFiles(core.settings.hmem_state_dir, store) if settings.send_files else None
        self._store, self._kept = store, KeptFiles(core.redis) if settings.keep_media else None
        self._sessions, self._redis = ClaudeSessions(core.settings), core.redis
        self._records, self._day = ChatRecords(core.redis), core.day

    @hook
    def instructions(self) -> str | None:
        return INSTRUCTIONS if self._made else None

    @hook
    async def prepare(self, turn: TurnInProgress) -> ForQuestion | None:
        task = turn.asked
        if self._made:
            await self._made.note(task.chat_id, task.task_id)
        if earlier := await self._misheard(task):
            return ForQuestion(lines=[header_line(earlier)], corrected=corrected(earlier, task.said))
        if not task.media:
            return None
        try:
            read = await self._reader.read(task)
        except (ResponseError, OSError) as error:  # a key of another type, a full disk
            log.error("the files of a message could not be read", reason=str(error))
            return ForQuestion(refusal=tr(NOT_THERE))
        turn.notes[PICTURES] = read.pictures
        return prepared(read)

    @hook
    @asynccontextmanager
    async def beside_claude(self, turn: TurnInProgress, session: str) -> AsyncIterator[ForClaude]:
        """The session is listed, so that its pictures leave Claude's files after the conversation."""
        async with self._sessions.using(session, turn.asked.chat_id, media=bool(turn.blocks)):
            yield ForClaude()

    @hook
    async def answered(self, turn: TurnInProgress) -> ForAnswer:
        """The files that Claude has made; and what the answer says is in each picture is remembered with the message."""
        task = turn.asked
        made = await self._made.made(task.chat_id, task.task_id) if self._made else ForAnswer()
        if said := pictures.shown_in(turn.tags.tags):
            return replace(made, media=with_shown(task.media, turn.notes.get(PICTURES, []), said))
        return made

    @hook
    async def fields(self, turn: Turn) -> Mapping[str, object] | None:
        """With KEEP_MEDIA the files are kept for the archive, and the turn says which are. A repeated task finds its files kept."""
        if not (turn.media and self._kept):
            return None
        kept = [replace(one, kept=await self._is_kept(self._kept, turn, one)) for one in turn.media]
        if lost := sum(one.kept is False for one in kept):
            log.warning(
                "files could not be kept: there is no room for more until the next night, or they are not stored any more",
                files=lost,
            )
        return {"media": [one.to_json() for one in kept]}

    async def _is_kept(self, files: KeptFiles, turn: Turn, one: Media) -> bool:
        try:
            content = await keep_trying(partial(self._store.get, one.sha256))
            return await keep_trying(partial(files.keep, turn.task_id, turn.chat_id, one.sha256, content))
        except ResponseError as error:  # a key of another type: the answer does not wait for it
            log.error("a file could not be kept", reason=str(error))
            return False
        finally:
            crash_point("answering:media-kept")

    @hook
    def counters(self, finished: Finished) -> Sequence[Counters] | None:
        lost = sum(one.kept is False for turn in finished.turns for one in turn.media)
        day = keys.stats(datetime.now(UTC).strftime("%Y-%m-%d"))
        return [Counters(day, keys.STATS_TTL_SECONDS, [(NOT_KEPT, str(lost))])] if lost else None

    @hook
    async def background(self) -> None:
        """Take pictures of ended conversations out of Claude's files."""
        look = partial(self._sessions.look, self._current_session)
        await look_again("pictures of ended conversations", look, LOOK_SECONDS)

    async def _current_session(self, chat_id: str) -> str | None:
        raw = cast(bytes | None, await self._redis.get(keys.session(chat_id)))
        return raw.decode("utf-8", "replace") if raw else None

    async def _misheard(self, task: Task) -> Turn | None:
        """The turn of the recording that a message corrects, as it was: of the same chat and person, remembered (in Redis, else in the day store) and
        not forgotten."""
        if task.corrects is None or task.media or not task.message.strip():
            return None
        turn = None
        with suppress(HmemError):
            turn = await earlier_message(self._records, self._day, task.chat_id, task.corrects)
        if turn is None or turn.user_id != task.user_id or task.user_id is None:
            return None
        return turn if any(one.kind in HEARD for one in turn.media) else None


def prepared(read: Read) -> ForQuestion:
    """What was read, as the question gets it."""
    rules = [pictures.rule(len(read.pictures))] if read.pictures else []
    message = read.task.message if read.heard else None
    above = [read.shown] if read.shown else []
    return ForQuestion(message, read.task.media, read.blocks, read.lines, rules, above, read.refusal)


# What was misheard is corrected by a reply: the turn of the recording is written anew, under its id, with the words of the reply. The bot knows which
# message is replied to and passes its task on as `corrects`. The new version goes to the day store and, by night, to the archive.


def corrected(turn: Turn, text: str) -> Turn:
    """The turn with these words in the place of what was heard."""
    heard = [one for one in turn.media if one.kind in HEARD]
    media = [replace(one, text=text if one is heard[0] else "") if one in heard else one for one in turn.media]
    extra = turn.extra | {"media": [one.to_json() for one in media], CORRECTED: True}
    return replace(turn, content=text, extra=extra)


def header_line(turn: Turn) -> str:
    """For Claude: what had been heard instead."""
    return f"This corrects a recording of the sender. A program had understood:\n{fenced('transcript', turn.content)}"
