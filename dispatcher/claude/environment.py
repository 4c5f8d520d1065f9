"""What the Claude CLI of this user is, and sees: the program, its environment, the model that it uses by default."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from shared.config.packages import how_to_get_claude
from shared.config.settings import Settings, setting_names
from shared.errors import ClaudeUnavailable
from shared.system.files import write_atomic
from shared.wire.json import dumps, record_of

#: Passed to the CLI unless our environment sets them: no second memory (it costs 500 tokens a message, and is not forgotten with ours), and about
#: 35 s of retries instead of its default of 10 tries in 3 minutes. SIMPLE is what `--bare` sets, which reads no login.
DEFAULTS = {"CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1", "CLAUDE_CODE_POST_TURN_MEMORY": "0", "CLAUDE_CODE_MAX_RETRIES": "6",
            "CLAUDE_CODE_SIMPLE": "0"}  # fmt: skip

#: The CLI's own switches against `@path`, whatever our environment sets. Newer versions (2.1.330) have the first, which does nothing else. The second
#: exists since 2.1.197 or earlier, but also removes the instructions of MCP servers and the list of skills: it is set for calls that have neither.
NO_FILE_MENTIONS = {"CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1"}
NO_ATTACHMENTS = {"CLAUDE_CODE_DISABLE_ATTACHMENTS": "1"}
#: The variables of our environment that the CLI may see: its own, and what any program needs.
_PASSED = frozenset(
    """
    HOME PATH USER LOGNAME SHELL LANG LANGUAGE TZ TERM TMPDIR HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy
    https_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS CLOUD_ML_REGION
    """.split()
)
_PASSED_PREFIXES = ("LC_", "XDG_", "ANTHROPIC_", "CLAUDE_", "AWS_", "VERTEX_", "GOOGLE_")


def child_environment(environment: Mapping[str, str], own_names: set[str], extra: str) -> dict[str, str]:
    """The CLI's environment: an allowlist, never our settings, plus what CLAUDE_ENV names."""
    wanted = {name.strip() for name in extra.split(",") if name.strip()}
    return {
        name: value
        for name, value in environment.items()
        if name in wanted or (name not in own_names and (name in _PASSED or name.startswith(_PASSED_PREFIXES)))
    }


def find_cli(settings: Settings) -> str:
    """Path of the CLI, or ClaudeUnavailable."""
    beside_us = str(Path(sys.executable).parent)  # where scripts/setup --with-claude puts it
    found = shutil.which(settings.claude_bin) or shutil.which(settings.claude_bin, path=beside_us)
    if found is None:
        raise ClaudeUnavailable(
            f"The Claude CLI {settings.claude_bin!r} is not installed or not executable. "
            f"Install it ({how_to_get_claude()}), run it once as this user to log in, or set CLAUDE_BIN."
        )
    return str(Path(found).absolute())


def cli_environment(settings: Settings) -> dict[str, str]:
    """The environment that the CLI gets from this process."""
    own = set(setting_names())
    return DEFAULTS | child_environment(os.environ, own, settings.claude_env) | NO_FILE_MENTIONS


#: In HMEM_STATE_DIR: since when this token of `claude setup-token` has been used here. It does not say itself when it ends.
LOGIN_SINCE = "claude-token.json"


def note_token(state: Path, environment: Mapping[str, str], now: float) -> None:
    """Note the time if the token is another one than before, or there is none any more; nothing where that cannot be written."""
    token = environment.get("CLAUDE_CODE_OAUTH_TOKEN", "")
    digest = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()[:16] if token else ""
    if digest != _settings(state / LOGIN_SINCE).get("token", ""):
        with suppress(OSError):
            write_atomic(state / LOGIN_SINCE, dumps({"token": digest, "since": now}))


def token_since(state: Path) -> float | None:
    """POSIX seconds; None where no such token is used."""
    noted = _settings(state / LOGIN_SINCE)
    return float(noted["since"]) if noted.get("token") else None


#: Settings of the whole host, which take precedence over the user's.
HOST_SETTINGS = Path("/etc/claude-code/managed-settings.json")

#: The CLI's name for the model of the account.
ACCOUNTS_MODEL = "default"


def default_model(environment: Mapping[str, str]) -> str:
    """The value for `--model`, for a CLI with this environment."""
    home = environment.get("CLAUDE_CONFIG_DIR") or f"{environment.get('HOME', '~')}/.claude"
    found = [_settings(HOST_SETTINGS), _settings(Path(home).expanduser() / "settings.json")]
    variables = [one.get("env") for one in found]
    named = [one.get("ANTHROPIC_MODEL") for one in [*variables, environment] if isinstance(one, Mapping)]
    wanted = [*named, *(one.get("model") for one in found)]
    return next((one for one in wanted if isinstance(one, str) and one.strip()), ACCOUNTS_MODEL)


def _settings(path: Path) -> dict[str, Any]:
    """A settings file; {} if it is missing or cannot be read."""
    with suppress(OSError):
        return record_of(path.read_bytes())
    return {}
