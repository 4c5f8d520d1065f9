"""What the parts of the bot share, and the buttons below its messages.

Buttons are for the person who asked: those of a result, and `Stop` below a placeholder. Only the newest answer of a chat keeps its row (`Why?`,
`Retry`), so the chat stays clean. The row of the one before is removed after the new answer was sent in whole: whatever dies in between, the answer
is there once, and the removal is repeated, which is invisible.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import time
from dataclasses import dataclass, replace
from typing import Any

from aiogram.exceptions import TelegramAPIError
from aiogram.types import User
from redis.asyncio import Redis

from dispatcher.bots.telegram.client import ButtonRows, Telegram, until_redis_answers, until_telegram_takes_it
from dispatcher.bots.telegram.state import BotState, Waiting
from dispatcher.queue.admission import is_answered
from dispatcher.queue.rights import Rights
from shared.config.settings import Settings
from shared.text.logs import Logger
from shared.text.translations import later, speaking, tr
from shared.turns.signed import Button, Keyboard, keyboard, row_of, signing_key
from shared.wire import keys
from shared.wire.json import record_of
from shared.wire.media import MediaStore

log = Logger()

STOP = later("Stop")
MOVED = later(
    "This group is a supergroup now. What I remember here, its reminders and its settings have come along; for the person who runs me it is still "
    "chat {chat}."
)
KEY_CHANGED = later(
    "Something that waited for you here cannot be checked any more, since the program's key was changed. Please send your last message again."
)

#: How long a button may be pressed. Seconds.
VALID_SECONDS = 2 * 86_400
_SIGNATURE_BYTES = 12
_END_BYTES = 6


class Presses:
    """Makes and reads the data of buttons, which Telegram returns at a press (64 bytes at most); `secret` signs them.

        <16 characters of the signature>.<end of validity, POSIX milliseconds in base 64>.<command without its slash>

    The signature is an HMAC over chat, person, end and command: of another chat, by another person, or changed on the way, a press is refused.
    Telegram says who presses and where; so neither stands in the data. By the milliseconds two buttons of one command differ, which a double press
    does not.
    """

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"buttons of hmem telegram\n" + secret.encode()).digest()

    def data(self, button: Button, chat: int, user: str, valid_seconds: float = VALID_SECONDS) -> str:
        """For this person in this chat."""
        ends = _text(round((time.time() + valid_seconds) * 1000).to_bytes(_END_BYTES))
        command = button.command.removeprefix("/")
        return f"{self._sign(chat, user, ends, command)}.{ends}.{command}"

    def command(self, data: str, chat: int, user: str) -> str | None:
        """The command, with its slash, that this person may give in this chat; "" if it has expired, None if it was not made for them."""
        signature, _, rest = data.partition(".")
        ends, _, command = rest.partition(".")
        expected = self._sign(chat, user, ends, command)
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), expected.encode()):
            return None
        valid = time.time() * 1000 <= int.from_bytes(base64.urlsafe_b64decode(ends))
        return f"/{command}" if valid else ""

    def _sign(self, chat: int, user: str, ends: str, command: str) -> str:
        message = "\n".join((str(chat), user, ends, command)).encode("utf-8", "surrogatepass")
        return _text(hmac.new(self._key, message, hashlib.sha256).digest()[:_SIGNATURE_BYTES])


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode()


@dataclass(frozen=True)
class BotAnswer:
    """With buttons for who sent the command. `secret`: it is sent at once and never stored in Redis, not even until it is delivered. `brief`: where
    a button was pressed, it is shown for a moment."""

    text: str
    buttons: Keyboard = ()
    secret: bool = False
    brief: bool = False


class BotCore:
    """One per process."""

    def __init__(self, settings: Settings, telegram: Telegram, redis: Redis) -> None:
        secret = signing_key(settings, "no answer could be verified")
        self.settings, self.telegram, self.redis = settings, telegram, redis
        self.state = BotState(redis, secret)
        self.state.deliveries.unbelieved = self.tell_unbelieved
        self.secret, self.presses = secret, Presses(secret)
        self.rights = Rights(settings)
        self.moved = dict[int, int]()  # group → the supergroup that it has become: either may be listed
        self.media = MediaStore(redis)
        self.me: User  # as Telegram knows the bot: set before anything is done

    async def allows(self, chat: int) -> bool:
        """Whether the bot answers this chat. RedisError while Redis does not answer."""
        new = str(self.moved.get(chat, chat))
        return await is_answered(str(chat), self.settings.allowed, self.redis, self.secret, new)

    async def load_moves(self) -> None:
        """Groups that have become supergroups: they are asked for by their first number, which is in ALLOWED_CHATS and under which all of them is
        stored, and requests to them go to the new one."""
        self.moved = self.telegram.session.moved = await self.state.chats.moved()

    async def move(self, chat: int, to: int) -> None:
        """The group has become a supergroup. Everything may be repeated."""
        if chat in self.moved or not (await self.allows(chat) or await self.allows(to)):
            return
        if await self.allows(to) or await self.state.chats.has_own(str(to)):
            log.error(  # it moved long ago, unseen, and would lose that
                "a group has a new chat id that has a memory of its own, so that of the first one stays apart",
                was=chat, now=to,
                todo=f"To go on with the first one's: hmem forget --chat={to}, take {to} out of ALLOWED_CHATS, list {chat}, start the bot again",
            )  # fmt: skip
            return
        for name, one in (await self.state.deliveries.waiting()).items():
            if one.chat == str(chat):  # the numbers of its messages are those of others there
                there = replace(one, placeholder=None, thread=None, reply_to=None, row=None)
                await self.state.deliveries.note(name, there)
        await self.state.marks.note(f"row-{chat}", b"")
        await self.state.chats.move(chat, to)
        await self.load_moves()
        with speaking(await self.state.chats.language(str(chat))):
            said = Waiting(str(chat), time.time(), text=tr(MOVED).format(chat=chat))
        await self.state.updates.tell(f"moved-{chat}", said, keys.bot_told(str(to)), keys.BOT_TOLD_TTL_SECONDS)
        log.warning("a group has a new chat id; everything of it stays under the first one", was=chat, now=to)

    async def tell_unbelieved(self, raw: bytes) -> None:
        """Of a record that nobody of us has signed, before it is removed: nothing is read but its chat, which is told once a day if it is listed."""
        chat = str(record_of(raw).get("chat"))
        if chat in self.settings.allowed:
            with speaking(await self.state.chats.language(chat)):
                said = Waiting(chat, time.time(), text=tr(KEY_CHANGED))
            mark = keys.bot_seen(f"unbelieved-{chat}")
            await self.state.updates.tell(f"unbelieved-{chat}", said, mark, keys.BOT_TOLD_TTL_SECONDS)

    def as_stored(self, update: Any) -> Any:
        """An update of Telegram's with the first numbers of these groups."""
        first = {to: chat for chat, to in self.moved.items()}

        def read(value: Any) -> Any:
            if isinstance(value, list):
                return [read(one) for one in value]
            if not isinstance(value, dict):
                return value
            read_ = {name: read(one) for name, one in value.items()}
            is_chat = "type" in value and isinstance(value.get("id"), int)
            return read_ | {"id": first.get(value["id"], value["id"])} if is_chat else read_

        return read(update) if first else update


class Keyboards:
    """One per bot."""

    def __init__(self, core: BotCore) -> None:
        self._telegram, self._marks, self._presses = core.telegram, core.state.marks, core.presses

    def below(self, record: Waiting, buttons: Keyboard) -> ButtonRows:
        """The buttons of a result as Telegram takes them."""
        user = _person(record)
        return [[(one.label, self._presses.data(one, record.target, user)) for one in row] for row in buttons if user]

    def stop(self, task_id: str, record: Waiting) -> ButtonRows:
        """Below the placeholder of an answer; a command is answered at once, and the message that was pressed is no placeholder."""
        if record.command:
            return []
        return self.below(record, keyboard(row_of((tr(STOP), f"/stop {task_id}"))))

    async def sent(self, record: Waiting, buttons: Keyboard, reply_command: str) -> None:
        """All of a result was sent; `record.row` is its last message. May be repeated."""
        message, user = record.row, _person(record)
        if not message:
            return
        if reply_command and user:
            await until_redis_answers(lambda: self._marks.expect_reply(record.target, message, reply_command, user))
        # An answer's, not a list's or a question's.
        if any(one.command.startswith("/retry ") for row in buttons for one in row):
            await self._keep_only(record.target, message)

    async def _keep_only(self, chat: int, message: int) -> None:
        """Remove the row of the answer before."""
        before = await until_redis_answers(lambda: self._marks.noted(f"row-{chat}"))
        if before and int(before) != message:
            with contextlib.suppress(TelegramAPIError):  # the message is gone, or has none any more
                await until_telegram_takes_it(
                    lambda: self._telegram.bot.edit_message_reply_markup(chat_id=chat, message_id=int(before))
                )
        await until_redis_answers(lambda: self._marks.note(f"row-{chat}", b"%d" % message))


def _person(record: Waiting) -> str:
    """Who may press: in a private chat the person is the chat."""
    return record.user or (record.chat if record.target > 0 else "")
