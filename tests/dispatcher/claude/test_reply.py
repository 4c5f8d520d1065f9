"""What the Claude CLI printed: only one well-formed answer is taken for one, and a fault is told in plain words."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from dispatcher.claude.process import Ended
from dispatcher.claude.reply import Answer, Follows, read_answer, spent

SESSION = "6f1e1c9e-53a1-4a51-9d05-30f1a4c3b1a7"


def printed(**changes: Any) -> bytes:
    """A record as 2.1.330 prints it."""
    record = {
        "type": "result", "subtype": "success", "is_error": False, "result": "All right.", "session_id": SESSION, "num_turns": 1,
        "duration_ms": 120, "total_cost_usd": 0.00014, "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 7},
        "modelUsage": {"claude-opus-5-5": {"inputTokens": 10, "outputTokens": 5, "costUSD": 0.00014}},
    }  # fmt: skip
    return json.dumps(record | changes).encode()


def read(output: bytes, exit_code: int = 0, errors: bytes = b"", *, resumed: bool = False) -> Answer:
    return read_answer(Ended(exit_code, output, errors), SESSION, resumed=resumed)


def test_an_answer() -> None:
    answer = read(printed())
    assert (answer.text, answer.error, answer.follows) == ("All right.", None, Follows.NOTHING)
    assert answer.usage == {
        "input_tokens": 10, "output_tokens": 5, "cache_read": 7, "duration_ms": 120, "num_turns": 1, "cost_usd": 0.00014,
        "model": "claude-opus-5-5",
    }  # fmt: skip


@pytest.mark.parametrize(("output", "words"), [
    (b"", "failed (exit 0)"),
    (b"Segmentation fault", "not one JSON object"),
    (printed()[:-1], "not one JSON object"),
    (printed() + printed(), "not one JSON object"),
    (b"\xef\xbb\xbf" + printed(), "not one JSON object"),
    (b"[" + printed() + b"]", "not one JSON object"),
    (b"[" * 100_000, "not one JSON object"),
    (printed().replace(b"All right.", b"caf\xe9"), "not one JSON object"),
    (printed(result=None), "it has no text"),
    (printed(result=" \n\u00a0"), "empty"),
    (printed(result="/help isn't available in this environment.", num_turns=0), "taken for a command"),
    (printed(session_id="00000000-0000-0000-0000-000000000000"), "another conversation"),
    (printed(is_error="false"), "reported an error"),
    (printed(is_error=True, result="Something new"), "reported an error"),
])  # fmt: skip
def test_what_is_no_answer_is_refused(output: bytes, words: str) -> None:
    answer = read(output)
    assert answer.text == ""
    assert answer.error is not None
    assert words in answer.error


def test_what_the_cli_itself_says_stays_out_of_the_chat(capfd: pytest.CaptureFixture[str]) -> None:
    answer = read(b"", 3, b"Claude configuration file at /home/hmem/.claude.json is corrupted")
    assert answer.error == "the Claude CLI failed (exit 3)"
    assert "/home/hmem/.claude.json" in "".join(capfd.readouterr())


def test_what_the_cli_itself_says_reaches_its_owner_without_passwords_and_keys() -> None:
    said = "Incorrect API key: sk-ant-api03-AAAA, by http://user:p@ss@proxy:3128 \ud800"
    cause = read_answer(
        Ended(1, json.dumps({"is_error": True, "result": said}).encode(), b""), "s", resumed=False
    ).cause
    assert cause == "exit 1: Incorrect API key: •••, by http://•••@proxy:3128 \ufffd"


def test_what_no_database_takes_is_replaced_and_nothing_of_our_disarming_stays() -> None:
    answer = read(printed(result="half \ud83d, whole \U0001f600, nul \x00, see @\u2060/etc and \u2060/clear"))
    assert answer.text == "half \ufffd, whole \U0001f600, nul \ufffd, see @/etc and /clear"
    assert answer.text.encode()


LIMIT = "You've hit your 5-hour limit · resets 9:20am (UTC)"


ALL, CHAT, NEW, NOTHING = Follows.ALL_WAIT, Follows.CHAT_WAITS, Follows.NEW_SESSION, Follows.NOTHING


@pytest.mark.parametrize(("status", "own_words", "told", "advice", "follows"), [
    (429, LIMIT, "I am over my usage limit until 9:20am (UTC)", "later", ALL),
    (429, "You've hit your weekly limit · resets Nov 25, 9am (UTC)", "limit until Nov 25, 9am (UTC)", "later", ALL),
    (429, "You've hit your org's monthly spend limit · your weekly limit resets 3pm (UTC)", "limit until 3pm", "later", ALL),
    (429, "Weekly limit reached ∙ resets 10am (Asia/Seoul) · /upgrade to Max", "limit until 10am (Asia/Seoul)", "later", ALL),
    (429, "You've hit your Opus limit · resets 9am (UTC)", "usage limit of this model until 9am (UTC)", "later", CHAT),
    (429, "You've hit your Fable 5 limit", "usage limit of this model", "later", CHAT),
    (429, "You've hit your Max limit", "I am over my usage limit", "later", ALL),
    (None, "Opus weekly limit reached ∙ resets Oct 6, 9am", "usage limit of this model until Oct 6", "later", CHAT),
    (400, "Credit balance is too low", "no credit left", "owner", ALL),
    (429, "API Error: Request rejected (429) · This request would exceed…", "I am getting too many requests", "minutes", CHAT),
    (529, "API Error: 529 Overloaded. … check your inference gateway (10.0.0.7).", "overloaded", "minutes", CHAT),
    (401, "Invalid API key · Fix external API key", "log me in again", "owner", ALL),
    (403, "Your account does not have access to Claude. Please login again", "log me in again", "owner", ALL),
    (403, "API Error: 403 Request blocked by the gateway (connection 815)", "refused the request", "phrase", NEW),
    (None, "API Error: 400 connection string invalid", "refused the request", "phrase", NEW),
    (None, "Not logged in · Please run /login", "my owner has to log me in", "owner", ALL),
    (None, "API Error: Connection dropped (ECONNRESET).", "cannot be reached", "minutes", CHAT),
    (None, "API Error: Can't reach the API server — check your internet or DNS (ENOTFOUND)", "cannot be reached", "minutes", CHAT),
    (None, "API Error: Couldn't connect through your proxy (ERR_PROXY_TUNNEL) — the proxy refused the tunnel", "cannot be reached", "minutes", CHAT),
    (None, "API Error: No response from API", "cannot be reached", "minutes", CHAT),
    (None, "API Error: The API is temporarily unavailable", "cannot be reached", "minutes", CHAT),
    (None, f"No conversation found with session ID: {SESSION}", "is gone", "again", NEW),
    (400, "API Error: 400 invalid request: no low surrogate in string: line 1 column 2906", "is damaged", "phrase", NEW),
    (400, "API Error: 400 messages.3: `tool_use` ids were found without `tool_result` blocks immediately after: t", "is damaged", "phrase", NEW),
    (404, "There's an issue with the selected model (x).", "choose another one", "owner", NOTHING),
])  # fmt: skip
def test_a_fault_is_told_in_plain_words_and_what_follows_is_what_helps(
    status: int | None, own_words: str, told: str, advice: str, follows: Follows
) -> None:
    answer = read(printed(is_error=True, result=own_words, api_error_status=status), 1)
    assert answer.error is not None
    assert told in answer.error
    assert advice in answer.advice
    assert answer.follows is follows
    assert not set("!·") & set(answer.error + answer.advice)
    assert "10.0.0.7" not in answer.error


@pytest.mark.parametrize(("day", "named", "ends"), [
    ("2026-11-29", "4pm (Europe/Berlin)", "2026-11-29T15:00+00:00"),
    ("2026-11-29", "2:30am (Asia/Calcutta)", "2026-11-29T21:00+00:00"),
    ("2026-11-29", "Dec 5, 9:59am (UTC)", "2026-12-05T09:59+00:00"),
    ("2026-11-30", "12:09am (UTC)", "2026-12-01T00:09+00:00"),
    ("2026-12-31", "Jan 1, 9am (UTC)", "2027-01-01T09:00+00:00"),
    ("2026-11-29", "2pm (UTC)", None),  # that was a minute ago
    ("2026-11-29", "3pm (Mars)", None),
    ("2026-11-29", "soon", None),
])  # fmt: skip
def test_when_a_limit_ends(day: str, named: str, ends: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.fromisoformat(f"{day}T14:01+00:00").timestamp()
    monkeypatch.setattr("dispatcher.claude.reply.time.time", lambda: now)
    limited = printed(is_error=True, result=f"You've hit your limit · resets {named}", api_error_status=429)
    assert read(limited, 1).resets == (datetime.fromisoformat(ends).timestamp() if ends else None)


@pytest.mark.parametrize("own_words", [
    "API Error: 400 Third-party apps now draw from your extra usage, not your plan limits.", "Agent SDK credit exhausted",
])  # fmt: skip
def test_what_the_account_does_not_pay_for_is_no_fault_of_message_or_session(own_words: str) -> None:
    answer = read(printed(is_error=True, result=own_words, api_error_status=400), 1)
    assert answer.follows is Follows.WITHOUT_MEMORY
    assert "owner" in answer.advice


def test_a_session_that_another_cli_is_in_is_busy_and_not_lost() -> None:
    answer = read(b"", 1, f"Error: Session ID {SESSION} is already in use.".encode())
    assert answer.follows is Follows.SAME_SESSION


def test_an_answer_that_knows_nothing_of_the_conversation_counts_as_none() -> None:
    errors = f"No conversation found with session ID: {SESSION}".encode()
    assert read(printed(), 0, errors, resumed=True).follows is Follows.NEW_SESSION
    assert read(printed(), 0, errors).error is None


def turn(number: int, *, adds_up: bool) -> Answer:
    """The n-th turn of a session, each of which costs 0.00014, as 2.1.330 and 2.1.197 report it."""
    times = number if adds_up else 1
    models = {"m": {"inputTokens": 10 * times, "outputTokens": 5 * times}}
    return read(printed(total_cost_usd=0.00014 * times, modelUsage=models), resumed=number > 1)


@pytest.mark.parametrize("adds_up", [True, False])
def test_each_turn_costs_what_it_costs(adds_up: bool) -> None:
    total = 0.0
    for number in range(1, 5):
        cost, total = spent(turn(number, adds_up=adds_up), total)
        assert cost == pytest.approx(0.00014)
    assert total == pytest.approx(0.00056)
    assert (turn(3, adds_up=adds_up).session_cost is None) is not adds_up


def test_a_cli_that_counts_anew_costs_what_it_says_and_never_less_than_nothing() -> None:
    assert spent(turn(2, adds_up=True), 0.5) == pytest.approx((0.00028, 0.00028))
    assert spent(turn(2, adds_up=True), 0.00028 + 1e-15)[0] == 0.0
    assert spent(Answer("", error="x"), 0.25) == (0.0, 0.25)
