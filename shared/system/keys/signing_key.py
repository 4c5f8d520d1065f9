"""The secret that results are signed with: it must be set, must not be a placeholder, and must be hard to guess."""

from __future__ import annotations

import re

from shared.config.settings import Settings
from shared.errors import SettingsError

#: Characters of the shortest one that is taken; `openssl rand -hex 32` gives 64.
SHORTEST = 16
#: Different characters that a secret has at least: `xxxxxxxxxxxxxxxx` is none.
_FEWEST = 6
#: What stands in examples, ours (docs/install.md, deploy/hmem.toml) and others', in place of a secret.
_PLACEHOLDER = re.compile(
    r"that your bot verifies|openssl rand|hex digits|placeholder|change[ _-]?(me|this|it)\b|<.*>|\$\{|\.\.\."
    r"|\byour[ _-](\w+[ _-])?(secret|key|password)|(secret|key|password)[ _-](goes[ _-])?here",
    re.IGNORECASE,
)
_FIX = "Set the key that your bot has; openssl rand -hex 32 makes a new one for both."


def signing_key(settings: Settings, without: str) -> str:
    """The secret. SettingsError if there is none, saying what that means (`without`, the middle of a sentence), or if it must not be used."""
    if settings.result_hmac_key is None:
        raise SettingsError(f"RESULT_HMAC_KEY is not set, so {without}. {_FIX}")
    secret = settings.result_hmac_key.get_secret_value()
    if _PLACEHOLDER.search(secret):
        raise SettingsError(
            f"RESULT_HMAC_KEY is the placeholder of an example, so anyone who has read it could sign answers. {_FIX}"
        )
    if len(secret) < SHORTEST or len(set(secret)) < _FEWEST:
        raise SettingsError(
            f"RESULT_HMAC_KEY is too easy to guess: it needs {SHORTEST} characters or more, and {_FEWEST} different ones. {_FIX}"
        )
    return secret
