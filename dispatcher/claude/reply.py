"""Strict parsing of the Claude CLI's output: one JSON object in UTF-8, or it is not an answer.

A person in the chat gets a plain sentence; the CLI's own messages (which name files, hosts and accounts) go to the log, and to
the owner. Whether the session must be replaced depends only on the kind of fault: a limit, an overload or a lost login will pass, but a refused
conversation will be refused again.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, TypeGuard
from zoneinfo import ZoneInfo

from dispatcher.claude.process import Ended
from shared.text.format import cut_end, one_line, shorten
from shared.text.logs import Logger
from shared.text.translations import later, tr
from shared.wire.json import record_of

WORD_JOINER = "\u2060"
#: How much of the CLI's own message is logged. Characters.
LOGGED_CHARACTERS = 1_000
#: … and shown to the owner.
CAUSE_CHARACTERS = 300
TRY_AGAIN = later("Please try again.")
SOON = later("Please try again in a few minutes.")
LATER = later("Please try again later.")
LESS = later("Please send less at a time.")
OTHERWISE = later("Please phrase it differently.")
TELL_OWNER = later("Please tell my owner.")

#: Characters that no text may contain: NUL (no database accepts it) and lone surrogates (they have no UTF-8).
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
#: Passwords in addresses, and keys of APIs.
_SECRET = re.compile(r"(?<=://)\S*(?=@)|\bsk-[\w-]{6,}")
_RESETS = re.compile(r"\bresets (?:at )?([^·∙|\n]{1,60})")
#: Exit codes of a program that starts another one (a shell) if that is missing or cannot be executed.
NOT_STARTED = (126, 127)
#: The CLI's format of session ids.
SESSION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
#: A named hour without a day, so far ahead, has just passed.
_PASSED_SECONDS = 22 * 3600


class Follows(Enum):
    """What follows an error.

    ALL_WAIT: it is a matter of the account, so all questions are asked later; CHAT_WAITS: those of this chat.
    NEW_SESSION: the session cannot be continued, or not with this message; a new one may work. SAME_SESSION: it can, in a while.
    WITHOUT_MEMORY: without what we have added to the message it may be answered. NOTHING: the chat is told.
    """

    ALL_WAIT = "all wait"
    CHAT_WAITS = "the chat waits"
    NEW_SESSION = "a new session"
    SAME_SESSION = "the same session"
    WITHOUT_MEMORY = "without memory"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Answer:
    """The CLI's answer.

    `error` is None for an answer, else what went wrong, as the middle of a sentence; `advice` is the sentence after it, `follows` what can be done.
    `cause`: the CLI's own message, for the owner; `why`: the error without a time, not translated; `resets`: when a limit ends, if the CLI names
    an hour (POSIX seconds).
    `session_cost`: the session's total cost in dollars, if known;
    `cost_usd` in `usage`: the cost of this call, if known; `spent` computes one from the other. `model` in `usage` is a name, its other values are
    numbers.
    """

    text: str
    error: str | None = None
    follows: Follows = Follows.NOTHING
    why: str = ""
    resets: float | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    session_cost: float | None = None
    advice: str = TRY_AGAIN
    cause: str = ""


@dataclass(frozen=True)
class Complaint:
    """A fault that the CLI reports, recognised by its words or the API's status; the sentence for the chat, and what follows."""

    pattern: str
    words: str
    follows: Follows
    advice: str = TRY_AGAIN
    statuses: range = range(0)

    def fits(self, status: int, text: str) -> bool:
        return status in self.statuses or bool(self.pattern and re.search(self.pattern, text))


NO_LOGIN_READ = later("I am not logged in, and my owner has to log me in")
LOGIN_ENDED = later("I am not logged in any more, and my owner has to log me in again")
GONE = later("the earlier conversation is gone")
#: The first match counts. Statuses and words are those of 2.1.197 to 2.1.332: recorded with a loopback API server or without a network,
#: read in the program, or reported in public.
COMPLAINTS = (
    Complaint(
        r"hit your (?:Claude )?(?!(?:AI|Claude|Enterprise|Free|Max|Pro|Session|Team|Usage|Weekly)\b)[A-Z]\w+ (?:[\d.]+ )?(?:weekly )?limit"
        r"|(?i:fable|haiku|opus|sonnet) (?:[\d.]+ )?(?:weekly )?limit",
        later("I am over the usage limit of this model"),
        Follows.CHAT_WAITS,
        LATER,
    ),
    Complaint(
        r"hit your [\w' -]*limit|limit reached|out of (extra )?usage",
        later("I am over my usage limit"),
        Follows.ALL_WAIT,
        LATER,
    ),
    Complaint(  # decided by a sentence in the prompt, which may be a recalled one that names another program
        r"[Tt]hird-party (apps|harness)|plan limits|Agent SDK credit|extra usage is required",
        later("my account cannot pay for this request, and my owner has to look at it"),
        Follows.WITHOUT_MEMORY,
        TELL_OWNER,
    ),
    Complaint(
        r"[Cc]redit balance",
        later("my account has no credit left, and my owner has to add some"),
        Follows.ALL_WAIT,
        TELL_OWNER,
    ),
    Complaint(
        r"Prompt is too long",
        later("this conversation is too long for me, or the message is"),
        Follows.NEW_SESSION,
        LESS,
    ),
    Complaint(  # what is resumed cannot be sent any more
        r"surrogate in string|`tool_use` ids were found without|unexpected `tool_use_id`",
        later("the earlier conversation is damaged"),
        Follows.NEW_SESSION,
        OTHERWISE,
    ),
    Complaint(r"Not logged in", NO_LOGIN_READ, Follows.ALL_WAIT, TELL_OWNER),
    Complaint(
        r"/login|login again|Failed to authenticate|Invalid API key|OAuth token",
        LOGIN_ENDED,
        Follows.ALL_WAIT,
        TELL_OWNER,
        range(401, 403),
    ),
    Complaint(r"No conversation found|--resume requires a valid session ID", GONE, Follows.NEW_SESSION),
    Complaint(  # it is that of a dispatcher which was killed
        r"[Ss]ession(?: ID)? \S* ?is already in use",
        later("another answer of this conversation is still being written"),
        Follows.SAME_SESSION,
        SOON,
    ),
    Complaint(
        r"selected model",
        later("the model I should use is not available, and my owner has to choose another one"),
        Follows.NOTHING,
        TELL_OWNER,
        range(404, 405),
    ),
    Complaint(r"Request too large", later("the message is too large"), Follows.NEW_SESSION, LESS, range(413, 414)),
    Complaint("", later("I am getting too many requests right now"), Follows.CHAT_WAITS, SOON, range(429, 430)),
    Complaint("", later("the service I use is overloaded or out of order"), Follows.CHAT_WAITS, SOON, range(500, 600)),
    Complaint("", later("the service I use refused the request"), Follows.NEW_SESSION, OTHERWISE, range(400, 500)),
    Complaint(
        r"[Cc]onnection|connect (?:to|through)|reach the API server|No response from API|API is temporarily unavailable|timed out",
        later("the service I use cannot be reached"),
        Follows.CHAT_WAITS,
        SOON,
    ),
)
#: Why questions may wait: no other text is shown as such.
REASONS = frozenset(one.words for one in COMPLAINTS if one.follows in (Follows.ALL_WAIT, Follows.CHAT_WAITS))


def cannot_start(own_words: str) -> Answer:
    """The program itself is missing or may not be run, so message and session are not at fault."""
    words = later("the Claude CLI cannot be started, and my owner has to install it again (hmem doctor shows more)")
    return failed(words, own_words, TELL_OWNER)


def failed(words: str, own_words: str = "", advice: str = TRY_AGAIN, **more: Any) -> Answer:
    """A failed answer: `words` for the chat, the CLI's own message for the log and, without secrets, the owner, and what else is known."""
    Logger().warning("the Claude CLI gave no answer", told=words, cli=own_words[-LOGGED_CHARACTERS:] or None)
    shown = _SECRET.sub("•••", _UNSTORABLE.sub("\ufffd", own_words))
    cause = shorten(one_line(cut_end(shown, LOGGED_CHARACTERS)), CAUSE_CHARACTERS)
    return Answer("", error=tr(words), advice=tr(advice), cause=cause, **more)


def _no_answer(reason: str) -> str:
    return tr("the CLI's output was not an answer ({reason})").format(reason=reason)


def read_answer(ended: Ended, session: str, *, resumed: bool, model: str | None = None) -> Answer:
    """An Answer from the CLI's output, in this session, which existed before (`resumed`) or not, by this model (None: the CLI's default)."""
    complaint = ended.errors.decode("utf-8", "replace").strip()
    if not ended.output.strip():
        return _without_record(ended.exit_code, complaint)
    record = record_of(ended.output)
    if not record:
        return failed(_no_answer("it is not one JSON object"), f"exit {ended.exit_code}: {complaint}")
    usage, session_cost = _usage(record, resumed=resumed)
    if resumed and ended.exit_code == 0 and (gone := _complained(0, complaint)) and gone.why == GONE:
        return gone  # it has answered, knowing nothing of the conversation
    answer = _of_record(record, ended.exit_code, complaint, session)
    if named := _model(record.get("modelUsage"), model):
        usage["model"] = named
    return replace(answer, usage=usage, session_cost=session_cost)


def spent(answer: Answer, before: float) -> tuple[float, float]:
    """(cost of this call, total cost of its session), given the session's cost before the call, in dollars; never negative."""
    if answer.session_cost is None:
        cost = float(answer.usage.get("cost_usd", 0.0))
        return cost, before + cost
    if answer.session_cost < before * (1 - 1e-9):  # the CLI has lost its counter and started again
        return answer.session_cost, answer.session_cost
    return max(0.0, answer.session_cost - before), answer.session_cost


def _without_record(exit_code: int, complaint: str) -> Answer:
    """No output. A regular exit may be due to the session, whatever this version's message is; a signal is not."""
    if exit_code in NOT_STARTED:
        return cannot_start(complaint)
    broke = tr("the Claude CLI failed (exit {code})").format(code=exit_code)
    follows = Follows.NEW_SESSION if exit_code > 0 else Follows.NOTHING
    return _complained(0, complaint) or failed(broke, complaint, follows=follows)


def _of_record(record: dict[str, Any], exit_code: int, complaint: str, session: str) -> Answer:
    text = record.get("result")
    if record.get("is_error", False) is not False or exit_code != 0:
        own_words = text if isinstance(text, str) and text.strip() else complaint
        return _complained(record.get("api_error_status"), own_words) or failed(
            later("the Claude CLI reported an error"), f"exit {exit_code}: {own_words}"
        )
    if not isinstance(text, str):
        return failed(_no_answer("it has no text"), complaint)
    if record.get("session_id", session) != session:  # it may be another chat's
        return failed(
            later("the answer belongs to another conversation"), str(record["session_id"]), follows=Follows.NEW_SESSION
        )
    if record.get("num_turns") == 0:  # no model was called: the CLI has interpreted the message as a command
        return failed(later("the message was taken for a command"), text, OTHERWISE)
    if not text.strip():
        return failed(later("the answer was empty"), complaint)
    return Answer(_UNSTORABLE.sub("\ufffd", text).replace(WORD_JOINER, ""))


def _complained(status: object, own_words: str) -> Answer | None:
    """None for words that are not in the table."""
    named = re.search(r"API Error: (\d{3})\b", own_words)
    number = status if isinstance(status, int) and not isinstance(status, bool) else int(named[1]) if named else 0
    for complaint in COMPLAINTS:
        if complaint.fits(number, own_words):
            ends = _RESETS.search(own_words)
            until = ends[1].strip(" .") if ends else ""
            words = (
                tr("{reason} until {time}").format(reason=tr(complaint.words), time=until) if until else complaint.words
            )
            resets = _moment(until, time.time()) if until else None
            more = {"follows": complaint.follows, "why": complaint.words, "resets": resets}
            return failed(words, own_words, complaint.advice, **more)
    return None


def _moment(text: str, now: float) -> float | None:
    """The next `3pm (Europe/Berlin)`, `9:20am (UTC)`, `Nov 25, 9am (UTC)` in POSIX seconds; None if it cannot be read, or has just passed."""
    import dateparser  # it takes a while, and limits are rare

    words, _, named = text.partition("(")
    try:
        zone = ZoneInfo(named.strip(" )") or "UTC")
        here = datetime.fromtimestamp(now, zone).replace(tzinfo=None)
        day = re.search("[A-Z][a-z]{2} ", words)
        # "future" finds no hour of tomorrow on the last day of a month (dateparser 1.5).
        choices = {"PREFER_DATES_FROM": "future" if day else "current_period", "RELATIVE_BASE": here}
        found = dateparser.parse(words, languages=["en"], settings=choices)
    except (ValueError, LookupError, OSError):  # no such zone
        return None
    if found is None:
        return None
    found += timedelta(days=not day and found < here)
    moment = found.replace(tzinfo=zone).timestamp()
    return moment if moment > now and (day or moment - now < _PASSED_SECONDS) else None


def _usage(record: dict[str, Any], *, resumed: bool) -> tuple[dict[str, Any], float | None]:
    """The counters of this call, with the names of `hcli:stats`, and the session's total cost if the CLI reports that."""
    counted = record.get("usage")
    counted = counted if isinstance(counted, dict) else {}
    counters = {
        "input_tokens": counted.get("input_tokens"),
        "output_tokens": counted.get("output_tokens"),
        "cache_read": counted.get("cache_read_input_tokens"),
        "cache_write": counted.get("cache_creation_input_tokens"),
        "duration_ms": record.get("duration_ms"),
        "num_turns": record.get("num_turns"),
    }
    usage: dict[str, Any] = {name: round(value) for name, value in counters.items() if _is_number(value)}
    cost = record.get("total_cost_usd")
    if not _is_number(cost):
        return usage, None
    if not resumed:
        return usage | {"cost_usd": float(cost)}, float(cost)
    if _adds_up(record.get("modelUsage"), counted):
        return usage, float(cost)
    return usage | {"cost_usd": float(cost)}, None


def _model(by_model: object, asked: str | None) -> str | None:
    """The model that answered: the requested one if the CLI reports it (possibly for the whole session), else the first that it reports."""
    counted = [name for name in by_model if isinstance(name, str) and name] if isinstance(by_model, dict) else []
    return next((name for name in counted if asked and asked in name), None) or (counted[0] if counted else asked)


def _adds_up(by_model: object, counted: dict[str, Any]) -> bool:
    """Whether the cost is that of the whole session: since 2.1.277 `modelUsage` and the cost are totals over resumed turns, `usage` is not.

    Decided by the numbers, not the version: the tokens by model exceed those of this call.
    """
    rows = [row for row in by_model.values() if isinstance(row, dict)] if isinstance(by_model, dict) else []
    return any(
        sum(row[ours] for row in rows if _is_number(row.get(ours))) > (counted[theirs] if _is_number(counted.get(theirs)) else 0)
        for ours, theirs in (("inputTokens", "input_tokens"), ("outputTokens", "output_tokens"))
    )  # fmt: skip


def _is_number(value: object) -> TypeGuard[int | float]:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1e15 and math.isfinite(value)
    )
