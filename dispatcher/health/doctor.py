"""The list of checks, in order of importance; each is one function that reads and changes nothing.

`hmem doctor` and the owner's page make all of them, `hmem status` and the alarms the marked ones. The doctor exits with the code of the
first problem. A check that fails to run reports that and does not stop the others; one whose
precondition failed is skipped.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from importlib import import_module

from redis import Redis
from redis.exceptions import NoPermissionError

from dispatcher.health.findings import Check, Finding, Setup, of_error, problem, skipped
from dispatcher.health.hooks import checks
from shared.config.settings import Settings
from shared.errors import SettingsError
from shared.hooks import features
from shared.system.command import translate
from shared.wire.client import asking_once, open_redis

#: Seconds to wait for Redis, to connect and for each answer.
REDIS_SECONDS = 5.0
MARKS = {"ok": "✓", "warning": "!", "problem": "✗", "skipped": "-"}


def made_by(module: str, name: str) -> Callable[[Setup], Finding]:
    """A function of `checks/`, whose module is imported when the check is made: `hmem status` and the alarms need only some."""

    def run(setup: Setup) -> Finding:
        found: Finding = getattr(import_module(f"dispatcher.health.checks.{module}"), name)(setup)
        return found

    return run


#: Those of the core, in order of importance; features' follow.
CHECKS: tuple[Check, ...] = (
    Check("settings", made_by("host", "check_secret")),
    Check("redis", made_by("redis", "check_redis")),
    Check("rights", made_by("redis", "check_rights"), needs=("redis",)),
    Check("eviction", made_by("redis", "check_eviction"), needs=("redis",), alarm="problem"),
    Check("persistence", made_by("redis", "check_persistence"), needs=("redis",), alarm="warning"),
    Check("restart", made_by("redis", "check_restart"), needs=("redis",)),
    Check("clock", made_by("redis", "check_clock"), needs=("redis",)),
    Check("expiry", made_by("redis", "check_expiry"), needs=("redis",)),
    Check("claude", made_by("claude", "check_claude")),
    Check("login", made_by("claude", "check_login"), needs=("claude",)),
    Check("token", made_by("claude", "check_token"), morning=True),
    Check("dispatcher", made_by("queue", "check_dispatcher"), needs=("redis",), status=True),
    Check("dead letters", made_by("queue", "check_dead"), needs=("redis",), morning=True),
    Check("features", made_by("queue", "check_features"), needs=("redis",)),
    Check("bot", made_by("queue", "check_bot"), needs=("redis",)),
    Check("owners", made_by("queue", "check_owners"), needs=("redis",)),
    Check("isolation", made_by("host", "check_isolation")),
    Check("state", made_by("host", "check_state")),
    Check("directories", made_by("host", "check_directories")),
    Check("disk", made_by("host", "check_disk"), alarm="problem", morning=True),
    Check("formats", made_by("host", "check_formats"), needs=("redis",)),
    Check("release", made_by("release", "check_release"), status=True),
    Check("pin", made_by("release", "check_pin"), alarm="problem", morning=True, status=True),
    Check("embedder", made_by("memory", "check_embedder")),
    Check("vectors", made_by("memory", "check_vectors"), needs=("release", "embedder")),
    Check("store", made_by("memory", "check_store"), needs=("redis", "state")),
    Check("forgetting", made_by("memory", "check_forgetting")),
    Check("night", made_by("night", "check_night"), needs=("redis",), status=True),
    Check("failed night", made_by("night", "check_failed_night"), needs=("redis",), alarm="problem"),
    Check("night writer", made_by("night", "check_writer"), needs=("redis",), alarm="problem"),
    Check("night dir", made_by("night", "check_night_directory")),
    Check("archive", made_by("night", "check_archive")),
    Check("mirror", made_by("night", "check_mirror"), alarm="problem"),
    Check("owner key", made_by("night", "check_owner_key")),
)

#: What the finding of a check begins with that did not run because another one failed.
WAITS = "Not checked, because the check of "


def every_check() -> list[Check]:
    """Those of the core and of the features."""
    return [*CHECKS, *(one for some in features().ask(checks) for one in some)]


def examine(settings: Settings, wanted: Callable[[Check], bool] | None = None) -> Iterator[Finding]:
    """The finding of each check, as soon as it has run."""
    with closing(connect(settings)) as client:
        setup = Setup(settings, client, time.time, shutil.disk_usage, thorough=wanted is None)
        found: dict[str, Finding] = {}
        for check in filter(wanted, every_check()):
            failed = [name for name in check.needs if name in found and found[name].state in ("problem", "skipped")]
            finding = skipped(f"{WAITS}{failed[0]} failed.") if failed else carry_out(check, setup)
            found[check.name] = replace(finding, name=check.name)
            yield found[check.name]


def status_problems(settings: Settings) -> list[Finding]:
    """What `hmem status` ends with; all of it is known at once."""
    return [one for one in examine(settings, lambda check: check.status) if one.state == "problem"]


def connect(settings: Settings) -> Redis:
    """A client that reports an error immediately instead of retrying."""
    try:
        return open_redis(settings.redis_url, asking_once(REDIS_SECONDS))
    except ValueError as error:
        raise SettingsError(
            f"REDIS_URL is not a Redis URL ({error}). Write it like redis://127.0.0.1:6379/0."
        ) from error


def carry_out(check: Check, setup: Setup) -> Finding:
    try:
        return check.run(setup)
    except NoPermissionError as error:
        return skipped(f"This Redis user may not check this: {error}.", "Allow it, or run the command as another user.")
    except Exception as error:  # noqa: BLE001 - an error in one check must not stop the others
        ours = translate(error)
        if ours is None:
            return problem(1, f"The check itself failed ({error!r}).", "This is a bug: please report it.")
        return of_error(ours)


def exit_code(findings: list[Finding]) -> int:
    """The code of the first problem; 0 if there is none."""
    return next((finding.code for finding in findings if finding.state == "problem"), 0)


def lines(finding: Finding) -> str:
    """A finding as text: mark, name and sentence; what to do, and the exit code, on a second line."""
    text = f"{MARKS[finding.state]} {finding.name:12} {finding.sentence}"
    if finding.fix:
        text += f"\n{'':15}{finding.fix}" + (f" [{finding.code}]" if finding.code else "")
    return text
