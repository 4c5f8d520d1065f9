"""Who tells and who answers, measured in the chat itself.

Between people both sides tell, at about the same length. A person tells an assistant something in short messages and gets long answers, which
repeat the person's words at length: what was said stands in the short message. How much a chat is of that kind is a number from 0 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

#: An answer of so many times the length of a message makes no difference yet; one of `FULL` times makes all of it. Medians of each side.
LEAST, FULL = 2.0, 4.0


@dataclass(frozen=True, eq=False)
class Sides:
    """The two sides of a chat, over its items in the order of time."""

    assistant: NDArray[np.bool_]  # (n,): said by an assistant without a name
    lengths: NDArray[np.float32]  # (n,): characters

    @cached_property
    def firsts(self) -> NDArray[np.intp]:
        """The first item of each run: items of one side that follow each other, such as the passages of an answer."""
        return np.flatnonzero(
            np.concatenate([[True], self.assistant[1:] != self.assistant[:-1]])[: len(self.assistant)]
        )

    @cached_property
    def share(self) -> float:
        """How much of an assistant the answering side is: 0 where it has a name, or answers no longer than the other side writes; at most 1."""
        if self.assistant.all() or not self.assistant.any():
            return 0.0
        runs, answers = np.add.reduceat(self.lengths, self.firsts), self.assistant[self.firsts]
        times = np.median(runs[answers]) / max(1.0, float(np.median(runs[~answers])))
        return float(np.clip(np.log(max(times, LEAST) / LEAST) / np.log(FULL / LEAST), 0.0, 1.0))
