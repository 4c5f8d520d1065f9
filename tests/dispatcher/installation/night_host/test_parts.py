"""The parts of `hmem init --night-host` alone: where an archive may be, what the keys may do, what the night host is given."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from dispatcher.chat_data.forget.receipt import what_stays
from dispatcher.installation.journal import InstallationJournal
from dispatcher.installation.layout import of_host
from dispatcher.installation.night_host import day_access, night_settings
from dispatcher.installation.night_host.archive_place import (
    arriving,
    mark_moved,
    put_aside,
    put_in_place,
)
from dispatcher.installation.night_host.move import DayAddress, refuse_other_host
from dispatcher.installation.night_host.redis_login import RedisLogin, redis_login
from dispatcher.installation.night_host.remote import checked_destination
from dispatcher.installation.services.base import Program
from dispatcher.installation.services.systemd import SystemdServices
from nightly.night.lease import night_lock
from shared.config.settings import settings_from
from shared.errors import InstallationIncomplete, SettingsError
from shared.system.archive_folder import kept_copies, moved_marker, moved_to
from tests.support.processes.installing import ScriptedTerminal, installation_in, script
from tests.support.world import World

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample hmem-x"


def used(place: Path, word: str) -> Path:
    (place / "archive").mkdir(parents=True)
    (place / "format.json").write_text("{}")
    (place / "archive" / "seg-1.jsonl").write_text(word)
    return place


def test_where_it_was_moved_from_no_night_begins(tmp_path: Path) -> None:
    place = used(tmp_path / "night", "words")
    settings = settings_from({"hmem_night_dir": place})
    mark_moved(place, "user@gpu")
    assert moved_marker(place).stat().st_mode & 0o777 == 0o644, "every account may see it"
    for _ in range(2):
        assert moved_to(place) == "user@gpu"
        with pytest.raises(SettingsError, match=r"moved to user@gpu"), night_lock(settings):
            pass
        put_aside(place)
    assert [path.name for path in kept_copies(place)] == ["night.kept"]
    stays = what_stays([], None, "chat", settings)
    assert f"the old copy of the archive in {place}.kept" in [one["what"] for one in stays], "a receipt names it"
    assert not place.exists()
    moved_marker(place).write_text("damaged")
    assert moved_to(place) == "another host", "rather no night than two"


def test_a_copy_gets_its_place_and_only_then_nights_may_use_it(tmp_path: Path) -> None:
    place = used(tmp_path / "night", "of yesterday")
    mark_moved(place, "user@gpu")
    put_aside(place)
    with pytest.raises(InstallationIncomplete, match="has no archive"):
        put_in_place(place)
    assert moved_to(place), "nothing has arrived"
    used(arriving(place), "of today")
    put_in_place(place)
    assert (place / "archive" / "seg-1.jsonl").read_text() == "of today"
    assert moved_to(place) is None
    put_in_place(place)  # of a run that was killed after that
    mark_moved(place, "user@gpu")
    used(arriving(place), "of tomorrow")
    put_in_place(place)
    assert [path.name for path in kept_copies(place)] == ["night.kept", "night.kept-2"], "nothing is ever deleted"


def test_what_belongs_to_this_host_stays_where_the_archive_comes_back(tmp_path: Path) -> None:
    place = tmp_path / "hmem-night"
    (place / ".ssh").mkdir(parents=True)
    for name in ("owner.pub", "lock", "notes"):
        (place / name).write_text("of this host")
    (used(arriving(place), "words") / "owner.pub").write_text("of the other host")
    with pytest.raises(InstallationIncomplete, match=r"not empty \(notes\)\. Move that away"):
        put_in_place(place)
    (place / "notes").unlink()
    put_in_place(place)
    assert sorted(path.name for path in place.iterdir()) == [".ssh", "archive", "format.json", "owner.pub"]
    assert (place / "owner.pub").read_text() == "of this host"


def test_the_account_keeps_its_keys_where_its_home_is_the_archive(tmp_path: Path) -> None:
    place = used(tmp_path / "hmem-night", "words")
    (place / ".ssh").mkdir()
    (place / ".ssh" / "authorized_keys").write_text("a line")
    mark_moved(place, "user@gpu")
    put_aside(place)
    assert [path.name for path in place.iterdir()] == [".ssh"]
    used(arriving(place), "words")
    put_in_place(place)
    assert (place / ".ssh" / "authorized_keys").read_text() == "a line"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("of somebody")
    used(arriving(tmp_path / "full"), "words")
    with pytest.raises(InstallationIncomplete, match="in the way of the archive and not empty"):
        put_in_place(tmp_path / "full")


def test_our_lines_allow_one_command_each_and_the_others_stay(tmp_path: Path) -> None:
    installation = installation_in(tmp_path, ScriptedTerminal(unattended=True), {"REDIS_URL": "redis://127.0.0.1/0"})
    layout = installation.layout
    layout.memory.mkdir(parents=True)
    file = layout.home / ".ssh" / "authorized_keys"
    file.parent.mkdir(parents=True)
    file.write_text("ssh-ed25519 AAAA the owner's laptop")
    journal = InstallationJournal(tmp_path / "journal.json")
    public = dict.fromkeys(day_access.KEYS, KEY)
    assert day_access.allow(installation, journal, public, "unix:/run/redis.sock")
    assert not day_access.allow(installation, journal, public, "unix:/run/redis.sock"), "it is there already"
    first, *lines = file.read_text().splitlines()
    assert first == "ssh-ed25519 AAAA the owner's laptop"
    assert len(lines) == 3
    assert all(line.startswith('restrict,command="') for line in lines)
    assert f"rrsync -wo -no-del -munge {layout.memory}/incoming" in lines[0]
    assert f"HMEM_CONFIG={layout.settings_file} " in lines[1]
    assert '-P -m shared.delivery.receiver \\"$SSH_ORIGINAL_COMMAND\\""' in lines[1]
    assert "redis_tunnel relay unix:/run/redis.sock" in lines[2]
    assert (layout.memory / "incoming").stat().st_mode & 0o777 == 0o700
    day_access.refuse_all(layout)
    assert file.read_text().splitlines() == [first]


@pytest.mark.parametrize(
    ("url", "address", "there"),
    [
        ("unix://:pass@/run/r.sock?db=3", "unix:/run/r.sock", "unix://:pass@/s/redis.sock?db=3"),
        ("redis://127.0.0.1:6390/2", "127.0.0.1:6390", "unix:///s/redis.sock?db=2"),
        ("redis://user:p%40ss@redis.lan", "redis.lan:6379", "unix://user:p%40ss@/s/redis.sock?db=0"),
        ("rediss://user:pass@redis.lan:6380/0", None, "rediss://user:pass@redis.lan:6380/0"),
    ],
)
def test_redis_is_the_same_through_the_tunnel(tmp_path: Path, url: str, address: str | None, there: str) -> None:
    """With vectors in Redis nights log in as the day does."""
    installation = installation_in(
        tmp_path, ScriptedTerminal(unattended=True), {"REDIS_URL": url, "NIGHT_INDEXES": "redis"}
    )
    login = redis_login(installation, InstallationJournal(tmp_path / "journal.json"), keep=False)
    assert isinstance(login, RedisLogin)
    assert (login.address, login.url_through(Path("/s/redis.sock"))) == (address, there)


def test_a_redis_that_keeps_users_gets_one_with_the_rights_of_a_night(tmp_path: Path, world: World) -> None:
    """This one has no settings file to keep it in, so the user does not stay, and nothing is left."""
    installation = installation_in(tmp_path, ScriptedTerminal(unattended=True), {"REDIS_URL": world.url})
    login = redis_login(installation, InstallationJournal(tmp_path / "journal.json"), keep=False)
    assert "keeps no other users" in login.sentence
    assert world.redis.acl_users() == ["default"]


def test_what_both_must_agree_on_is_given_and_what_names_this_host_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(night_settings, "ask_hmem", lambda *_: {"public": "ed25519:abc"})
    values = {
        "REDIS_URL": "redis://127.0.0.1/0", "CHAT_TIMEZONE": "Europe/Berlin", "EMBEDDER": "ollama", "EMBED_MODEL": "bge-m3",
        "OLLAMA_URL": "http://127.0.0.1:11434", "ARCHIVE_MIRROR": "/mnt/second", "QDRANT_URL": "http://localhost:6333",
        "TELEGRAM_BOT_TOKEN": "42:secret", "RESULT_HMAC_KEY": "0" * 64,
    }  # fmt: skip
    given, notes = night_settings.for_night_host(installation_in(tmp_path, ScriptedTerminal(unattended=True), values))
    assert given == {
        "CHAT_TIMEZONE": "Europe/Berlin", "NIGHT_CRON": "0 3 * * *", "EMBEDDER": "ollama", "EMBED_MODEL": "bge-m3", "OWNER_PUBLIC_KEY": "ed25519:abc",
    }  # fmt: skip
    assert [note.split()[0] for note in notes] == ["QDRANT_URL", "ARCHIVE_MIRROR"]


def test_addresses_and_names() -> None:
    for written, address in (
        ("day.example.org", ("day.example.org", 22)),
        ("192.0.2.7:2222", ("192.0.2.7", 2222)),
        ("[2001:db8::7]:22", ("2001:db8::7", 22)),
        ("2001:db8::7", ("2001:db8::7", 22)),
    ):
        assert DayAddress.parse(written) == address
        assert DayAddress.parse(str(DayAddress(*address))) == address
    with pytest.raises(ValueError, match="is no address"):
        DayAddress.parse("a b")
    for name in ("user@gpu", "gpu", "noor@gpu.example.org"):
        assert checked_destination(name) == name
    for name in ("-oProxyCommand=x", "user@-x", "a b", "gpu;ls", ""):
        with pytest.raises(InstallationIncomplete, match="is no host for ssh"):
            checked_destination(name)


def test_nights_are_given_to_one_host(tmp_path: Path) -> None:
    journal = InstallationJournal(tmp_path / "journal.json")
    journal.add("night-host", "user@gpu")
    refuse_other_host(journal, "user@gpu")
    with pytest.raises(InstallationIncomplete, match=r"belong to user@gpu\. Bring them back first"):
        refuse_other_host(journal, "user@other")


def test_systemd_takes_the_unit_of_the_tunnel(tmp_path: Path) -> None:
    layout = replace(of_host("three-users"), day_user="hmem-night")
    programs = [
        Program("tunnel", "Redis of the day host", ("/bin/sleep", "1"), "hmem-night", layout.night),
        Program("night", "nights", ("/bin/true",), "hmem-night", layout.night),
    ]
    units = SystemdServices(layout, programs, settings_from({"night_cron": "30 4 * * *"})).units()
    assert set(units) == {"hmem-tunnel.service", "hmem-night.service", "hmem-night.timer"}
    for name, text in units.items():
        (tmp_path / name).write_text(text)
    analyze = shutil.which("systemd-analyze")
    assert analyze, "systemd-analyze is not installed. Run scripts/setup --dev."
    done = subprocess.run(
        [analyze, "verify", *(str(tmp_path / name) for name in units)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes accounts")
def test_the_account_gets_a_shell_and_is_not_locked_and_gets_its_shell_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "calls"
    folder = script(tmp_path / "bin", "usermod", [f'echo "$@" >>{log}']).parent
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    layout = replace(of_host("three-users", tmp_path), night_user="nobody")
    journal = InstallationJournal(tmp_path / "journal.json")
    day_access._give_shell(layout, journal)
    day_access.restore_shell(journal)
    before = pwd.getpwnam("nobody").pw_shell
    assert log.read_text().splitlines() == ["--shell /bin/sh --password * nobody", f"--shell {before} nobody"]
