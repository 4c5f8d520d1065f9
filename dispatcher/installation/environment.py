"""The environment of whoever runs `hmem init`: what it gives as settings, and what of it programs get.

Programs of an installation get none of its settings and secrets: those would outlive this run, and take precedence over the settings file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

_KEPT = frozenset(
    "PATH LANG LANGUAGE TERM TZ HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR".split()
)
_KEPT_OF_THIS_USER = frozenset(
    "HOME USER LOGNAME SHELL XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_DATA_HOME DBUS_SESSION_BUS_ADDRESS".split()
)
_OF_INSTALLERS = ("PIP_", "NPM_CONFIG_", "NODE_EXTRA_CA_CERTS", "DEBIAN_", "APT_")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def given(names: Iterable[str]) -> dict[str, str]:
    """Those of these variables that are set, in any spelling, by their names in capitals; an empty one counts as unset."""
    wanted = {name.upper() for name in names}
    return {name.upper(): value for name, value in os.environ.items() if value and name.upper() in wanted}


def variable(name: str) -> str:
    """Its value, or nothing."""
    return os.environ.get(name, "")


def for_installers(**more: str) -> dict[str, str]:
    """A clean one with the settings of package managers: their programs come from elsewhere, and need none of our secrets."""
    kept = {name: value for name, value in os.environ.items() if name.upper().startswith(_OF_INSTALLERS)}
    return {**clean(own=True), **kept, **more}


def clean(*, own: bool) -> dict[str, str]:
    """Without settings and secrets; with `own` also what belongs to this user."""
    names = _KEPT | (_KEPT_OF_THIS_USER if own else frozenset())
    kept = {name: value for name, value in os.environ.items() if name in names or name.startswith("LC_")}
    return {"PATH": _DEFAULT_PATH, **kept}
