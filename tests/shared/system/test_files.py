"""Files that survive a power cut, and names that stay in their directory."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.errors import StorageError
from shared.system.files import (
    PrivateDir,
    atomic_writer,
    commit_dir,
    locked_file,
    make_dir,
    read_own,
    remove_tree,
    safe_name,
    sha256_bytes,
    sha256_file,
    switch_link,
    write_atomic,
)

PROPERTY = settings(max_examples=60)
REPOSITORY = Path(__file__).parent.parent.parent.parent
chats = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=256)
odd_chats = st.sampled_from(
    [*"-100123 ../../etc a/b .. . * ~ Case чат %00 - -- -rf con".split(), "x" * 256, "a b", "ab\n"]
)
twins = st.sampled_from(
    [
        str.upper,
        str.swapcase,
        str.casefold,
        lambda text: unicodedata.normalize("NFD", text),
        lambda text: unicodedata.normalize("NFKC", text),
        safe_name,
        lambda text: text + "/",
        lambda text: "-" + text,
        lambda text: text + "-",
    ]
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@PROPERTY
@given(chats | odd_chats)
def test_a_name_stays_in_its_directory(chat: str) -> None:
    name = safe_name(chat)
    assert (Path("/base") / f"{name}_summary.txt").resolve().parent == Path("/base")
    assert name.isascii()
    assert name == name.lower()
    assert name.strip("-")
    assert not set(name) & set("/\\.*:\0\n ")
    assert len(name) <= 65
    assert name == chat or name.startswith("~")


@PROPERTY
@given(chats | odd_chats, twins, chats)
@example("ab", lambda _: "AB", "x")
@example("é", lambda text: unicodedata.normalize("NFD", text), "x")
@example("A", safe_name, "x")
def test_two_chats_never_share_a_name_even_on_a_case_blind_file_system(one: str, twin: object, other: str) -> None:
    assert callable(twin)
    for second in {str(twin(one)), other} - {one}:
        folded = {unicodedata.normalize("NFKC", safe_name(chat)).casefold() for chat in (one, second)}
        assert len(folded) == 2


def test_a_written_file_is_whole_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o644)
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert names(tmp_path) == ["file"]
    assert (
        sha256_file(path)
        == sha256_bytes(b"new")
        == "sha256:11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437"
    )


@pytest.mark.parametrize("fails_at", ["write", "fsync", "rename"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    path = tmp_path / "file"
    path.write_bytes(b"old")
    if fails_at == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    if fails_at == "rename":
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no space"), atomic_writer(path) as handle:
        handle.write(b"half")
        handle.flush()
        assert path.read_bytes() == b"old"
        if fails_at == "write":
            fail()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """fsyncs and renames in their order, by name."""
    seen: list[str] = []
    fsync, replace, rename = os.fsync, Path.replace, Path.rename

    def note_fsync(descriptor: int) -> None:
        seen.append("fsync " + Path(f"/proc/self/fd/{descriptor}").readlink().name.removeprefix("."))
        fsync(descriptor)

    def note_replace(path: Path, target: Path) -> Path:
        seen.append(f"rename to {target.name}")
        return replace(path, target)

    def note_rename(path: Path, target: Path) -> Path:
        seen.append(f"rename to {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "replace", note_replace)
    monkeypatch.setattr(Path, "rename", note_rename)
    return seen


def test_a_file_is_durable_before_its_name_and_the_name_before_the_return(tmp_path: Path, events: list[str]) -> None:
    write_atomic(tmp_path / "file", b"new")
    assert [event.split(".")[0] for event in events] == ["fsync file", "rename to file", f"fsync {tmp_path.name}"]


def test_a_committed_directory_is_durable_in_every_part_before_its_name(tmp_path: Path, events: list[str]) -> None:
    parts = tmp_path / "parts"
    (parts / "inner").mkdir(parents=True)
    for path in (parts / "one", parts / "inner" / "two"):
        path.write_bytes(b"content")
    commit_dir(parts, tmp_path / "final")
    assert sorted(events[:-2]) == ["fsync inner", "fsync one", "fsync parts", "fsync two"]
    assert events[-2:] == ["rename to final", f"fsync {tmp_path.name}"]
    assert (tmp_path / "final" / "inner" / "two").read_bytes() == b"content"
    assert names(tmp_path) == ["final"]


def test_a_link_is_switched_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "current"
    switch_link(link, "releases/1")
    replace, unlinked = Path.replace, []

    def old_one_is_still_there(path: Path, target: Path) -> Path:
        assert link.readlink() == Path("releases/1")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", old_one_is_still_there)
    monkeypatch.setattr(Path, "unlink", lambda path, **_: unlinked.append(path))
    switch_link(link, "releases/2")
    assert link.readlink() == Path("releases/2")
    assert not unlinked
    assert names(tmp_path) == ["current"]


def test_removing_a_tree_never_follows_a_link(tmp_path: Path) -> None:
    kept = make_dir(tmp_path / "kept")
    (kept / "file").write_bytes(b"x")
    tree = make_dir(tmp_path / "tree")
    (tree / "inner link").symlink_to(kept)
    (tmp_path / "link").symlink_to(kept)
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("tree", "link", "dangling", "never there"):
        remove_tree(tmp_path / name)
    assert names(tmp_path) == ["kept"]
    assert names(kept) == ["file"]


OWNER = """
import sys; from pathlib import Path; from shared.system.files import PrivateDir
own = PrivateDir(Path(sys.argv[1])); (own.path / "file").write_bytes(b"x")
print(own.path, flush=True); sys.stdin.read()
"""


def test_a_private_directory_outlives_others_and_goes_when_its_owner_is_dead(tmp_path: Path) -> None:
    base = tmp_path / "views"
    command = [sys.executable, "-c", OWNER, str(base)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as owner:
        assert owner.stdout is not None
        live = Path(owner.stdout.readline().strip())
        beside = PrivateDir(base)
        assert sorted([live.name, beside.path.name]) == names(base), "the live one stays"
        assert names(live) == ["file"]
        owner.kill()
        owner.wait()
    assert live.exists()
    third = PrivateDir(base)
    assert sorted([beside.path.name, third.path.name]) == names(base), "the dead one goes, our own first one stays"
    beside.remove()
    third.remove()
    assert names(base) == []


def _a_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [_a_pipe, Path.mkdir, lambda path: path.symlink_to(path.with_name("target"))])
def test_our_own_files_are_plain_ones(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A pipe keeps nobody waiting, and what a link leads to is neither read, emptied nor made."""
    path, target = tmp_path / "file", tmp_path / "target"
    make(path)
    for _ in range(2):
        with pytest.raises(StorageError, match="is a link or not a regular file"):
            read_own(path)
        with pytest.raises(StorageError, match="is a link or not a regular file"), locked_file(path):
            pass
        assert not target.exists() or target.read_text() == "precious"
        target.write_text("precious")
