"""Secrets that are not in the environment: a TOML file in the format of the settings file, read from a descriptor or a file.

`HMEM_CREDENTIALS` names it: a path, or `fd:0` for a descriptor that our parent has opened (systemd: `StandardInput=file:…`). A descriptor is
read once and closed, so no child process inherits it. Default: the file of this part in /etc/hmem/secrets if this user may read it; the
owner's commands use that one. Child processes get their secrets by a pipe (`for_child`).
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from shared.config.ownership import refuse_changeable
from shared.errors import SettingsError

VARIABLE, DESCRIPTOR = "HMEM_CREDENTIALS", "fd:"
#: One file for each part: dispatcher.toml, night.toml, bot.toml, owner.toml.
SECRETS_DIR = Path("/etc/hmem/secrets")
#: A larger file is not a credentials file; a pipe buffers twice as much without a reader.
MOST_BYTES = 32_768


@dataclass(frozen=True)
class Credentials:
    """`place` is for messages; `content` is TOML."""

    place: str
    content: bytes


class _Process:
    """What this process has read: a descriptor can be read only once, and a file may be unreadable after a change of user."""

    part: str | None = None
    from_descriptor: Credentials | None = None
    handed_to: dict[str | None, Credentials | None] = {}  # noqa: RUF012 - there is one process


def begin_as(part: str, *children: str) -> None:
    """Declare this process to be that part, whose secrets may be in SECRETS_DIR; those of `children` are read now, while this user may."""
    _Process.part = part
    named = os.environ.get(VARIABLE, "")
    # If ours are named by a path, those of a child are next to them under its name, or do not exist.
    beside = Path(named).parent if named and not named.startswith(DESCRIPTOR) else SECRETS_DIR
    for child in children:
        _Process.handed_to[child] = _of_file(beside / f"{child}.toml")


def read() -> Credentials | None:
    """The credentials of this process, or None if it has none; SettingsError if they are named and cannot be read."""
    found, named = None, os.environ.get(VARIABLE, "")
    if named.startswith(DESCRIPTOR):
        found = _Process.from_descriptor = _Process.from_descriptor or _of_descriptor(named)
    elif named:
        found = _of_file(Path(named), named=True)
    elif _Process.part:
        found = _of_file(SECRETS_DIR / f"{_Process.part}.toml")
    _Process.handed_to[None] = found
    return found


def places() -> list[Path]:
    """Where credentials may be on this host, whether this process has read them or not."""
    named = os.environ.get(VARIABLE, "")
    return [SECRETS_DIR, *([Path(named).absolute()] if named and not named.startswith(DESCRIPTOR) else [])]


def _of_file(path: Path, *, named: bool = False) -> Credentials | None:
    """None if it does not exist, or this user may not read it; if `named`, that is an error."""
    try:
        with path.open("rb") as file:
            return _read(str(path), f"The credentials file {path}", file)
    except OSError as error:
        if named or not isinstance(error, FileNotFoundError | PermissionError):
            raise SettingsError(
                f"The credentials file {path} cannot be read: {error.strerror}. Name another one in {VARIABLE}, or correct its path and rights."
            ) from error
        return None


def _of_descriptor(named: str) -> Credentials:
    try:
        number = int(named.removeprefix(DESCRIPTOR))
        with os.fdopen(number, "rb", closefd=False) as file:
            found = _read(named, f"The credentials file that {named} leads to", file)
        _close(number)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{VARIABLE}={named} is not an open descriptor of a file ({error}). Start this process as its unit does, or name a path."
        ) from error
    return found


def _close(number: int) -> None:
    """Standard input is replaced: otherwise the next file that is opened would become it."""
    if number == 0:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
    else:
        os.close(number)


def _read(place: str, what: str, file: IO[bytes]) -> Credentials:
    """SettingsError for a file that others may change, or that is none of ours."""
    refuse_changeable(what, os.fstat(file.fileno()))
    if len(content := file.read(MOST_BYTES + 1)) > MOST_BYTES:
        raise SettingsError(
            f"The credentials {place} are larger than {MOST_BYTES} bytes, so this is not a credentials file. Name another one in {VARIABLE}."
        )
    return Credentials(place, content)


@contextmanager
def for_child(
    part: str | None = None, only: Collection[str] | None = None
) -> Iterator[tuple[dict[str, str], tuple[int, ...]]]:
    """(environment, descriptors to pass on) with which a child process reads the same credentials, or those stored for another part.

    `only`: pass on these names only.
    """
    stored = _Process.handed_to.get(part) or _Process.handed_to.get(None)
    if stored is None:
        yield dict(os.environ), ()
        return
    values = tomllib.loads(stored.content.decode("utf-8"))
    with by_pipe({name: value for name, value in values.items() if only is None or name in only}) as reading:
        yield os.environ | {VARIABLE: f"{DESCRIPTOR}{reading}"}, (reading,)


def redis_url_of(part: str, ours: str) -> str:
    """The REDIS_URL that a child process of that part uses; `ours` is this process's."""
    if stored := None if os.environ.get("REDIS_URL") else _Process.handed_to.get(part):
        return str(tomllib.loads(stored.content.decode("utf-8")).get("REDIS_URL", ""))  # "": as its settings file says
    return ours


@contextmanager
def by_pipe(values: Mapping[str, Any]) -> Iterator[int]:
    """A descriptor from which these settings can be read, once."""
    content = "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items()).encode()
    reading, writing = os.pipe()
    try:
        os.write(writing, content)
        os.close(writing)
        yield reading
    finally:
        os.close(reading)


def variables_set(names: list[str]) -> list[str]:
    """Which of these settings are set in the environment."""
    present = {name.upper() for name, value in os.environ.items() if value}
    return [name for name in names if name in present]
