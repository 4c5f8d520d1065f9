"""`hmem init --undo`: stop and remove everything that `hmem init` created, except the conversations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from redis.exceptions import RedisError

from dispatcher.installation.init.claude_cli import change_login
from dispatcher.installation.init.context import InitContext
from dispatcher.installation.journal import Created
from dispatcher.installation.services.by_hand import services_of
from dispatcher.installation.settings_files import given_settings
from shared.system.files import remove_tree
from shared.wire.client import asking_once, open_redis


def undo(installation: InitContext) -> int:
    terminal, layout, journal = installation.terminal, installation.layout, installation.journal
    if journal.is_empty:
        terminal.say(
            f"hmem init has created nothing here ({layout.journal} does not exist), so there is nothing to undo."
        )
        return 0
    installation.values = given_settings(layout)
    terminal.title(
        "This will be taken out: the services, the settings with their secrets, and the Claude CLI if hmem init installed it"
    )
    terminal.say(f"  The conversations stay in {', '.join(map(str, _data(installation)))}.")
    if not terminal.confirm("Go ahead?"):
        terminal.say("Nothing was changed.")
        return 0
    _restore_redis(installation)
    _remove_services(installation)
    if names := journal.names("login"):
        change_login(layout, {}, removed=names)
        terminal.done("login", f"removed {', '.join(names)} from the settings of the Claude CLI")
    kept = [one for one in reversed(list(journal.created)) if not _removed(installation, one)]
    for sentence in _left(installation, kept):
        terminal.note("stays", sentence)
    layout.journal.unlink(missing_ok=True)
    with suppress(OSError):  # something of the owner's is in it
        layout.config.rmdir()
    terminal.title("Taken out. hmem init sets it up again, with the conversations that are there")
    return 0


def _data(installation: InitContext) -> list[Path]:
    """Where conversations are, also in the mirror."""
    layout, mirror = installation.layout, Path(installation.values.get("ARCHIVE_MIRROR", ""))
    ours = (layout.night, layout.memory, layout.state, layout.redis, layout.home, mirror)
    return [path for path in ours if path.is_absolute() and path.is_dir() and path != Path.home()]


def _remove_services(installation: InitContext) -> None:
    """HmemError if one of them still runs: what it needs must not be removed then."""
    services_of(installation.layout, installation.settings()).remove(installation.journal)
    installation.terminal.done("services", "stopped and removed")


def _restore_redis(installation: InitContext) -> None:
    """The settings of somebody's Redis as they were."""
    changed = [name.split("=", 1) for name in installation.journal.names("redis")]
    if not changed:
        return
    try:
        with closing(open_redis(installation.values["REDIS_URL"], asking_once(5.0))) as client:
            for name, value in changed:
                client.config_set(name, value)
            client.config_rewrite()
    except (RedisError, KeyError) as error:
        installation.terminal.note(
            "redis", f"Its settings could not be restored ({error}): {', '.join('='.join(one) for one in changed)}."
        )


def _removed(installation: InitContext, one: Created) -> bool:
    """Whether it is gone now."""
    path = Path(one.name)
    if one.what == "file":
        path.unlink(missing_ok=True)
        return True
    if one.what == "directory":
        with suppress(OSError):  # it holds data, or something of the owner's
            remove_tree(path) if path == installation.layout.claude else path.rmdir()
        return not path.exists()
    return one.what in ("redis", "login", "greeted", "linger")


def _left(installation: InitContext, kept: list[Created]) -> Iterator[str]:
    names = {what: [one.name for one in kept if one.what == what] for what in ("directory", "account", "package")}
    if directories := [name for name in names["directory"] if Path(name) in _data(installation)]:
        yield f"The conversations, in {', '.join(directories)}. To delete them: rm -r, as root if they are another account's."
    if names["account"]:
        yield f"The accounts {', '.join(names['account'])}, which own them. To delete those: userdel NAME."
    if names["package"]:
        yield f"The packages {', '.join(names['package'])}, which other programs may use by now. To remove them: apt-get remove NAME."
