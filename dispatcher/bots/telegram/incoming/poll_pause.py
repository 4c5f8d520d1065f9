"""A pause before a poll that would only repeat the last one: Telegram holds a poll until there is something, other servers may not."""

from __future__ import annotations

#: Seconds of the first pause (they double), and of the longest.
FIRST_SECONDS, LONGEST_SECONDS = 0.1, 3.0


class PollPause:
    """One per bot."""

    def __init__(self) -> None:
        self._offset: int | None = None
        self._early = False
        self._seconds = 0.0

    def before(self, offset: int | None) -> float:
        """Seconds to wait before updates are asked for from this offset on: some, if the last answer came at once and moved it no further."""
        again = self._early and offset == self._offset
        self._seconds = min(LONGEST_SECONDS, max(FIRST_SECONDS, 2 * self._seconds)) if again else 0.0
        self._offset = offset
        return self._seconds

    def answered(self, after: float, asked: float) -> None:
        """The answer came after so many of the seconds that were asked for."""
        self._early = after < min(LONGEST_SECONDS, asked / 2)
