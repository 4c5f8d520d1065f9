"""KEEP_MEDIA: before a turn is written, the files that came with its message are kept for the archive, and the turn says which are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import structlog
from redis import ResponseError

from dispatcher.answering.retry import keep_trying
from dispatcher.queue.tasks import Finished
from shared.config.settings import Settings
from shared.system.faults import crash_point
from shared.turns.media import Media
from shared.turns.records import Turn
from shared.wire.media.kept import MOST_BYTES, KeptFiles
from shared.wire.media.open import open_media

log = structlog.get_logger()

#: Counter of the day: files that could not be kept.
NOT_KEPT = "media_not_kept"


class MediaKeeper:
    """One per dispatcher."""

    def __init__(self, settings: Settings, client: Any) -> None:
        self._wanted = settings.keep_media
        self._store, self._kept = open_media(settings, client), KeptFiles(client, MOST_BYTES)

    async def keep(self, finished: Finished) -> Finished:
        """The same with what became of each file; `kept` is ours to say, whatever the task said. A crash after this leaves files that the
        repeated task finds kept."""
        turns = [await self._keep(turn) if turn.media else turn for turn in finished.turns]
        if lost := sum(one.kept is False for turn in turns for one in turn.media):
            log.warning(
                "files could not be kept: there is no room for more until the next night, or they are not stored any more",
                files=lost,
            )
            return replace(finished, turns=turns, stats=[*finished.stats, (NOT_KEPT, str(lost))])
        return replace(finished, turns=turns)

    async def _keep(self, turn: Turn) -> Turn:
        media = [replace(one, kept=await self._is_kept(turn, one) if self._wanted else None) for one in turn.media]
        return replace(turn, extra=turn.extra | {"media": [one.to_json() for one in media]})

    async def _is_kept(self, turn: Turn, one: Media) -> bool:
        try:
            content = await keep_trying(partial(self._store.get, one.sha256))
            return await keep_trying(partial(self._kept.keep, turn.task_id, turn.chat_id, one.sha256, content))
        except ResponseError as error:  # a key of another type: the answer does not wait for it
            log.error("a file could not be kept", reason=str(error))
            return False
        finally:
            crash_point("answering:media-kept")
