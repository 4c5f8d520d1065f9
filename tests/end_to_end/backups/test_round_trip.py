"""A backup made by the real restic of a real installation, brought back to an empty host."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.delivery.copies.restic import shown_place
from tests.end_to_end.backups.hosts import ARCHIVED, WAITING, BackedUp, backed_up, empty_host, lived_in
from tests.support.day.health import ask
from tests.support.night.archives import texts
from tests.support.night.mirrors import verify
from tests.support.world import SECRET, World


@pytest.fixture
def kept(light: World, tmp_path: Path) -> BackedUp:
    lived_in(light)
    made = backed_up(light, tmp_path)
    made.backup("--init")
    return made


@pytest.fixture
def other(light: World, tmp_path: Path) -> Iterator[World]:
    with empty_host(light, tmp_path / "other") as host:
        yield host


def test_everything_comes_back_on_an_empty_host(kept: BackedUp, other: World) -> None:
    said = kept.restore(other).stdout
    assert "Restored backup" in said
    assert "hmem doctor" in said
    assert "RESULT_HMAC_KEY" in said
    assert texts(other) == texts(kept.world)
    assert verify(other)["turns"] == verify(kept.world)["turns"] == 2
    assert WAITING in str(other.redis.get("hcli:memory:t3:user"))
    assert other.redis.lrange("hcli:tasks", 0, -1) == kept.world.redis.lrange("hcli:tasks", 0, -1)
    assert 0 < other.redis.ttl("hcli:session:9912") <= 3600
    assert "Pushok" in other.command("hmem", "memory", "list", "9912").stdout
    other.night()  # it goes on from there: the turn that waited is archived, nothing is lost
    assert {ARCHIVED in text or WAITING in text for text in texts(other).values()} == {True}
    assert len(texts(other)) == 3
    assert not other.redis.exists("hcli:memory:t3:user")


def test_what_is_restored_is_private(kept: BackedUp, other: World) -> None:
    kept.restore(other)
    for place in (other.night_dir, other.root / "state", other.memory_dir):
        for folder, _, names in os.walk(place):
            assert Path(folder).stat().st_mode & 0o777 == 0o700, folder
            assert {(Path(folder) / name).stat().st_mode & 0o777 for name in names} <= {0o600}, folder


def test_no_secret_is_in_the_repository(kept: BackedUp, tmp_path: Path) -> None:
    secrets = {"TELEGRAM_BOT_TOKEN": "123:bot-token-abcdef", "TRANSCRIBE_KEY": "transcribe-key-xyz", "QDRANT_API_KEY": "qdrant-key-xyz",
               "HEARTBEAT_URL": "https://hc.example.org/ping-uuid-7", "OLLAMA_URL": "http://anna:ollama-word@127.0.0.1:1"}  # fmt: skip
    own = kept.world.root / "own.toml"
    own.write_text(f'RESULT_HMAC_KEY = "{SECRET}"\nCHAT_TIMEZONE = "Europe/Berlin"\nWEB_CHATS = "9912"\n')
    own.chmod(0o600)
    made = kept.made(HMEM_CONFIG=str(own), **secrets)
    assert {*secrets, "RESULT_HMAC_KEY"} <= {*made["left_out"]}
    tree = kept.fetched(tmp_path / "tree")
    needles = [SECRET, *secrets.values(), "ollama-word", kept.password.read_text().strip()]
    if (key := kept.world.root / "owner.key").exists():
        needles.append(key.read_text())
    files = [path for path in tree.rglob("*") if path.is_file()]
    assert [path for path in files if any(needle.encode() in path.read_bytes() for needle in needles)] == []
    assert 'CHAT_TIMEZONE = "Europe/Berlin"' in (tree / "settings.toml").read_text()


def test_settings_come_back_with_the_places_of_the_new_host(kept: BackedUp, other: World) -> None:
    kept.made(CHAT_TIMEZONE="Europe/Berlin")
    done = json.loads(kept.restore(other, "--json").stdout)
    restored = Path(done["parts"]["settings"])
    assert restored == other.root / ".config" / "hmem" / "hmem.toml"
    assert 'CHAT_TIMEZONE = "Europe/Berlin"' in restored.read_text()
    assert str(kept.world.night_dir) not in restored.read_text().replace(str(other.root), "")
    assert other.command("hmem", "release", "list").stderr.count("Europe/Berlin") == 1  # they are in use


def test_restored_settings_use_the_redis_that_was_filled_and_no_place_of_the_other_host(
    kept: BackedUp, other: World
) -> None:
    theirs = {"REDIS_URL": kept.world.url, "JOURNAL": "hmem@other:/j", "ARCHIVE_MIRROR": "hmem@other:/m", "MEDIA_DIR": "/srv/media"}  # fmt: skip
    kept.made(CHAT_TIMEZONE="Europe/Berlin", **theirs)
    done = json.loads(kept.restore(other, "--json").stdout)
    restored = tomllib.loads(Path(done["parts"]["settings"]).read_text())
    assert (restored["REDIS_URL"], restored["CHAT_TIMEZONE"]) == (other.url, "Europe/Berlin")
    assert restored.keys() & {*theirs} == {"REDIS_URL"}
    (sentence,) = [one for one in done["to_do"] if "set anew" in one]
    assert [theirs[name] in sentence for name in theirs] == [False, True, True, True]


def test_the_newest_backup_is_tried_out_and_found_good(kept: BackedUp) -> None:
    done = kept.backup("--verify")
    assert "is good" in done.stdout
    assert "2 of 2 questions find their answer, as 2 do in the release in use" in done.stdout
    code, found = ask(kept.world, BACKUP_TO=str(kept.to), **kept.variables())
    assert found["backup"].state == "ok", (code, found["backup"])


def test_a_backup_of_an_older_release_is_good_too(kept: BackedUp) -> None:
    kept.world.say("n1", "a new chat begins", chat_id="77", timestamp=1_707_900_000.0)
    kept.world.night()
    result = json.loads(kept.backup("--verify", "--json").stdout)
    assert result["good"]
    assert (result["gate"]["release"], result["gate"]["served"]) == (2, 3)


def test_places_that_are_used_are_refused_without_yes_and_kept_with_it(kept: BackedUp, other: World) -> None:
    kept.restore(other)
    other.redis.set("hcli:memory:t3:user", b"newer")
    other.redis.set("hcli:session:9912", "newer")
    refused = kept.restore(other, check=False)
    assert refused.returncode == 24
    assert "--yes" in refused.stderr
    kept.restore(other, "--yes")
    assert other.redis.get("hcli:memory:t3:user") == other.redis.get("hcli:session:9912") == b"newer"
    assert texts(other) == texts(kept.world)


def test_an_archive_of_another_history_is_not_touched(kept: BackedUp, other: World) -> None:
    other.say("z1", "another life", timestamp=1_707_500_000.0)
    other.night()
    before = (other.night_dir / "archive" / "seg-1.jsonl").read_bytes()
    done = kept.restore(other, "--yes", check=False)
    assert done.returncode == 55
    assert "two histories" in done.stderr
    assert (other.night_dir / "archive" / "seg-1.jsonl").read_bytes() == before


def test_a_release_that_is_newer_stays(kept: BackedUp) -> None:
    kept.world.night()
    kept.world.say("n1", "something newer", timestamp=1_707_900_000.0)
    kept.world.night()
    now = (kept.world.memory_dir / "current").readlink()
    done = json.loads(kept.restore(kept.world, "--yes", "--json").stdout)
    assert done["parts"]["release"]["current"] is False
    assert (kept.world.memory_dir / "current").readlink() == now


def test_files_of_messages_are_kept_and_come_back(light: World, tmp_path: Path) -> None:
    media = light.night_dir / "archive" / "media" / ("0" * 40)
    lived_in(light)
    media.mkdir(parents=True, mode=0o700)
    (media / f"t1.{'a' * 64}").write_bytes(b"opaque bytes, perhaps sealed")
    made = backed_up(light, tmp_path)
    assert made.made("--init")["parts"]["archive"]["media"] == 1
    assert (made.fetched(tmp_path / "tree") / "night" / "archive" / "media" / media.name).is_dir()


def test_one_backup_of_a_day_is_kept(kept: BackedUp) -> None:
    kept.backup()
    assert kept.made("--keep-daily", "3")["removed"] == 2
    assert len(json.loads(kept.restic("snapshots", "--json"))) == 1


def test_a_snapshot_is_chosen_by_its_id(kept: BackedUp, other: World) -> None:
    first = json.loads(kept.restic("snapshots", "--json"))[0]["short_id"]
    kept.world.redis.delete("hcli:tasks")
    kept.backup()
    kept.restore(other, "--snapshot", first)
    assert other.redis.llen("hcli:tasks") == 1
    assert kept.restore(other, "--snapshot", "ffff", "--yes", check=False).returncode == 24


def test_a_repository_is_named_as_it_is_told_to_restic_and_without_its_password(tmp_path: Path) -> None:
    assert shown_place("rest:https://anna:word@host/hmem") == "rest:https://…@host/hmem"
    assert shown_place("sftp:anna@host:/srv/hmem") == "sftp:anna@host:/srv/hmem"
    assert shown_place(os.path.relpath(tmp_path)) == str(Path.cwd() / os.path.relpath(tmp_path))
