"""Which of equal messages one is, for formats without ids: the first "ok" of a minute, the second, … . So a repeated export finds the same numbers.

Times may go back within a file, because a clock was set or a message came late. Counts are kept by hour, of the hours that were met last, so that a
file of any length needs little memory.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

_HOURS_KEPT = 8


class Repetitions:
    def __init__(self) -> None:
        self._hours: OrderedDict[int, Counter[str]] = OrderedDict()

    def number(self, at: float, same: str) -> int:
        """How often this came by now, itself included. `at`: its time in seconds; `same`: what equal ones have in common, the time included."""
        hour = int(at // 3600)
        counts = self._hours.setdefault(hour, Counter())
        self._hours.move_to_end(hour)
        if len(self._hours) > _HOURS_KEPT:
            self._hours.popitem(last=False)
        counts[same] += 1
        return counts[same]
