"""Which model the Claude CLI takes where nobody names one.

A new session takes it by itself. A resumed one keeps the model of its last call (2.1.330), so there the CLI has to be told what its default is;
`--model default` is that of the account, and passes over what the owner has set. Read off the CLI against a loopback API: ANTHROPIC_MODEL of a
settings file, else of the environment, else `model` of a settings file; the host's own file ahead of the user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

#: Settings of the whole host, which come ahead of the user's.
HOST_SETTINGS = Path("/etc/claude-code/managed-settings.json")
#: The CLI's own word for the model of the account.
ACCOUNTS_MODEL = "default"


def default_model(environment: Mapping[str, str]) -> str:
    """A model as `--model` takes it, for a CLI with this environment."""
    home = environment.get("CLAUDE_CONFIG_DIR") or f"{environment.get('HOME', '~')}/.claude"
    found = [_settings(HOST_SETTINGS), _settings(Path(home).expanduser() / "settings.json")]
    variables = [one.get("env") for one in found]
    named = [one.get("ANTHROPIC_MODEL") for one in [*variables, environment] if isinstance(one, Mapping)]
    wanted = [*named, *(one.get("model") for one in found)]
    return next((one for one in wanted if isinstance(one, str) and one.strip()), ACCOUNTS_MODEL)


def _settings(path: Path) -> dict[str, Any]:
    """A settings file; {} for none, or one that cannot be read."""
    with suppress(OSError, orjson.JSONDecodeError):
        read = orjson.loads(path.read_bytes())
        return read if isinstance(read, dict) else {}
    return {}
