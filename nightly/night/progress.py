"""Progress reports: a bar on a terminal, a plain line every few seconds elsewhere (cron mails, journals)."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.filesize import decimal
from rich.progress import Progress, track

Item = TypeVar("Item")

PLAIN_EVERY_SECONDS = 10.0


class Reporter:
    """Writes to standard error; silent with `quiet` (for --json). `counts`: whether steps say what they have counted."""

    def __init__(self, *, quiet: bool = False, counts: bool = True) -> None:
        self._quiet, self.counts = quiet, counts
        self._console = Console(stderr=True, highlight=False)

    def say(self, text: str) -> None:
        if not self._quiet:
            self._console.print(text, markup=False, soft_wrap=True)

    def track(self, items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
        """Pass the items through, showing how many of `total` are done."""
        if not self._quiet and sys.stderr.isatty():
            yield from track(items, total=total, description=what, console=self._console, transient=True)
            return
        last = time.monotonic()
        for number, item in enumerate(items, start=1):
            yield item
            if time.monotonic() - last > PLAIN_EVERY_SECONDS:
                last = time.monotonic()
                self.say(f"  {what}: {number} of {total}")

    def amounts(self, steps: Iterable[tuple[str, int, int]], what: str) -> None:
        """Show each (what is being done, done, total): a bar on a terminal; elsewhere a line at each change and every few seconds."""
        if not self._quiet and sys.stderr.isatty():
            with Progress(console=self._console, transient=True) as progress:
                bar = progress.add_task(what, total=None)
                for doing, done, total in steps:
                    progress.update(bar, description=f"{what}: {doing}", completed=done, total=total or None)
            return
        last, before, shown = time.monotonic(), "", (0, 0)
        for doing, done, total in steps:
            if doing != before or time.monotonic() - last > PLAIN_EVERY_SECONDS or shown[0] < shown[1] == done == total:
                last, before, shown = time.monotonic(), doing, (done, total)
                self.say(f"  {what}: {doing}" + (f", {100 * done // total} % of {decimal(total)}" if total else ""))
