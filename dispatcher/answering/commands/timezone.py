"""`/timezone`: the zone in which a chat sees and writes times."""

from __future__ import annotations

import asyncio

from dispatcher.answering.commands.command import CommandReply
from dispatcher.queue.chats import ChatZones, zone_named, zones_of_city
from dispatcher.queue.rights import CHANGING_ZONE, Rights
from shared.text.format import one_line, shorten
from shared.text.translations import later, tr
from shared.text.translations.dates import exact_text
from shared.turns.records import Task

ZONE_USAGE = later("Write it like this: /timezone Europe/Berlin. /timezone default goes back to my owner's setting.")
KEPT_ZONE = later("Existing reminders keep their time zone.")


class TimeZoneCommand:
    """`/timezone`: shows or chooses the chat's zone."""

    def __init__(self, zones: ChatZones, rights: Rights) -> None:
        self._zones, self._rights = zones, rights

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:
        if not text:
            return CommandReply("\n".join([await self._shown(task, now), tr(ZONE_USAGE)]))
        if refusal := self._rights.refusal(CHANGING_ZONE, task.in_group, task.user_id):
            return CommandReply(refusal)
        zone = None
        if text.lower() != "default":
            found = [text] if zone_named(text) else zones_of_city(text)
            zone = zone_named(found[0]) if len(found) == 1 else None
            if zone is None:
                unknown = tr('I do not know the time zone "{name}".').format(name=shorten(one_line(text), 60))
                which = tr("Which one do you mean: {zones}?").format(zones=", ".join(found)) if found else unknown
                return CommandReply(" ".join([which, tr(ZONE_USAGE)]))
        await asyncio.to_thread(self._zones.choose, task.chat_id, zone)
        return CommandReply(" ".join([await self._shown(task, now), tr(KEPT_ZONE)]))

    async def _shown(self, task: Task, now: float) -> str:
        zone = await asyncio.to_thread(self._zones.of, task.chat_id)
        text = tr("This chat uses the time zone {zone}; it is now {now}.")
        return text.format(zone=zone.key, now=exact_text(now, zone))
