"""The outermost layer of both commands: foreign errors become ours here, and ours become one sentence and an exit code."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from typing import Any

import orjson
import redis
import typer

from shared.errors import HmemError, RedisUnavailable, SettingsError, StorageError
from shared.logs import configure_logs
from shared.settings import Settings, load_settings

_DISK_ERRORS = {
    errno.ENOSPC: "the disk is full",
    errno.EROFS: "the file system is read-only",
    errno.EIO: "the disk is failing",
    errno.EDQUOT: "the quota is used up",
    errno.EACCES: "access is denied",
    errno.EPERM: "access is denied",
}


#: Packages that not every host has, and the extra that brings them.
_EXTRAS = {"aiogram": "telegram", "telegramify_markdown": "telegram", "mcp": "mcp", "prometheus_client": "metrics"}


def translate(error: BaseException) -> HmemError | None:
    """Our error for a foreign one, or None if it is a defect."""
    if isinstance(error, HmemError):
        return error
    if isinstance(error, redis.AuthenticationError | redis.exceptions.NoPermissionError):
        return RedisUnavailable(f"Redis refuses us: {error}. Check user and password in REDIS_URL.")
    if isinstance(error, redis.exceptions.OutOfMemoryError):
        return RedisUnavailable(f"Redis is out of memory: {error}. Give it more (maxmemory) or run the night.")
    if isinstance(error, redis.ConnectionError | redis.TimeoutError):
        return RedisUnavailable(f"Redis does not answer: {str(error).rstrip('.')}. Start it, or set REDIS_URL.")
    if isinstance(error, redis.RedisError):
        return RedisUnavailable(f"Redis answered with an error: {error}.")
    if isinstance(error, ModuleNotFoundError) and (extra := _EXTRAS.get((error.name or "").partition(".")[0])):
        return SettingsError(
            f"The Python package {error.name} is not installed. Run scripts/setup again, or pip install '.[{extra}]' in the checkout."
        )
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
    os.umask(0o077)  # everything here is somebody's conversation
    try:
        app()
    except Exception as error:
        ours = translate(error)
        if ours is None:
            raise
        typer.echo(f"{type(ours).__name__}: {ours}", err=True)
        raise SystemExit(ours.exit_code) from error


def start(**overrides: Any) -> Settings:
    """Settings and logs of one command."""
    settings = load_settings(**overrides)
    configure_logs(settings)
    return settings


def print_json(value: object) -> None:
    """One JSON document on standard output, in UTF-8 whatever the locale says."""
    print_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2))


def print_bytes(line: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
