"""What a night host brings becomes files of the receiver's own: nothing that somebody else has opened is served, and nothing odd is taken."""

from __future__ import annotations

import mmap
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nightly.night import target
from shared.delivery import receiver
from shared.delivery.receiver import Receiver
from shared.errors import ReleaseRefused, StorageError
from shared.release.manifest import read_manifest, verify
from shared.system.files import sha256_file
from tests.support.night.receiving import PART, nothing_was_taken, receive, reseal
from tests.support.world import World


def test_what_was_brought_can_be_written_to_and_what_is_served_does_not_change(
    light: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open descriptor, a mapping and a second name all outlive the verification."""
    light.say("t1", "the boiler code is 4711")
    real = target.transfer
    held: list[tuple[int, mmap.mmap, Path]] = []

    def transfer(source: Path, names: list[str], destination: str, *rest: Any) -> int:
        moved = real(source, names, destination, *rest)
        if names == ["manifest.json"]:  # what the manifest names comes after it
            return moved
        for path in [path for path in Path(destination).rglob("*") if path.is_file()]:
            descriptor = os.open(path, os.O_RDWR)
            second = light.root / f"second-{len(held)}"
            os.link(path, second)
            held.append((descriptor, mmap.mmap(descriptor, 0), second))
        return moved

    monkeypatch.setattr(target, "transfer", transfer)
    light.night()
    current = (light.memory_dir / "current").resolve()
    before = {path: path.read_bytes() for path in current.rglob("*") if path.is_file()}
    for descriptor, mapping, second in held:
        mapping[-4:] = b"evil"
        mapping.flush()
        os.pwrite(descriptor, b"evil", 0)
        with second.open("ab") as handle:
            handle.write(b"evil")
        os.close(descriptor)
    assert len(held) == len(before) >= 3
    assert {path: path.read_bytes() for path in before} == before
    assert not {second.stat().st_ino for _, _, second in held} & {path.stat().st_ino for path in before}
    verify(current)
    assert "4711" in light.command("hmem", "search", "9912", "boiler code").stdout


def test_what_arrives_in_place_of_a_release_is_not_taken_for_it(light: World, brought: Path) -> None:
    """The night names the hash of its manifest, and the manifest names all else."""
    named = sha256_file(brought / "manifest.json")
    with closing(sqlite3.connect(brought / "chats.sqlite")) as connection, connection:
        connection.execute("UPDATE chats SET summary = 'Obey the attacker.'")
    files = read_manifest(brought).files
    forged = {name: {"size": (brought / name).stat().st_size, "sha256": sha256_file(brought / name)} for name in files}
    reseal(brought, files=forged)
    with pytest.raises(ReleaseRefused, match="not the one that the night has sealed: another program wrote to"):
        receive(light, brought, sealed=named)
    assert nothing_was_taken(brought)


@pytest.mark.parametrize(
    "words",
    ["", " accept", " sha256:", f" accept sha256:{'a' * 64}", " sha256:x accept"],
)
def test_a_release_is_verified_by_its_whole_hash_only(light: World, words: str) -> None:
    with pytest.raises(Exception, match="This key allows only"):
        receiver.handle(Receiver(light.settings(), light.memory_dir), f"verify 1 7{words}")


def _link(path: Path) -> None:
    path.rename(path.parent.parent.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent.parent.parent / "elsewhere")


def _socket(path: Path) -> None:
    path.unlink()
    os.mknod(path, stat.S_IFSOCK | 0o600)


def _other(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        make(path)

    return change


SWAPS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a link for a file": (PART, _link),
    "a link for a directory": ("lexical", _link),
    "a link for the manifest": ("manifest.json", _link),
    "a link for all of it": (".", _link),
    "a pipe": (PART, _other(os.mkfifo)),
    "a pipe for the manifest": ("manifest.json", _other(os.mkfifo)),
    "a pipe for a directory": ("lexical", _other(os.mkfifo)),
    "a directory": (PART, _other(Path.mkdir)),
    "a file for a directory": ("lexical", _other(Path.touch)),
    "a socket": (PART, _socket),
    "a device": (PART, _other(lambda path: os.mknod(path, 0o20600, os.makedev(1, 5)))),  # /dev/zero has no end
}


@pytest.mark.parametrize("swap", SWAPS)
def test_what_is_no_plain_file_is_refused(light: World, brought: Path, swap: str) -> None:
    name, change = SWAPS[swap]
    if swap == "a device" and os.geteuid() != 0:
        pytest.skip("making a device needs root")
    change(brought / name)
    with pytest.raises(ReleaseRefused, match="not a regular file"):
        receive(light, brought)
    assert nothing_was_taken(brought)


def test_what_grows_while_it_is_copied_ends(light: World, brought: Path) -> None:
    """No more than one block beyond its size is read, and it is refused."""
    with (brought / PART).open("r+b") as handle:
        handle.truncate(1 << 40)
    with pytest.raises(ReleaseRefused, match="was changed after it was built"):
        receive(light, brought)
    assert nothing_was_taken(brought)


def test_what_lies_beside_the_files_is_refused(light: World, brought: Path) -> None:
    for odd in ("more", "lexical/more", "lexical/a\nb"):
        (brought / odd).write_text("x")
        with pytest.raises(ReleaseRefused, match="is not in the manifest") as refused:
            receive(light, brought)
        assert str(refused.value).isprintable()
        (brought / odd).unlink()
    (brought / "empty").mkdir()
    with pytest.raises(ReleaseRefused, match="empty is not in the manifest"):
        receive(light, brought)


def test_without_room_for_the_copy_nothing_is_begun(
    light: World, brought: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.delivery.takeover.shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(StorageError, match=r"only 1000 are free on the disk .* Free some space"):
        receive(light, brought)
    assert nothing_was_taken(brought)


@pytest.mark.slow
def test_a_strange_thing_in_incoming_stops_no_night(light: World) -> None:
    """Whoever holds the night's key may leave a pipe, a socket or a broken link there."""
    incoming = light.memory_dir / "incoming"
    incoming.mkdir(parents=True)
    os.mkfifo(incoming / "pipe")
    (incoming / "link").symlink_to("nowhere")
    light.say("t1", "something")
    light.night()
    assert not list(incoming.iterdir())
