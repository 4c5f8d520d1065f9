"""What the owner must know at once: the checks that are marked as alarms, made with the rights of the dispatcher.

What cannot be judged now (no answer, no right) neither raises an alarm nor ends one.
"""

from __future__ import annotations

import logging
import re

from redis.exceptions import NoPermissionError

from dispatcher.features.digest.checks import check_missed_night
from dispatcher.features.digest.outgoing import Outgoing
from dispatcher.features.digest.settings import DigestSettings
from dispatcher.health.doctor import every_check
from dispatcher.health.findings import Check, Finding, Setup, of_error
from shared.errors import HmemError
from shared.text.format import shorten
from shared.text.logs import Logger

log = Logger()

#: The longest that a finding is quoted. Characters.
MOST_CHARACTERS = 500
_BAD = {"warning": ("warning", "problem"), "problem": ("problem",)}


def problems(setup: Setup) -> list[str]:
    """What needs the owner, for the morning report, which says by itself when a night was missed: each in a sentence with what to do."""
    said = []
    for check in every_check():
        from_state = "warning" if check.morning else check.alarm
        if from_state and check.run is not check_missed_night and (found := _made(check, setup)):
            said += [in_one(found)] if found.state in _BAD[from_state] else []
    return said


def send_alarms(setup: Setup) -> int:
    """Raise, repeat and call off every alarm that can be judged now, where there is no REPORT_CHAT in the log; how many were told. RedisError if
    Redis does not answer.

    Where dispatchers disagree (each sees its own disk), an alarm lasts as long as one of them finds it: `alarm.lua` wants all to be well for longer
    than from one look to the next.
    """
    outgoing, now, told = Outgoing(setup.redis, setup.settings), setup.now(), 0
    chat = setup.settings.of(DigestSettings).report_chat
    for check in every_check():
        if not (check.alarm and (found := _made(check, setup))):
            continue
        lasts = found.state in _BAD[check.alarm]
        text = f"Alarm: {in_one(found)}." if lasts else f"Well again: {_small(found.sentence)}"
        if outgoing.alarm(check.name, chat, text, now, lasts=lasts, cause=found.cause):
            told += 1
            if not chat:
                log.log(logging.ERROR if lasts else logging.INFO, text)
    return told


def _made(check: Check, setup: Setup) -> Finding | None:
    """None if it cannot be made now."""
    try:
        return check.run(setup)
    except HmemError as error:
        return of_error(error)
    except (NoPermissionError, OSError, KeyError, ValueError):
        return None


def in_one(finding: Finding) -> str:
    """A finding as one sentence without a full stop: what it found, and what to do."""
    sentence, fix = shorten(finding.sentence.rstrip("."), MOST_CHARACTERS), finding.fix.rstrip(".")
    return f"{_small(sentence)}; {_small(fix)}" if fix else _small(sentence)


def _small(sentence: str) -> str:
    """The sentence as it goes on after a colon: a first word of small letters loses its capital, a name keeps it."""
    first = sentence.split(" ", 1)[0]
    named = first in ("Redis", "Claude") or not re.fullmatch(r"[A-Z][a-z]*", first)
    return sentence if named else sentence[:1].lower() + sentence[1:]
