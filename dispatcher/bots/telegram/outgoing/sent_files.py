"""Files that Claude made, sent as documents after the answer that names them (SEND_FILES of the dispatcher), each noted when it was sent.

A crash between the two sends one file twice, as it does with a part of an answer. A file that cannot be sent is told in a sentence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog

from dispatcher.bots.telegram.core import BotCore
from dispatcher.bots.telegram.errors import Refused
from dispatcher.bots.telegram.outgoing.rendering import MessagePart
from dispatcher.bots.telegram.retry import until_redis_answers, until_telegram_takes_it
from dispatcher.bots.telegram.waiting import Waiting
from shared.system.faults import crash_point
from shared.text.translations import later, tr
from shared.turns.media import Media
from shared.turns.speakers import plain_name

log = structlog.get_logger()

GONE = later("The file {name} is not there any more, so I could not send it. Please ask for it again.")
NOT_TAKEN = later("Telegram did not take the file {name}, so it cannot be shown here.")


class SentFiles:
    """Sends the files of a result."""

    def __init__(self, core: BotCore) -> None:
        self._telegram, self._store = core.telegram, core.media

    async def send(
        self, record: Waiting, files: tuple[Media, ...], note: Callable[[Waiting], Awaitable[None]]
    ) -> Waiting:
        """Those that were not sent yet; the record as it was noted last. Errors of Telegram as with a message."""
        for number in range(record.files_sent or 0, len(files)):
            await self._send(record, files[number])
            crash_point(f"telegram:file-{number}-sent")
            record = replace(record, files_sent=number + 1)
            await note(record)
        return record

    async def _send(self, record: Waiting, file: Media) -> None:
        content = await until_redis_answers(lambda: self._store.get(file.sha256))
        name = file.name or "file"
        reason = tr(GONE)
        if content is not None:
            try:
                await until_telegram_takes_it(
                    lambda: self._telegram.send_document(
                        record.target, content, name, thread=record.thread, reply_to=record.placeholder
                    )
                )
            except Refused as error:
                log.warning("Telegram refused a file", error=str(error))
                reason = tr(NOT_TAKEN)
            else:
                return
        part = MessagePart(reason.format(name=plain_name(name)))
        await until_telegram_takes_it(lambda: self._telegram.send(record.target, part, thread=record.thread))
