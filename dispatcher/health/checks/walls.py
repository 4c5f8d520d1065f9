"""Whether the parts of this installation are kept apart: what one could read of the others. Warnings only, for one user for all works, too."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from dispatcher.claude.client import cli_environment, find_cli
from dispatcher.claude.walls import Walls
from dispatcher.health.findings import Finding, Setup, ok, warning
from shared.config.credentials import variables_set
from shared.config.settings import Settings
from shared.config.sources import secrets_of
from shared.errors import ClaudeUnavailable


def check_isolation(setup: Setup) -> Finding:
    """Secrets, users, and what surrounds the Claude CLI."""
    settings = setup.settings
    weaker = [*_secrets(settings), *_users(settings), *_walls(settings)]
    if not weaker:
        return ok(
            "Secrets stand in no environment, dispatcher and night are two users, and the Claude CLI sees no file of memory and no secret of ours."
        )
    return warning(
        f"What one part of this could read of another: {'; '.join(weaker)}.",
        "systemd/README.md sets it up with three users and secrets in files. One user for all works, too.",
    )


def _secrets(settings: Settings) -> list[str]:
    exposed = variables_set(secrets_of(settings))
    return (
        [f"{', '.join(exposed)} in the environment, which every child of this shell or service inherits"]
        if exposed
        else []
    )


def _users(settings: Settings) -> list[str]:
    owners = [_owner(path) for path in (settings.hmem_state_dir, settings.hmem_night_dir)]
    same = None not in owners and len(set(owners)) == 1
    return ["dispatcher and night are one user, so either can read the other's files and secrets"] if same else []


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None


def _walls(settings: Settings) -> list[str]:
    """What is known beforehand, then what a trial shows."""
    try:
        walls = Walls(settings, cli_environment(settings), find_cli(settings))
    except ClaudeUnavailable:  # another check says so
        return []
    known = (
        [f"the Claude CLI is not kept from all of our files by Landlock: {walls.open_because}"]
        if walls.open_because
        else []
    )
    return [*known, *filter(None, [walls.found_open(), _open_redis(settings)])]


def _open_redis(settings: Settings) -> str | None:
    """Landlock hides files and processes, no address."""
    address = urlsplit(settings.redis_url)
    if address.password:
        return None
    return "Redis asks this host for no password, so a tool of the Claude CLI that reaches the network can read and write all of the day"
