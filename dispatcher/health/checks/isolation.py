"""Whether the parts of this installation are isolated from each other. Only warnings, because a single user for all parts works as well."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from dispatcher.claude.environment import cli_environment, find_cli
from dispatcher.claude.sandbox import Walls
from dispatcher.health.findings import Finding, Setup, ok, warning
from shared.config.credentials import variables_set
from shared.config.settings import Settings
from shared.config.sources import secrets_of
from shared.errors import ClaudeUnavailable


def check_isolation(setup: Setup) -> Finding:
    """Secrets, users, and the sandbox of the Claude CLI."""
    settings = setup.settings
    weaker = [*_secrets(settings), *_users(settings), *_walls(settings)]
    if not weaker:
        return ok(
            "No secrets are in the environment, dispatcher and night are two users, and the Claude CLI cannot read our files and secrets."
        )
    return warning(
        f"The parts are not fully isolated from each other: {'; '.join(weaker)}.",
        "systemd/README.md describes a setup with three users and secrets in files. A single user for all parts works as well.",
    )


def _secrets(settings: Settings) -> list[str]:
    exposed = variables_set(secrets_of(settings.every()))
    return (
        [f"{', '.join(exposed)} is in the environment, which every child process of this shell or service inherits"]
        if exposed
        else []
    )


def _users(settings: Settings) -> list[str]:
    owners = [_owner(path) for path in (settings.hmem_state_dir, settings.hmem_night_dir)]
    same = None not in owners and len(set(owners)) == 1
    return ["dispatcher and night run as one user, so each can read the other's files and secrets"] if same else []


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None


def _walls(settings: Settings) -> list[str]:
    """What is known in advance, then what a test shows."""
    try:
        walls = Walls(settings, cli_environment(settings), find_cli(settings))
    except ClaudeUnavailable:  # another check reports it
        return []
    known = (
        [f"Landlock does not keep the Claude CLI from all of our files: {walls.open_because}"]
        if walls.open_because
        else []
    )
    return [*known, *filter(None, [walls.found_open(), _open_redis(settings)])]


def _open_redis(settings: Settings) -> str | None:
    """Landlock hides files and processes, but not network addresses."""
    address = urlsplit(settings.redis_url)
    if address.password:
        return None
    return "Redis requires no password from this host, so a tool of the Claude CLI with network access can read and write all data of the day"
