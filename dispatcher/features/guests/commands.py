"""`/invite` and `/guests`, for owners: codes for strangers, groups that are allowed, and who is a guest."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from dispatcher.bots.telegram.core import BotAnswer, BotCore
from dispatcher.bots.telegram.messages import IncomingMessage
from dispatcher.features.guests.invitations import Invitations, code_in, seconds_of
from dispatcher.features.guests.records import Guest, is_guest
from shared.hooks import hook
from shared.system.faults import crash_point
from shared.text.format import day_text, time_text
from shared.text.logs import Logger
from shared.text.translations import later, tr
from shared.turns.message_origin import is_group
from shared.turns.signed import keyboard, row_of
from shared.turns.speakers import label

log = Logger()

#: The newest guests are listed; `/guests remove ID` removes any.
LISTED = 30
OWNERS_ONLY = later("Only an owner may do this, and only in a private chat with me.")
USAGE = later(
    "/invite makes a code for one person, which works once and for a day; /invite 7d (or 12h, 30m; at most 30d) says for how long. In a group, "
    "/invite here allows the group."
)
INVITED = later(
    "With this code one person becomes a guest, once and until {until} ({zone}). Send them the link, or have them send me the code:\n\n"
    "{code}\n\n{link}"
)
HERE = later("I answer in this group from now on. /guests in our private chat shows and removes it.")
HERE_ALREADY = later("I answer in this group already.")
NO_GUESTS = later("There are no guests. /invite makes a code for one.")
REMOVED = later(
    "{name} is no longer a guest and is refused from now on. What I remember of this chat stays until you erase it: hmem forget --chat={chat}"
)
GROUP_LINE = later("• {name} (group {chat}), since {day}, invited by {by}")
PERSON_LINE = later("• {name} (user id {chat}), since {day}, invited by {by}")
NO_SUCH = later("There is no such guest any more.")
#: What an owner reads below /help.
OWNERS_HELP = later(
    "For owners:\n/invite - a code that makes a person a guest; in a group, /invite here\n/guests - who is a guest, and remove one"
)
_REMOVE = re.compile(r"remove (-?[0-9]{1,19})\Z")


class GuestCommands:
    """One per bot."""

    def __init__(self, core: BotCore) -> None:
        self._core, self._state, self._rights = core, core.state, core.rights
        self._invitations, self._zone = Invitations(core.redis, core.secret, core.rights), core.settings.timezone

    @hook
    def bot_commands(self) -> Mapping[str, Callable[[IncomingMessage], Awaitable[BotAnswer]]]:
        return {"invite": self._invite, "guests": self._guests}

    @hook
    def owners_help(self) -> str:
        return tr(OWNERS_HELP)

    @hook
    async def stranger_wrote(self, update: str, incoming: IncomingMessage) -> str | None:
        """An owner who allows a group, or a code."""
        if incoming.group:
            return await self._here(incoming) if incoming.command == "invite" else None
        code = code_in(incoming.command, incoming.text.strip())
        if code is None:
            return None
        outcome = await self._invitations.join(update, incoming.chat, incoming.name, code)
        log.info(
            "a stranger sent a code", chat=incoming.chat, outcome={1: "guest", 0: "not valid"}.get(outcome, "silence")
        )
        crash_point("telegram:joined")
        return ""

    async def _here(self, incoming: IncomingMessage) -> str | None:
        """The reply to `/invite here` of an owner in a group; None for anybody else, and for any other text."""
        if incoming.text.strip().lower() != "here" or not self._rights.unlimited(True, incoming.own_id):
            return None
        chat = str(incoming.chat)
        if chat in self._core.settings.allowed or await is_guest(chat, self._core.redis, self._core.secret):
            return tr(HERE_ALREADY)
        name = incoming.chat_title or tr("a group")
        await self._invitations.set(Guest(chat, name, time.time(), incoming.own_id or ""))
        log.info("an owner has allowed a group", chat=incoming.chat)
        return tr(HERE)

    def _refusal(self, incoming: IncomingMessage) -> BotAnswer | None:
        may = self._rights.counts_all(str(incoming.chat), incoming.group, incoming.own_id)
        return None if may else BotAnswer(tr(OWNERS_ONLY))

    async def _invite(self, incoming: IncomingMessage) -> BotAnswer:
        if incoming.group:
            return BotAnswer(await self._here(incoming) or tr(USAGE))
        if refusal := self._refusal(incoming):
            return refusal
        seconds = seconds_of(incoming.text.strip())
        if seconds is None:
            return BotAnswer(tr(USAGE))
        until = time_text(time.time() + seconds, self._zone)
        code = await self._invitations.make(incoming.own_id or str(incoming.chat), seconds)
        link = f"https://t.me/{self._core.me.username}?start={code}"
        return BotAnswer(tr(INVITED).format(until=until, zone=self._zone.key, code=code, link=link), secret=True)

    async def _guests(self, incoming: IncomingMessage) -> BotAnswer:
        if refusal := self._refusal(incoming):
            return refusal
        found = _REMOVE.match(incoming.text.strip())
        return await self._remove(found[1]) if found else await self._list()

    async def _list(self, said: str = "") -> BotAnswer:
        guests = (await self._invitations.guests())[:LISTED]
        lines = [self._line(one) for one in guests] or [tr(NO_GUESTS)]
        rows = [row_of((tr("Remove {name}").format(name=_name(one)), f"/guests remove {one.chat}")) for one in guests]
        return BotAnswer("\n".join([*([said, ""] if said else []), *lines]), keyboard(*rows))

    def _line(self, guest: Guest) -> str:
        text = tr(GROUP_LINE) if is_group(guest.chat) else tr(PERSON_LINE)
        return text.format(
            name=_name(guest), chat=guest.chat, day=day_text(guest.since, self._zone), by=guest.by or "-"
        )

    async def _remove(self, chat: str) -> BotAnswer:
        guest = next((one for one in await self._invitations.guests() if one.chat == chat), None)
        if guest is None:
            return await self._list(tr(NO_SUCH))
        await self._invitations.set(replace(guest, removed=time.time()))
        await self._state.cancel(chat, lambda *_: True)
        log.info("an owner has removed a guest", chat=chat)
        return await self._list(tr(REMOVED).format(name=_name(guest), chat=chat))


def _name(guest: Guest) -> str:
    return label("user", guest.name)
