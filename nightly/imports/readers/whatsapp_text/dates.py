"""In which order a WhatsApp export writes day, month and year: decided over the whole file, because any one line may be pasted."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nightly.imports.containers.members import Member
from nightly.imports.readers.whatsapp_text.lines import Head, UnknownWords, head_of
from nightly.imports.readers.whatsapp_text.media import Marks, shown
from shared.errors import InvalidInput
from shared.turns.records import RecordRefused

#: The orders in which a date may be written, as --dates names them: where year, month and day stand.
ORDERS = {"dmy": (2, 1, 0), "mdy": (2, 0, 1), "ymd": (0, 1, 2)}
_NAMES = {"dmy": "day, month, year", "mdy": "month, day, year", "ymd": "year, month, day"}
#: A trace is at most this share of a file's messages, and of a few messages none.
_TRACE_SHARE, _TRACE_FROM = 50, 10
#: A line that is so much earlier than the message above it is perhaps none of WhatsApp's: it marks no line break within a message, so there a person
#: can write what looks like a message of somebody else. (Phones' clocks differ, and are put back in autumn.)
DOUBTFUL = timedelta(hours=2)
#: Different unknown words that are kept.
_MOST_WORDS = 1_000


@dataclass
class DateVotes:
    """What the lines of a file say. `given`: the order that the person named. By order: `valid`, the dates that it allows; `back`, how often they go
    back in it; `doubtful`, the lines whose date goes back by more than DOUBTFUL."""

    given: str | None
    heads: int = 0
    buddhist: int = 0
    differ: bool = False
    valid: Counter[str] = field(default_factory=Counter)
    back: Counter[str] = field(default_factory=Counter)
    doubtful: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    unknown: Counter[str] = field(default_factory=Counter)
    _last: dict[str, datetime] = field(default_factory=dict)

    def add(self, head: Head, line: int) -> None:
        moments = {
            name: at for name, order in ORDERS.items() if self._may_be(name, head) and (at := head.moment(order))
        }
        if not moments:
            return  # in no order: a line of a message that looks like a head, or a time that does not exist
        self.heads += 1
        self.buddhist += head.buddhist
        self.differ |= len({*moments.values()}) > 1
        for name, at in moments.items():
            self.valid[name] += 1
            behind = self._last.get(name, at) - at
            self.back[name] += behind > timedelta()
            if behind > DOUBTFUL:
                self.doubtful[name].append(line)
            self._last[name] = at

    def _may_be(self, name: str, head: Head) -> bool:
        return name == self.given or is_usual(name, head)

    def add_unknown(self, words: str) -> None:
        if words in self.unknown or len(self.unknown) < _MOST_WORDS:
            self.unknown[words] += 1

    def against(self, order: str) -> int:
        """How many dates an order does not allow."""
        return self.heads - self.valid[order]

    @property
    def trace(self) -> int:
        return 0 if self.heads < _TRACE_FROM else max(1, self.heads // _TRACE_SHARE)

    def best(self) -> list[str]:
        """The orders against which least speaks. A date that one order does not allow, and that goes back in the other, speaks against both."""
        contradicted = {name: self.against(name) + self.back[name] for name in ORDERS}
        least = min(contradicted.values())
        return [name for name, count in contradicted.items() if count == least]


@dataclass(frozen=True)
class Dates:
    """How the dates of a file are read, and what is to be said of it. `fits`: whether no more than a trace of them contradicts the order. `web`:
    whether it was copied from WhatsApp Web; in an export, lines of that kind are part of a message, into which somebody copied them."""

    order: str
    fits: bool
    notes: tuple[str, ...]
    web: bool

    def moment(self, head: Head) -> datetime | None:
        return head.moment(ORDERS[self.order])

    def is_pasted(self, head: Head) -> bool:
        """Whether it is of another kind, or its date one in another order alone: a line that somebody pasted from elsewhere, part of a message."""
        if head.web and not self.web:
            return True
        others = (name for name in ORDERS if name != self.order and is_usual(name, head))
        return self.fits and self.moment(head) is None and any(head.moment(ORDERS[name]) for name in others)


def dates_of(member: Member, place: str, given: str | None, marks: Marks) -> Dates:
    """`given`: as --dates names it. `marks`: told each line, too. InvalidInput if the order must be named; RecordRefused if the file cannot be read
    without guessing."""
    votes, some, web = DateVotes(given), False, False
    for number, line, _ in member.lines():
        head = None if line is None else head_of(line)
        web = head.web if head is not None and not some and not votes.unknown else web
        if head is not None and head.web and not web:
            head = None
        if isinstance(head, UnknownWords):
            votes.add_unknown(head.words)
        else:
            some |= head is not None
            marks.add(head, line or "")
            if head is not None:
                votes.add(head, number)
    if words := votes.unknown.most_common(1):
        _judge_unknown(votes, *words[0])
    if not some:
        raise RecordRefused("no line of it begins with a date and a time, so it is no export of a WhatsApp chat")
    order = given or _order_of(votes, place)
    notes = (*_notes(votes, order, place), *(f"{place}: {note}" for note in marks.notes()))
    return Dates(order, votes.against(order) <= votes.trace, notes, web)


def _judge_unknown(votes: DateVotes, words: str, count: int) -> None:
    """A word that many lines have ahead of the time is no accident. A trace of them is text that people wrote."""
    if votes.unknown.total() > votes.trace:
        raise RecordRefused(
            f"between date and time, or behind it, stands {shown(words)} ({count} lines), and it is not known which half of the day that is. "
            "Nothing of it was read. Please report the word"
        )


def _order_of(votes: DateVotes, place: str) -> str:
    found = votes.best()
    if (len(found) > 1 and votes.differ) or votes.against(found[0]) > votes.trace:
        counts = ", ".join(f"{name} fits {votes.valid[name]}" for name in ORDERS)
        raise InvalidInput(
            f"{place} does not show in which order day, month and year are written (of {votes.heads} dates, {counts}). Name it with --dates dmy, mdy "
            "or ymd; nothing was imported."
        )
    return found[0]


def _notes(votes: DateVotes, order: str, place: str) -> list[str]:
    fit = f"{votes.valid[order]} of {votes.heads} dates fit"
    found = [f"{place}: dates are read as {_NAMES[order]} (--dates {order}); {fit}"]
    if votes.buddhist:
        found.append(f"{place}: {votes.buddhist} years are of the Buddhist era, and were converted")
    if doubtful := votes.doubtful[order]:
        found.append(
            f"{place}: {len(doubtful)} messages are dated hours before the one above them (the first in line {doubtful[0]}): perhaps "
            "somebody wrote them into a message of their own, which WhatsApp's format does not tell apart. Look at them before you import"
        )
    if count := votes.unknown.total():
        words = ", ".join(shown(one) for one, _ in votes.unknown.most_common(3))
        found.append(
            f"{place}: {count} lines with {words} between date and time are read as text of the message before"
        )
    return found


def is_usual(order: str, head: Head) -> bool:
    """No region writes the month first with dots; and a year of two digits stands first in so few that it must be said."""
    return not (order == "mdy" and head.dotted) and not (order == "ymd" and len(head.numbers[0]) != 4)
