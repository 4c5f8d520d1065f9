"""The buttons below the bot's messages, for the person who asked: those of a result, and `Stop` below a placeholder.

Only the newest answer of a chat keeps its row (`Why?`, `Retry`), so the chat stays clean. The row of the one before is removed after the new answer
was sent in whole: whatever dies in between, the answer is there once, and the removal is repeated, which is invisible.
"""

from __future__ import annotations

import contextlib

from dispatcher.bots.telegram.client import ButtonRows
from dispatcher.bots.telegram.core import BotCore
from dispatcher.bots.telegram.errors import TelegramError
from dispatcher.bots.telegram.retry import until_redis_answers, until_telegram_takes_it
from dispatcher.bots.telegram.waiting import Waiting
from shared.text.translations import later, tr
from shared.turns.signed.results import Keyboard, keyboard, row_of

STOP = later("Stop")


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
        if _is_row(buttons):
            await self._keep_only(record.target, message)

    async def _keep_only(self, chat: int, message: int) -> None:
        """Remove the row of the answer before."""
        before = await until_redis_answers(lambda: self._marks.noted(f"row-{chat}"))
        if before and int(before) != message:
            with contextlib.suppress(TelegramError):  # the message is gone, or has none any more
                await until_telegram_takes_it(
                    lambda: self._telegram.bot.edit_message_reply_markup(chat_id=chat, message_id=int(before))
                )
        await until_redis_answers(lambda: self._marks.note(f"row-{chat}", b"%d" % message))


def _person(record: Waiting) -> str:
    """Who may press: in a private chat the person is the chat."""
    return record.user or (record.chat if record.target > 0 else "")


def _is_row(buttons: Keyboard) -> bool:
    """Whether these are the buttons of an answer, not those of a list or a question."""
    return any(one.command.startswith("/retry ") for row in buttons for one in row)
