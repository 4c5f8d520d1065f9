"""`hmem key`: the owner's encryption key (ENCRYPT_KEY_FILE), the keyring beside it, and the copies without which what is encrypted is lost.

Started by root, the commands act on these files as the user who owns their directory.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.cli.arguments import Json
from shared.errors import InvalidInput, SettingsError
from shared.system.command import application, print_json, start
from shared.system.files import write_atomic
from shared.system.keys import copies, sealing
from shared.system.privileges import as_owner_of
from shared.text.format import zoned_text

if TYPE_CHECKING:
    from shared.config.settings import Settings

app = application(
    "Encryption at rest: make the key, copy it, put it back, change it. Without the key nothing that is remembered can be read."
)
#: Where a key is made if neither a path is given nor ENCRYPT_KEY_FILE is set; by root for services with users of their own: beside HMEM_STATE_DIR.
PLACE, OF_SERVICES = "~/.config/hmem/keys/encrypt.key", "hmem-keys"


@app.command()
def new(
    path: Annotated[
        Path | None,
        typer.Argument(
            help=f"The file, in a directory of its own; default: ENCRYPT_KEY_FILE, else {PLACE} (services: {OF_SERVICES}/ beside HMEM_STATE_DIR)."
        ),
    ] = None,
) -> None:
    """Make a key file, which only its owner may read, and say what to set. Replaces nothing."""
    settings = start(directory=None)
    day, night = (_user_of(one) for one in (settings.hmem_state_dir, settings.hmem_night_dir))
    place = settings.hmem_state_dir.with_name(OF_SERVICES) / "encrypt.key" if day else Path(PLACE).expanduser()
    file = (path or settings.encrypt_key_file or place).absolute()
    of_night = settings.night_encrypt_key_file or file.parent.with_name(f"{file.parent.name}-night") / file.name
    several = bool(day and night and day != night)
    if several:
        copies.new_place(of_night)
    key = copies.make_key(file)
    _hand_over(file, settings.hmem_state_dir)
    lines = [f'ENCRYPT_KEY_FILE = "{file}"']
    if several:
        copies.make_key(of_night, key)
        _hand_over(of_night, settings.hmem_night_dir)
        lines.append(f'NIGHT_ENCRYPT_KEY_FILE = "{of_night}"')
    typer.echo(
        f"The encryption key {key.fingerprint} is in {file}. To switch encryption on, for the dispatcher and the night:"
    )
    typer.echo(f"  1. set {' and '.join(lines)} in hmem.toml")
    restart = (
        "run hmem init, which lets the services write beside the key and restarts them"
        if day
        else "restart the services (hmem init does)"
    )
    typer.echo(f"  2. {restart}, and run the night once (hmem-night run): it seals what is there")
    typer.echo("  3. run hmem key copy TO, and keep that copy away from this host")
    typer.echo("Whoever loses the key, the keyring beside it and every copy loses everything that is remembered.")


@app.command()
def copy(to: Annotated[Path, typer.Argument(help="The file to make, on a medium that you keep elsewhere.")]) -> None:
    """Write key and keyring into one file, for a safe place. Do it again when there are keys of new chats (hmem key status)."""
    file = _key_file(start(directory=None))
    if to.exists():
        raise InvalidInput(f"{to} is there already, and is left as it is. Give the path of a new file.")
    with as_owner_of(file.parent):
        content, ids = copies.copied(sealing.keys())
    write_atomic(to.absolute(), content)
    with as_owner_of(file.parent):
        copies.record(file, to.absolute(), ids, sealing.keys().owner)
    typer.echo(
        f"The key and {len(ids)} keys of the keyring are in {to}. Whoever has this file can read everything: keep it"
    )
    typer.echo("away from this host and from its backups, and destroy earlier copies after you have forgotten a chat.")


@app.command()
def restore(
    source: Annotated[
        Path, typer.Argument(metavar="FROM", help="A file of hmem key copy; or keyring.json of a mirror.")
    ],
) -> None:
    """Put key and keyring back from a copy. Keys that are here stay; a keyring with keys that the copy lacks is not replaced."""
    settings = start(directory=None)
    file, content = _key_file(settings), source.read_bytes()
    done = _put_back(file, settings.hmem_state_dir, source, content)
    if (of_night := settings.key_file_of_night) and of_night != file and os.geteuid() == 0:
        _put_back(of_night, settings.hmem_night_dir, source, content, copies.destroyed_beside(file))
    typer.echo(
        f"{done.keys} keys came back into the keyring; the key file {file} {'was written' if done.key_written else 'is as it was'}."
    )
    typer.echo("Restart the services, then run hmem doctor.")


@app.command()
def rotate() -> None:
    """Change the owner's key. The new one opens no earlier keyring, the earlier one no keyring that is written elsewhere from now on (mirror).
    Nothing is encrypted anew."""
    settings = start(directory=None)
    file = _key_file(settings)
    with as_owner_of(file.parent):
        before = sealing.keys().owner.fingerprint
        after = copies.rotate(sealing.keys()).fingerprint
    typer.echo(
        f"The encryption key was {before} and is {after} now, in {file}; other hosts take it over by themselves."
    )
    typer.echo("Make a new copy (hmem key copy TO), and destroy the earlier ones.")


@app.command()
def status(json: Json = False) -> None:
    """Which key this host has, how many keys of chats it protects, and whether all of them are in a copy."""
    settings = start(directory=None)
    file = _key_file(settings)
    with as_owner_of(file.parent):
        keys = sealing.keys()
        keys.sync()
        found = copies.state(keys)
    if json:
        print_json(asdict(found))
        return
    copied = f"{zoned_text(found.copied_at, settings.timezone)}, {found.copied_to}" if found.copied_at else "never"
    typer.echo(f"key          {found.fingerprint} in {found.file}")
    typer.echo(f"keyring      {found.keys} keys, of {found.chats} chats; {found.destroyed} destroyed")
    typer.echo(f"last copy    {copied}")
    typer.echo(
        f"not in it    {found.new_keys} keys, of {found.new_chats} chats"
        + ("; run hmem key copy TO" if found.new_keys else "")
    )


@app.command()
def seal() -> None:
    """Encrypt what a program without the key has written into the day store since encryption was switched on."""
    settings = start("dispatcher")
    _key_file(settings)
    from contextlib import closing

    from dispatcher.memory.store.database import Database

    with closing(Database(settings.day_store_url, settings.hmem_state_dir)) as database:
        typer.echo(f"{database.seal_again()} rows of the day store were plain; all are encrypted now.")


def _key_file(settings: Settings) -> Path:
    if settings.encrypt_key_file is None:
        raise SettingsError("Encryption is off: ENCRYPT_KEY_FILE is not set. Run hmem key new, and set what it says.")
    return settings.encrypt_key_file


def _put_back(
    file: Path, directory: Path, source: Path, content: bytes, destroyed: Collection[str] = ()
) -> copies.RestoredKeys:
    """For the user whose directory that is."""
    with as_owner_of(file.parent):
        of_mirror = b'"copy"' not in content
        done = (copies.restore_keyring if of_mirror else copies.restore)(file, content, str(source), destroyed)
    _hand_over(file, directory)
    return done


def _user_of(directory: Path) -> int | None:
    """Of a service that root sets up: the user who owns its directory; else None."""
    owner = directory.stat().st_uid if os.geteuid() == 0 and directory.exists() else 0
    return owner or None


def _hand_over(file: Path, directory: Path) -> None:
    """What root has made belongs to the service that owns this directory: it reads the key, and writes the keyring beside it."""
    if _user_of(directory) is None or file.parent.stat().st_uid != 0:
        return
    owner = directory.stat()
    for path in (file.parent, *file.parent.iterdir()):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
