"""Checks of the Claude CLI: is it installed, is it new enough, is it logged in. No request is sent to the provider.

`claude auth status` reports what the CLI itself knows; whether the provider still accepts that login shows with the first answer.
"""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from pathlib import Path

from packaging.version import Version
from redis import RedisError

from dispatcher.claude.environment import cli_environment, find_cli, token_since
from dispatcher.claude.reply import LOGIN_ENDED, NO_LOGIN_READ
from dispatcher.health.findings import Fault, Finding, Setup, ok, problem, skipped, warning
from dispatcher.queue.state import Hold, read_holds
from shared.config.packages import TESTED_CLAUDE, how_to_get_claude
from shared.errors import ClaudeUnavailable
from shared.system.processes import last_line, run_bounded
from shared.text.format import date_text, time_text
from shared.wire.json import record_of

#: The oldest version that was tested.
OLDEST_CLAUDE = "2.1.197"
#: Seconds that the CLI may take to print its version, or whether it is logged in.
ANSWER_SECONDS = 20.0
#: How long a token of `claude setup-token` lives, and how long before its end the doctor warns.
TOKEN_SECONDS, WARNED_SECONDS = 365 * 86_400.0, 30 * 86_400.0
#: A port of this host on which nothing listens: requests that the CLI sends at its start end here.
_NOWHERE = "http://127.0.0.1:9"
_SEALED = {
    "ANTHROPIC_BASE_URL": _NOWHERE,
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "NO_PROXY": "",
    "no_proxy": "",
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _NOWHERE),
}


def check_claude(setup: Setup) -> Finding:
    """It is installed, starts, and is new enough."""
    done = _run(setup, "--version")
    found = re.search(r"\d+\.\d+\.\d+", done.stdout)
    if done.returncode != 0 or not found:
        raise ClaudeUnavailable(
            f"{find_cli(setup.settings)} --version does not print a version ({last_line(done)[:200]}), so it is not a working Claude CLI. "
            f"Install it again ({how_to_get_claude()}), or set CLAUDE_BIN."
        )
    version = found[0]
    if Version(version) < Version(OLDEST_CLAUDE):
        return problem(
            Fault.CLAUDE_TOO_OLD,
            f"The Claude CLI {version} is too old: {OLDEST_CLAUDE} is the oldest that was tested, {TESTED_CLAUDE} the newest.",
            f"Install a newer one ({how_to_get_claude()}, or claude update).",
        )
    tested = ", which is the version that was tested"
    other = f"; if answers fail, {how_to_get_claude()} installs the tested {TESTED_CLAUDE}"
    return ok(f"The Claude CLI {version} is installed{tested if version == TESTED_CLAUDE else other}.")


def check_login(setup: Setup) -> Finding:
    """It is logged in to an account."""
    done = _run(setup, "auth", "status")
    login = record_of(done.stdout.encode())
    if login.get("loggedIn") is True:
        way = login.get("apiKeySource") or login.get("authMethod") or "unknown"
        with suppress(RedisError):
            if (hold := read_holds(setup.redis, setup.now()).get("")) and hold.why in _NOT_USED:
                return _login_not_used(setup, way, hold)
        return ok(f"The Claude CLI is logged in (by {way}); the provider was not asked.")
    home = cli_environment(setup.settings).get("HOME", "")
    if login.get("loggedIn") is False:
        return problem(
            Fault.CLAUDE_LOGIN,
            f"The Claude CLI is not logged in for the user whose HOME is {home}, so it cannot answer.",
            "Start claude once as the dispatcher's user and log in, or give that user's dispatcher ANTHROPIC_API_KEY "
            "or the CLAUDE_CODE_OAUTH_TOKEN that `claude setup-token` prints.",
        )
    return skipped(
        f"This Claude CLI does not report whether it is logged in ({last_line(done)[:200]}).",
        "Try it: echo hello | claude -p",
    )


def check_token(setup: Setup) -> Finding:
    """The token of `claude setup-token`, if that is the login, does not end soon."""
    since = token_since(setup.settings.hmem_state_dir)
    if since is None:
        return ok("The login is no token of `claude setup-token`, which would end after a year.")
    began, ends = (date_text(one, setup.settings.timezone) for one in (since, since + TOKEN_SECONDS))
    said = f"The token of `claude setup-token` has been used here since {began}. It lives a year"
    if setup.now() < since + TOKEN_SECONDS - WARNED_SECONDS:
        return ok(f"{said}.")
    fix = "Run claude setup-token, give the dispatcher the new one (CLAUDE_CODE_OAUTH_TOKEN), and restart it."
    return warning(f"{said}, so it ends by {ends}, and then no question is answered.", fix)


def _login_not_used(setup: Setup, way: str, hold: Hold) -> Finding:
    """The CLI says that it is logged in, and has answered a question with an error of its login."""
    version = _run(setup, "--version").stdout.split(" ")[0].strip()
    since = time_text(hold.since, setup.settings.timezone)
    return problem(
        Fault.CLAUDE_LOGIN,
        f"The Claude CLI {version} says that it is logged in (by {way}), but since {since} questions wait: {_NOT_USED[hold.why]}.",
        "Log in again as the dispatcher's user. If that does not help, give the dispatcher ANTHROPIC_API_KEY, or the CLAUDE_CODE_OAUTH_TOKEN that "
        f"`claude setup-token` prints, or install the tested version ({how_to_get_claude()}).",
    )


#: What it means when questions are refused although there is a login.
_NOT_USED = {
    NO_LOGIN_READ: 'with -p it answers "Not logged in", as a version does that reads no login there (--bare as its default)',
    LOGIN_ENDED: "the provider does not accept this login any more",
}


def _run(setup: Setup, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the CLI in the environment that the dispatcher gives it, but without access to the network."""
    binary = find_cli(setup.settings)
    environment = cli_environment(setup.settings) | _SEALED
    try:
        return run_bounded([binary, *arguments], ANSWER_SECONDS, environment=environment, directory=Path("/"))
    except subprocess.TimeoutExpired as error:
        raise ClaudeUnavailable(
            f"{binary} {' '.join(arguments)} did not end within {ANSWER_SECONDS:g} s. Run it by hand to see what it waits for."
        ) from error
    except OSError as error:
        raise ClaudeUnavailable(
            f"{binary} cannot be started ({error.strerror}). Install it again (scripts/setup --with-claude), or set CLAUDE_BIN."
        ) from error
