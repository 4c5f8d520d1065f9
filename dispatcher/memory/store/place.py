"""Where the medium store lies: the SQLAlchemy URL, what of it may be shown, and what its errors say."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from shared.errors import SettingsError

FILE_NAME = "medium.sqlite"
_LONGEST = 300


def store_url(url: str | None, state_dir: Path) -> URL:
    """The URL of the store: SQLite in the state directory unless `MEDIUM_URL` names another place. SettingsError for one that is no such URL."""
    if not url:
        return _sqlite(state_dir / FILE_NAME)
    try:
        parts = make_url(url)
    except (ArgumentError, ValueError):
        # `from None`: the library's own text repeats the URL, password and all.
        raise SettingsError(
            "MEDIUM_URL is no SQLAlchemy URL. Write it like postgresql://user:password@host/database, or leave it out."
        ) from None
    if parts.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        return parts.set(drivername="postgresql+psycopg")
    if parts.get_backend_name() == "sqlite" and parts.database and parts.database != ":memory:":
        return _sqlite(state_dir / parts.database)
    raise SettingsError(
        f"MEDIUM_URL names {parts.drivername}, and the medium store needs PostgreSQL or a SQLite file. "
        "Write postgresql://… or sqlite:////path/medium.sqlite, or leave it out."
    )


def _sqlite(path: Path) -> URL:
    return URL.create("sqlite+pysqlite", database=str(path.absolute()))


def shown(url: URL) -> str:
    """The store's place for people: a path, or the URL without password and options."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.set(query={}).render_as_string(hide_password=True)


def reason(error: Exception, url: URL) -> str:
    """The first line of an error, without the statement, its values, or a password of the URL."""
    lines = str(error.orig if isinstance(error, DBAPIError) else error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"
    secrets = [url.password, *(value for key, value in url.query.items() if "password" in key)]
    for secret in secrets:
        if secret:
            text = text.replace(str(secret), "***")
    return text[:_LONGEST]
