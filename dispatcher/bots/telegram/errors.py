"""What can go wrong at Telegram, in our words and without the token.

aiogram's exceptions may contain the URL of a request, and with it the token: they are not chained (`from None`), and the token is removed from
their text.
"""

from __future__ import annotations

from aiogram.exceptions import (
    ClientDecodeError,
    TelegramBadRequest,
    TelegramConflictError,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramUnauthorizedError,
)


class TelegramError(Exception):
    """A request failed."""


class Unreachable(TelegramError):
    """The network, or Telegram itself, is in trouble. The request may have had its effect."""


class Flood(TelegramError):
    def __init__(self, seconds: float) -> None:
        super().__init__(f"too many requests, next attempt in {seconds:g} s")
        self.seconds = seconds


class PolledElsewhere(TelegramError):
    """Another process asks for updates with this token."""


class WebhookSet(PolledElsewhere):
    """A webhook is set: until it is deleted, Telegram hands out no updates."""


class Gone(TelegramError):
    """The bot was blocked, or removed from the chat."""


class Moved(TelegramError):
    def __init__(self, chat: int) -> None:
        super().__init__(f"the group is chat {chat} now")
        self.chat = chat


class Refused(TelegramError):
    """Telegram rejected the request itself; the text is Telegram's."""


class NotThere(Unreachable):
    """Telegram says "Not Found": to a method that this Bot API does not have, or because of a fault in between."""


class FileTooLarge(TelegramError):
    """A file is larger than is wanted, or than Telegram gives to bots."""


class FileGone(TelegramError):
    """Telegram does not have the file (any more)."""


class Unauthorized(TelegramError):
    """The token is not known to Telegram."""


#: aiogram's error → ours; anything else is Unreachable.
_KINDS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], type[TelegramError]], ...] = (
    (TelegramUnauthorizedError, Unauthorized),
    (TelegramConflictError, PolledElsewhere),
    (TelegramForbiddenError, Gone),
    ((TelegramBadRequest, TelegramEntityTooLarge), Refused),
)


def telegram_error(error: Exception, token: str, *, known: bool) -> TelegramError:
    """Ours for one of aiogram's, or of the network's. `known`: Telegram has accepted the token before."""
    if isinstance(error, TelegramRetryAfter):
        return Flood(max(1, error.retry_after))
    if isinstance(error, TelegramMigrateToChat):
        return Moved(error.migrate_to_chat_id)
    if isinstance(error, ClientDecodeError):  # its text contains what people wrote
        return Unreachable("Telegram's response cannot be read")
    text = (str(error) or type(error).__name__).replace(token, "(token)")[:300]
    if isinstance(error, TelegramNotFound):  # from a known token: a fault in between, or no such method
        return NotThere(text) if known else Unauthorized(text)
    if isinstance(error, TelegramConflictError) and "webhook" in text:
        return WebhookSet(text)
    return next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), Unreachable)(text)
