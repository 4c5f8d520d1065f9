"""The outermost layer of both commands: foreign errors become ours here, and ours become one sentence and an exit code.

Every command starts here, so nothing is imported that not every command needs: a command's own module when it is called
(`CommandGroup`), the libraries whose errors are translated when there is an error.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
import traceback
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from shared.errors import HmemError, RedisUnavailable, SettingsError, StorageError, plain_words, without_words
from shared.system.privileges import act_as_owner_of, close_to_others, is_to_change_user
from shared.text.logs import configure_logs

if TYPE_CHECKING:
    from shared.config.settings import Settings

#: The owner's key file if OWNER_KEY_FILE is unset.
KEY_FILE = "~/.config/hmem/owner.key"

#: Bytes. The smallest night with the default embedder takes 650 MB, most of it without using it.
LEAST_ADDRESS_SPACE = 1 << 30

_DISK_ERRORS = {
    errno.ENOSPC: "the disk is full",
    errno.EROFS: "the file system is read-only",
    errno.EIO: "the disk is failing",
    errno.EDQUOT: "the quota is used up",
    errno.EACCES: "access is denied",
    errno.EPERM: "access is denied",
}
#: Those after which room has to be made.
_FULL = (errno.ENOSPC, errno.EDQUOT)


#: What `--help` calls a type, in place of Python's name for it. A switch has none.
TYPES = {"bool": ""} | dict.fromkeys(("str", "list[str]"), "TEXT") | dict.fromkeys(("path", "list[Path]"), "PATH")
TYPES |= dict.fromkeys(("int", "float", "int range", "float range"), "NUMBER")


def _type_in_help(parameter: Any, ctx: Any) -> str:
    """An argument's metavar is its name."""
    shown = str(parameter.display_type(ctx)).strip("<>")
    named = parameter.metavar if isinstance(parameter, TyperOption) else None
    return named or TYPES.get(shown, shown)


for _kind in (TyperOption, TyperArgument):
    _kind.display_type_rich = _type_in_help  # type: ignore[assignment]

_said = typer.BadParameter.format_message


def _said_plainly(error: typer.BadParameter) -> str:
    error.message = plain_words(error.message)
    return _said(error)


typer.BadParameter.format_message = _said_plainly  # type: ignore[method-assign, assignment]


class CommandEntry(NamedTuple):
    """A command in the list of a group: `module` has an `app` that holds it under this name, or that is it."""

    name: str
    module: str
    help: str


class CommandGroup(TyperGroup):
    """Commands whose modules are imported only when one of them is called; help and suggestions come from the list."""

    def __init__(self, name: str, help: str, listed: Iterable[CommandEntry]) -> None:  # noqa: A002 - the library's word
        self._modules = {one.name: one.module for one in listed}
        commands: Any = {one.name: TyperCommand(one.name, callback=None, help=one.help) for one in listed}
        super().__init__(name=name, help=help, commands=commands, no_args_is_help=True)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, self.loaded(name) if name else command, rest

    def loaded(self, name: str) -> Any:
        """The command itself, with its options."""
        found = typer.main.get_command(import_module(self._modules[name]).app)
        command = getattr(found, "commands", {}).get(name, found)
        command.name = name
        return command


class ChatCommand(TyperCommand):
    """A command with a chat's id, which may be a negative number; it refuses any other word with a dash unless it is an option."""

    ignore_unknown_options = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options: dict[str, Any] = {name: one for one in self.get_params(ctx) for name in one.opts}
        words = iter(args)
        for word in words:
            name = word.partition("=")[0] if word.startswith("--") else word[:2]
            if word == "--":
                break
            if name not in options and name.startswith("-") and not (name + "0")[1].isdigit():
                ctx.fail(f"No such option: {name}")
            if word in options and not getattr(options[word], "is_flag", True):
                next(words, None)  # its value
        return super().parse_args(ctx, args)


def application(help: str | None = None) -> typer.Typer:  # noqa: A002 - the library's word
    """What a module registers its commands with. A bug ends in Python's own traceback, which shows no values of variables."""
    return typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=help)


def translate(error: BaseException) -> HmemError | None:
    """Our error for a library's error, or None if it is a bug."""
    if isinstance(error, HmemError):
        return error
    if isinstance(error, ModuleNotFoundError):
        from shared.config.packages import how_to_add, part_of

        part = part_of(error.name or "")
        missing = f"The Python package {error.name} is not installed. To add it, {how_to_add(part)}." if part else ""
        return SettingsError(missing) if missing else None
    if isinstance(error, MemoryError):
        return StorageError(
            "There is not enough memory. Stop other programs or raise the limit of this one, then do it again."
        )
    return _redis_error(error) or _storage_error(error)


def _redis_error(error: BaseException) -> HmemError | None:
    from shared.wire.client import is_wrong_value

    import redis  # isort: skip - after what keeps OpenTelemetry out of it

    if isinstance(error, redis.AuthenticationError | redis.exceptions.NoPermissionError):
        if re.search("already authenticated|Authentication required", str(error)):  # of a client that gave none
            return RedisUnavailable(
                "Redis requires a password, and REDIS_URL has none. Write it like redis://:PASSWORD@127.0.0.1:6379/0."
            )
        return RedisUnavailable(f"Redis refuses us: {str(error).rstrip('.')}. Check user and password in REDIS_URL.")
    if isinstance(error, redis.exceptions.OutOfMemoryError):
        return RedisUnavailable(
            f"Redis is out of memory: {error}. Run the night, which empties it, or give it more (maxmemory)."
        )
    if isinstance(error, redis.ConnectionError | redis.TimeoutError):
        return RedisUnavailable(f"Redis does not answer: {str(error).rstrip('.')}. Start it, or set REDIS_URL.")
    if is_wrong_value(error):
        return RedisUnavailable(
            f"A key in Redis has an unexpected value: {error}. Inspect it (redis-cli TYPE KEY), then rename it (RENAME) or remove it (DEL)."
        )
    if isinstance(error, redis.RedisError):
        return RedisUnavailable(f"Redis answered with an error: {error}.")
    return None


def _storage_error(error: BaseException) -> HmemError | None:
    import sqlite3

    if isinstance(error, sqlite3.Error):
        return StorageError(
            f"A database file cannot be used: {without_words(error)}. Check the disk; caches may be deleted and are rebuilt."
        )
    if isinstance(error, OSError):  # numpy's and shutil's come without a number
        why = _DISK_ERRORS.get(error.errno or 0, error.strerror or str(error))
        remedy = "hmem doctor names the disk: make room there" if error.errno in _FULL else "Correct that"
        remedy = "Mount it for writing, or name another directory" if error.errno == errno.EROFS else remedy
        return StorageError(f"{error.filename or _place(error)}: {why}. {remedy}, then do it again.")
    return None


def _place(error: BaseException) -> str:
    """Where it happened, for an error that names no file."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    return " ".join(
        ["A file operation failed", *(f"in {one.name} ({one.filename}, line {one.lineno})" for one in last)]
    )


def run_command(app: typer.Typer | CommandGroup) -> None:
    """Run an application; end with the error's own exit code."""
    close_to_others()
    os.umask(0o077)  # every file here contains private conversations
    command = app if isinstance(app, CommandGroup) else typer.main.get_command(app)
    command.params.append(_version_option())
    try:
        command()
    except Exception as error:
        ours = translate(error)
        if ours is None:
            raise
        typer.echo(ours, err=True)
        raise SystemExit(ours.exit_code) from error


class _Output(io.FileIO):
    """Standard output or error, whose reader may have gone (`… | head`)."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            return len(data)


def go_on_without_reader() -> None:
    """From here on nothing that this command prints can end it: once nobody reads it any more, it is lost."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        stream.flush()
        output = io.BufferedWriter(_Output(stream.fileno(), "w", closefd=False))
        setattr(sys, name, io.TextIOWrapper(output, stream.encoding, stream.errors, line_buffering=True))


def _version_option() -> Any:
    """--version, as typer itself makes an option of a group."""
    bearer = typer.Typer(add_completion=False)
    what = "Print version, commit and Python, and end."
    option = typer.Option(False, "--version", is_eager=True, expose_value=False, callback=_print_version, help=what)

    def carrying(version: bool = option) -> None:  # noqa: ARG001 - read by typer only
        return

    bearer.callback()(carrying)
    return typer.main.get_group(bearer).params[0]


def _print_version(wanted: bool) -> None:
    if wanted:
        from shared.config.installation import version_line

        typer.echo(version_line())
        raise typer.Exit


def end_with(errors: Iterable[HmemError]) -> None:
    """Say each of them; end with the first one's exit code if there is any."""
    found = list(errors)
    for error in found:
        typer.echo(error, err=True)
    if found:
        raise typer.Exit(found[0].exit_code)


def start(
    part: str = "owner",
    directory: str | None = "hmem_state_dir",
    *,
    children: tuple[str, ...] = (),
    logs: bool = True,
    formats: bool = True,
) -> Settings:
    """Settings and logs of one command; without `logs` for one that imports nothing that logs.

    `part` is whose credentials it takes, `directory` the setting that names where its files are written: started by root, it goes on as the user
    who owns that (None: as root). `children` are the parts that it may start as their own users, and whose directories it reaches as those. What
    only root may read (credentials, the owner's key) is read here, before the change of user. FormatNewer if a newer program wrote one of our
    directories; without `formats` for a command that says so itself.
    """
    from shared.config import credentials
    from shared.config.settings import load_settings

    credentials.begin_as(part, *children)
    settings = _with_key_file(load_settings())
    if directory:
        _go_on_as_owner_of(getattr(settings, directory), settings, spanning=bool(children))
    if formats:
        from shared.system.formats import refuse_newer_directories

        refuse_newer_directories(settings)
    if logs:
        configure_logs(settings.log_level, as_json=settings.log_json)
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
    """The same for a command of the night. SettingsError if its libraries have no room: most of them end without a word then."""
    import resource

    settings, most = start("night", "hmem_night_dir"), resource.getrlimit(resource.RLIMIT_AS)[0]
    if 0 <= most < LEAST_ADDRESS_SPACE:
        raise SettingsError(
            f"This process may have {most >> 20} MB of address space, and the libraries of a night need {LEAST_ADDRESS_SPACE >> 20} MB. "
            "Raise the limit (ulimit -v, LimitAS= of systemd), or bound its memory by MemoryMax= instead."
        )
    return settings


def print_json(value: object) -> None:
    """One JSON document on standard output, in UTF-8 whatever the locale says."""
    import orjson

    print_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2))


def answer(value: object, text: str, *, json: bool) -> None:
    """What a command has found, as JSON or for people."""
    if json:
        print_json(value)
    else:
        typer.echo(text)


def print_bytes(line: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
