"""`/digest`: whether this chat gets a digest each morning."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import datetime, timedelta
from datetime import time as clock
from typing import cast

from dispatcher.answering.commands.command import CommandReply
from dispatcher.answering.hooks import Core
from dispatcher.features.digest import keys
from dispatcher.features.digest.settings import DigestSettings
from shared.text.translations import later, tr
from shared.turns.records import Task
from shared.turns.signed.results import keyboard, row_of

DIGEST_ON = later(
    "The digest is on: each morning at {at} I send what was said here yesterday, the goals that are due, and what is new in my memory. "
    "On days with nothing to say I send nothing. /digest off ends it."
)
DIGEST_OFF = later("The digest is off. With /digest on I send each morning at {at} what was said here yesterday.")


class DigestCommand:
    def __init__(self, core: Core) -> None:
        self._redis, self._rights, self._zone = core.redis, core.rights, core.settings.timezone
        self._report_at = core.settings.of(DigestSettings).report_at

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:
        """Switched on, the first one comes at the next REPORT_AT; switching on twice changes nothing."""
        chat, wanted = task.chat_id, text.strip().lower()
        refusal = self._rights.refusal("switch the digest on or off", task.in_group, task.user_id)
        if refusal and wanted:
            return CommandReply(refusal, error=True)
        if wanted not in ("", "on", "off"):
            return CommandReply(tr("Write /digest on or /digest off, or /digest to see which it is."), error=True)
        if wanted == "on":
            here = datetime.fromtimestamp(now, self._zone)
            over = here.time() >= clock.fromisoformat(self._report_at)
            last = here.date() - timedelta(days=0 if over else 1)
            await self._redis.hsetnx(keys.DIGESTS, chat, str(last))
        elif wanted == "off":
            await self._redis.hdel(keys.DIGESTS, chat)
        on = await cast(Awaitable[bytes | None], self._redis.hget(keys.DIGESTS, chat)) is not None
        said = tr(DIGEST_ON if on else DIGEST_OFF).format(at=f"{self._report_at} ({self._zone.key})")
        chosen = ("on", "off")[not on]
        row = row_of(*((f"✓ {one}" if one == chosen else one, f"/digest {one}") for one in ("on", "off")))
        return CommandReply(said, buttons=() if refusal else keyboard(row))
