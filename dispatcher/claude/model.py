"""Which model the Claude CLI uses by default.

A new session uses the default by itself. A resumed one keeps the model of its last call (2.1.330), so the default must be passed explicitly;
`--model default` is that of the account, and ignores what the owner has set. Observed with a loopback API: ANTHROPIC_MODEL of a settings file, else
of the environment, else `model` of a settings file; the host's file takes precedence over the user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

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
    with suppress(OSError, orjson.JSONDecodeError):
        read = orjson.loads(path.read_bytes())
        return read if isinstance(read, dict) else {}
    return {}
