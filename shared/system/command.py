"""The outermost layer of both commands: foreign errors become ours here, and ours become one sentence and an exit code."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import sys
from collections.abc import Iterable
from pathlib import Path

import orjson
import redis
import structlog
import typer

from shared.config import credentials
from shared.config.packages import how_to_add, part_of
from shared.config.settings import Settings, load_settings
from shared.errors import HmemError, RedisUnavailable, SettingsError, StorageError
from shared.system.privileges import act_as_owner_of, close_to_others, is_to_change_user
from shared.wire.values import is_wrong_value

#: Where the owner's key lies if OWNER_KEY_FILE is unset.
KEY_FILE = "~/.config/hmem/owner.key"

_DISK_ERRORS = {
    errno.ENOSPC: "the disk is full",
    errno.EROFS: "the file system is read-only",
    errno.EIO: "the disk is failing",
    errno.EDQUOT: "the quota is used up",
    errno.EACCES: "access is denied",
    errno.EPERM: "access is denied",
}


def translate(error: BaseException) -> HmemError | None:
    """Our error for a foreign one, or None if it is a defect."""
    if isinstance(error, HmemError):
        return error
    if isinstance(error, redis.AuthenticationError | redis.exceptions.NoPermissionError):
        return RedisUnavailable(f"Redis refuses us: {str(error).rstrip('.')}. Check user and password in REDIS_URL.")
    if isinstance(error, redis.exceptions.OutOfMemoryError):
        return RedisUnavailable(f"Redis is out of memory: {error}. Give it more (maxmemory) or run the night.")
    if isinstance(error, redis.ConnectionError | redis.TimeoutError):
        return RedisUnavailable(f"Redis does not answer: {str(error).rstrip('.')}. Start it, or set REDIS_URL.")
    if is_wrong_value(error):
        return RedisUnavailable(
            f"A key in Redis holds something else than ours: {error}. Look at it (redis-cli TYPE KEY), move it away (RENAME) or remove it (DEL)."
        )
    if isinstance(error, redis.RedisError):
        return RedisUnavailable(f"Redis answered with an error: {error}.")
    if isinstance(error, ModuleNotFoundError) and (part := part_of(error.name or "")):
        return SettingsError(f"The Python package {error.name} is not installed. To add it, {how_to_add(part)}.")
    if isinstance(error, sqlite3.Error):
        return StorageError(
            f"A database file cannot be used: {error}. Check the disk; caches may be deleted and are rebuilt."
        )
    if isinstance(error, OSError):  # numpy's and shutil's come without a number
        why = _DISK_ERRORS.get(error.errno or 0, error.strerror or str(error))
        return StorageError(
            f"A file operation failed, {why}: {error.filename or 'unnamed'}. Mend that and run it again."
        )
    return None


def run_command(app: typer.Typer) -> None:
    """Run a typer application; end with the error's own exit code."""
    close_to_others()
    os.umask(0o077)  # everything here is somebody's conversation
    try:
        app()
    except Exception as error:
        ours = translate(error)
        if ours is None:
            raise
        typer.echo(f"{type(ours).__name__}: {ours}", err=True)
        raise SystemExit(ours.exit_code) from error


def configure_logs(settings: Settings) -> None:
    """Structured lines on standard error: for people by default, as JSON with LOG_JSON=1. No message text is ever logged."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    renderer: structlog.typing.Processor = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    if settings.log_json:
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def end_with(errors: Iterable[HmemError]) -> None:
    """Say each of them; end with the first one's exit code if there is any."""
    found = list(errors)
    for error in found:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
    if found:
        raise typer.Exit(found[0].exit_code)


def start(part: str = "owner", directory: str | None = "hmem_state_dir", *, children: tuple[str, ...] = ()) -> Settings:
    """Settings and logs of one command.

    `part` is whose credentials it takes, `directory` the setting that names where its files are written: started by root, it goes on as the user
    who owns that (None: as root). `children` are the parts that it may start as their own users, and whose directories it reaches as those. What
    only root may read (credentials, the owner's key) is read here, before the change of user.
    """
    credentials.begin_as(part, *children)
    settings = _with_key_file(load_settings())
    if directory:
        _go_on_as_owner_of(getattr(settings, directory), settings, spanning=bool(children))
    configure_logs(settings)
    return settings


def _go_on_as_owner_of(directory: Path, settings: Settings, *, spanning: bool) -> None:
    if spanning and is_to_change_user(directory):
        from shared.system.owner_key import hold_key  # brings a library that other commands need not load

        hold_key(settings)
    act_as_owner_of(directory, spanning=(settings.hmem_night_dir, settings.hmem_memory_dir) if spanning else ())


def _with_key_file(settings: Settings) -> Settings:
    """The owner's key lies in the home of whoever starts the command, who may go on as another user."""
    if settings.owner_key_file:
        return settings
    try:
        return settings.model_copy(update={"owner_key_file": Path(KEY_FILE).expanduser()})
    except RuntimeError:  # no home is known
        return settings


def start_night() -> Settings:
    """The same for a command of the night."""
    return start("night", "hmem_night_dir")


def print_json(value: object) -> None:
    """One JSON document on standard output, in UTF-8 whatever the locale says."""
    print_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2))


def print_bytes(line: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
