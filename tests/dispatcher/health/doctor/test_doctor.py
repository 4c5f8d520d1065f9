"""`hmem doctor` as a whole: a sound installation, what it prints, its exit codes, and a check that breaks."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis

from dispatcher.health import doctor
from dispatcher.health.findings import Check, Finding
from shared.errors import SettingsError
from tests.support.world import World, sign_of_life


@pytest.mark.slow
def test_a_sound_installation_has_no_problem_and_stays_as_it_was(host: World, durable: Redis) -> None:
    host.environment |= {"EMBEDDER": "local", "NIGHT_INDEXES": "sqlite"}
    host.night()
    durable.hset("hcli:mem:inflight:idle", "idle:1", host.enqueue("q1", "a waiting task"))  # and one is being answered

    def everything() -> tuple[Any, ...]:
        files = {path: path.stat().st_mtime_ns for path in host.root.rglob("*") if ".claude" not in str(path)}
        return files, {key: durable.dump(key) for key in durable.scan_iter()}

    before = everything()
    with sign_of_life(durable):
        done, folded = host.command("hmem", "doctor", "--all"), host.command("hmem", "doctor")
    weaker = [line for line in done.stdout.splitlines() if line[0] == "!"]  # its secrets are in the environment here
    assert ["isolation" in line for line in weaker] == [True]
    good = [line for line in done.stdout.splitlines() if line[0] == "✓"]
    assert len(good) == len(doctor.every_check()) - 1, done.stdout
    assert folded.stdout.splitlines() == [
        *(line for line in done.stdout.splitlines() if line not in good), f"✓ {len(good)} checks are fine (--all shows them)"
    ]  # fmt: skip
    assert everything()[1] == before[1]
    changed = {path for path, seen in everything()[0].items() if before[0].get(path) != seen}
    assert changed <= {host.root, host.root / "state"}, "the CLI's own file in HOME, a nameless one in the state's"


@pytest.mark.slow
def test_the_text_names_mark_fix_and_code(host: World) -> None:
    done = host.command("hmem", "doctor", check=False, RESULT_HMAC_KEY="")
    assert done.returncode == 10
    first = done.stdout.splitlines()[:2]
    assert first[0].startswith("✗ settings     RESULT_HMAC_KEY is not set, so hmem run refuses")
    assert first[1].strip().startswith("Set the key that your bot has; openssl rand -hex 32")
    assert first[1].endswith("[10]")
    without = host.command("hmem", "doctor", check=False, REDIS_URL="unix:///nowhere").stdout
    assert "checks could not run because of the problems above" in without
    assert "Not checked" not in without


def test_an_option_of_redis_url_that_redis_py_refuses_is_a_sentence(host: World) -> None:
    wrong = host.settings(redis_url="redis://127.0.0.1:6379/0?max_connections=-1")
    with pytest.raises(SettingsError, match="REDIS_URL is not a Redis URL"):
        list(doctor.examine(wrong))


def test_a_check_that_breaks_stops_none_of_the_others(host: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(setup: object) -> Finding:
        raise ZeroDivisionError("a defect")

    first, *others = doctor.CHECKS
    monkeypatch.setattr(doctor, "CHECKS", (Check(first.name, broken), *others))
    found = list(doctor.examine(host.settings()))
    assert (found[0].state, found[0].code) == ("problem", 1)
    assert "defect" in found[0].sentence
    assert len(found) == len(doctor.every_check())
    assert doctor.exit_code(found) == 1
