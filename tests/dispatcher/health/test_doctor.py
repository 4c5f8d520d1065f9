"""`hmem doctor`: every fault is produced for real (a redis-server of its own, the real Claude CLI, a loopback Ollama, another user).

Only the clock is a parameter: a test cannot turn this host's. The disk is a parameter too, and besides a real file system where root may
mount one. Root gives up its right to override permissions where these are tested.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from redis import Redis

from dispatcher.health import doctor
from dispatcher.health.checks import claude
from dispatcher.health.checks.claude import OLDEST_CLAUDE, TESTED_CLAUDE
from dispatcher.health.checks.redis import KEYLESS, USES
from dispatcher.health.findings import Fault, Finding
from shared.errors import IndexServerAway, exit_codes
from shared.release.retention import write_pin
from tests.servers.ollama_api import DIGEST, OllamaApi
from tests.support.day.health import ask, expect, looks, redis_server, url_of
from tests.support.index_world import settings_for
from tests.support.machine import free_port, wait_for
from tests.support.world import BINARIES, REPOSITORY, STAND_IN, World, sign_of_life

NOBODY = 65534
AS_ROOT = os.geteuid() == 0


# ---------------------------------------------------------------------------------------------------------- all is well


def test_a_sound_installation_has_no_problem_and_stays_as_it_was(host: World, durable: Redis) -> None:
    host.environment |= {"EMBEDDER": "local", "NIGHT_INDEXES": "sqlite"}
    host.night()
    durable.hset("hcli:mem:inflight:idle", "idle:1", host.enqueue("q1", "a waiting task"))  # and one is being answered

    def everything() -> tuple[Any, ...]:
        files = {path: path.stat().st_mtime_ns for path in host.root.rglob("*") if ".claude" not in str(path)}
        return files, {key: durable.dump(key) for key in durable.scan_iter()}

    before = everything()
    with sign_of_life(durable):
        done = host.command("hmem", "doctor")
    weaker = [
        line for line in done.stdout.splitlines() if line[0] == "!"
    ]  # here one user runs all, with its secrets in the environment
    assert ["isolation" in line for line in weaker] == [True], done.stdout
    good = [line for line in done.stdout.splitlines() if line[0] == "✓"]
    assert len(good) == len(doctor.CHECKS) - 1, done.stdout
    assert everything()[1] == before[1]
    changed = {path for path, seen in everything()[0].items() if before[0].get(path) != seen}
    assert changed <= {host.root, host.root / "state"}, (
        "the CLI's own file in HOME, a nameless file in the state directory"
    )


def test_the_text_names_mark_fix_and_code(host: World) -> None:
    done = host.command("hmem", "doctor", check=False, RESULT_HMAC_KEY="")
    assert done.returncode == 10
    first = done.stdout.splitlines()[:2]
    assert first[0].startswith("✗ settings     RESULT_HMAC_KEY is not set, so hmem run refuses")
    assert first[1].strip().startswith("Set the key that your bot has; openssl rand -hex 32")
    assert first[1].endswith("[10]")


def test_every_code_of_the_doctor_is_in_the_documents() -> None:
    text = (REPOSITORY / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\d+) \| ([a-z ]+) \|", text, re.MULTILINE))
    assert {int(code): label for code, label in rows.items()} == {int(fault): fault.label for fault in Fault}
    assert not {int(fault) for fault in Fault} & set(exit_codes())


def test_a_check_that_breaks_stops_none_of_the_others(host: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(setup: object) -> Finding:
        raise ZeroDivisionError("a defect")

    first, *others = doctor.CHECKS
    monkeypatch.setattr(doctor, "CHECKS", (doctor.Check(first.name, broken), *others))
    found = list(doctor.examine(host.settings()))
    assert (found[0].state, found[0].code) == ("problem", 1)
    assert "defect" in found[0].sentence
    assert len(found) == len(others) + 1
    assert doctor.exit_code(found) == 1


# ---------------------------------------------------------------------------------------------------------------- Redis


def test_no_redis(host: World) -> None:
    found = expect(
        host, "redis", 11, "does not answer.*refused", "Start it, or set REDIS_URL", REDIS_URL=f"redis://127.0.0.1:{free_port()}/0"
    )  # fmt: skip
    for name in ("rights", "eviction", "persistence", "clock", "night"):
        assert found[name].state == "skipped"
        assert "the check of redis failed" in found[name].sentence


def test_a_wrong_password_and_a_wrong_url(host: World) -> None:
    found = expect(host, "redis", 11, "refuses us", "user and password", REDIS_URL=url_of(host.redis, "bot:wrong@"))
    assert "wrong" not in found["redis"].sentence.replace("WRONGPASS", "")
    done = host.command("hmem", "doctor", check=False, REDIS_URL="localhost:6379")
    assert done.returncode == 10
    assert "REDIS_URL" in done.stderr


@pytest.mark.parametrize(
    ("policy", "lost"), [("allkeys-lru", "turns that no night has archived"), ("volatile-ttl", "sessions and marks")]
)
def test_a_wrong_eviction_policy(host: World, tmp_path: Path, policy: str, lost: str) -> None:
    options = ("--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", policy)
    with redis_server(tmp_path / "r", *options) as client:
        expect(
            host,
            "eviction",
            Fault.EVICTION_POLICY,
            f"{policy}.*silently drops {lost}",
            "noeviction",
            REDIS_URL=url_of(client),
        )


def test_no_persistence(host: World, tmp_path: Path) -> None:
    with redis_server(tmp_path / "r", "--save", "") as client:
        expect(
            host,
            "persistence",
            Fault.PERSISTENCE,
            "nothing to disk.*loses all turns",
            "appendonly yes",
            REDIS_URL=url_of(client),
        )
        client.config_set("save", "3600 1")
        host.url = url_of(client)
        found = looks(host, "persistence")
        assert (found.state, found.code) == ("problem", Fault.PERSISTENCE)
        assert "snapshots only" in found.sentence
        assert found.fix


def test_a_redis_that_takes_no_writes(host: World, tmp_path: Path) -> None:
    with redis_server(tmp_path / "r", "--appendonly", "yes", "--maxmemory", "1") as client:
        code, found = ask(host, REDIS_URL=url_of(client))
        assert (code, found["rights"].code, "out of memory" in found["rights"].sentence) == (11, 11, True)
        assert "maxmemory" in found["rights"].fix
        client.config_set("maxmemory", 0)
        client.replicaof("127.0.0.1", str(free_port()))
        host.url = url_of(client)
        refused = looks(host, "rights")
        assert (refused.code, refused.fix) == (11, "Set REDIS_URL to its primary.")


def allow(client: Redis, rules: str) -> None:
    """The user `mine` with the password `pw` and these rights alone."""
    client.execute_command("ACL", "SETUSER", "mine", "reset", "on", ">pw", *rules.split())  # type: ignore[no-untyped-call]


def test_a_redis_user_without_rights(host: World, durable: Redis) -> None:
    allow(durable, "~hcli:tasks +@all -evalsha -set -info -config -acl")
    before = durable.dbsize()
    found = expect(
        host, "rights", Fault.REDIS_RIGHTS, "user mine may not run .*EVALSHA.* and may not reach .*hcli:mem:busy.*could not be taken",
        r"ACL SETUSER mine '~hcli:\*' .*\+evalsha", REDIS_URL=url_of(durable, "mine:pw@"),
    )  # fmt: skip
    assert "hcli:tasks" not in found["rights"].sentence
    for name in ("eviction", "persistence"):
        assert found[name].state == "skipped"
        assert "This Redis user may not check this" in found[name].sentence
    assert durable.dbsize() == before
    allow(durable, "~* +@all -exec")
    expect(
        host, "rights", Fault.REDIS_RIGHTS, "may not run EXEC,", r"mine \+exec ", REDIS_URL=url_of(durable, "mine:pw@")
    )


def test_without_transactions_the_rights_are_still_tried_without_harm(host: World, durable: Redis) -> None:
    before = {key: durable.dump(key) for key in durable.scan_iter()}
    for missing in ("multi", "exec"):
        allow(durable, f"~* +@all -{missing}")
        host.url = url_of(durable, "mine:pw@")
        found = looks(host, "rights")
        assert (found.state, found.code) == ("problem", Fault.REDIS_RIGHTS)
        assert missing.upper() in found.sentence
    assert {key: durable.dump(key) for key in durable.scan_iter()} == before


def test_the_rights_asked_for_are_those_the_dispatcher_needs(host: World, durable: Redis) -> None:
    """A user who has exactly these answers a message, also after a dispatcher died."""
    commands = {name for used in USES.values() for name in used.split()} | {
        line.split()[0] for line in KEYLESS if "SCRIPT" not in line
    }
    grants = [f"+{name.lower()}" for name in sorted(commands | {"MULTI", "EXEC"})] + ["+script|load"]
    keys = [f"~{key.replace('doctor', '*')}" for key in USES]
    allow(durable, " ".join([*keys, *grants]))
    durable.sadd("hcli:mem:workers", "dead-worker")
    durable.hset(
        "hcli:mem:inflight:dead-worker",
        "dead-worker:1",
        '{"task_id":"lost","message":"hello","chat_id":"7","user_id":1}',
    )
    host.url = url_of(durable, "mine:pw@")
    host.environment["CLAUDE_BIN"] = str(STAND_IN)
    durable.script_flush()
    durable.acl_log_reset()
    running = host.start_dispatcher()
    try:
        assert host.command("hmem", "ask", "9912", "What is the boiler code?", REDIS_URL=url_of(durable)).stdout
        wait_for(lambda: durable.exists("hcli:results:lost"), "the dead dispatcher's task")
    finally:
        assert running.stop() == 0, running.log.read_text()
    denied = {(entry["context"], entry["object"]) for entry in durable.acl_log()}
    assert not denied


def test_the_clock_of_another_day(host: World) -> None:
    ahead = looks(host, "clock", now=lambda: time.time() + 120)
    assert (ahead.state, ahead.code) == ("problem", Fault.CLOCK)
    assert re.search("clock of this host is 1[12][0-9] s ahead of Redis.*wrong", ahead.sentence)
    assert "set-ntp" in ahead.fix
    assert "behind" in looks(host, "clock", now=lambda: time.time() - 61).sentence
    assert looks(host, "clock", now=lambda: time.time() - 50).state == "ok"


# --------------------------------------------------------------------------------------------------------------- Claude


def script(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_no_claude(host: World) -> None:
    found = expect(
        host, "claude", 12, "'nowhere-claude' is not installed", "with-claude|CLAUDE_BIN", CLAUDE_BIN="nowhere-claude"
    )
    assert found["login"].state == "skipped"


def test_a_claude_that_does_not_start(host: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = script(tmp_path / "broken", "echo 'node: not found' >&2; exit 127")
    expect(host, "claude", 12, "does not print a version.*node: not found", "Install it again", CLAUDE_BIN=broken)
    host.environment["CLAUDE_BIN"] = script(tmp_path / "slow", "sleep 60 & wait")
    monkeypatch.setattr(claude, "ANSWER_SECONDS", 0.2)
    slow = looks(host, "claude")
    assert slow.code == 12
    assert "did not end within 0.2 s" in slow.sentence


def test_a_claude_that_is_too_old(host: World, tmp_path: Path) -> None:
    old = script(
        tmp_path / "old", f'echo \'2.1.99 (Claude Code)\'; [ "$1" = --version ] || exec {BINARIES}/claude "$@"'
    )
    expect(
        host, "claude", Fault.CLAUDE_TOO_OLD, f"2.1.99 is too old: {OLDEST_CLAUDE} is the oldest .* tested, {TESTED_CLAUDE}",
        "Install a newer one", CLAUDE_BIN=old,
    )  # fmt: skip


def test_the_tested_claude_is_the_one_that_is_installed() -> None:
    assert f"claude_version={TESTED_CLAUDE}\n" in (REPOSITORY / "scripts" / "setup").read_text()


def test_a_claude_that_nobody_logged_in_and_that_calls_nobody(host: World, tmp_path: Path) -> None:
    """The real CLI with an empty HOME. At its start it would open connections to the API, or to a proxy, unasked."""
    home = tmp_path / "home"
    home.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = f"http://127.0.0.1:{listener.getsockname()[1]}"
        addresses = {"ANTHROPIC_BASE_URL": there, "HTTPS_PROXY": there, "HTTP_PROXY": there, "NO_PROXY": "127.0.0.1"}
        expect(
            host, "login", Fault.CLAUDE_LOGIN, f"not logged in .*HOME is {home}, so it cannot answer", "log in",
            ANTHROPIC_API_KEY="", HOME=str(home), **addresses,
        )  # fmt: skip
        assert ask(host, HOME=str(home), **addresses)[1]["login"].state == "ok", "a key in the environment counts"
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


# ------------------------------------------------------------------------------------------------------------- embedder


class OtherModel(OllamaApi):
    """Somebody gave the name to other weights of the same size."""

    def embed(self, texts: list[str], fault: str) -> dict[str, Any]:
        answer = super().embed(texts, fault)
        return answer | {"embeddings": [row[::-1] for row in answer["embeddings"]]}


def test_ollama_faults(host: World) -> None:
    host.environment |= {"EMBEDDER": "ollama", "OLLAMA_URL": f"http://127.0.0.1:{free_port()}"}
    found = expect(host, "embedder", 13, "Ollama at http.* does not answer", "Start it")
    assert found["vectors"].state == "skipped"
    with OllamaApi() as api:
        host.environment["OLLAMA_URL"] = api.url
        api.models.clear()
        missing = looks(host, "embedder")
        assert (missing.code, "has no model all-minilm" in missing.sentence) == (13, True)
        assert "ollama pull all-minilm" in missing.fix
        api.models["all-minilm:latest"] = DIGEST
        api.faults = ["narrow"] * 50
        expect(host, "embedder", 13, "100.*not 384", "EMBED_MODEL")
        api.faults = []
        assert looks(host, "embedder").state == "ok"
    with OtherModel() as api:
        host.environment["OLLAMA_URL"] = api.url
        expect(host, "embedder", 13, "differently from all-MiniLM-L6-v2.*cosine", "ollama pull")


def test_an_embedder_that_differs_from_the_release(host: World) -> None:
    with OllamaApi() as api:
        host.environment |= {"EMBEDDER": "ollama", "NIGHT_INDEXES": "sqlite", "OLLAMA_URL": api.url}
        host.night()
        assert looks(host, "vectors").state == "ok"
        api.models["all-minilm:latest"] = "0" * 64  # pulled again, another version
        expect(
            host, "vectors", Fault.EMBEDDER_DIFFERS, "differs from .* release .* by words only: another version of the model",
            "all-MiniLM-L6-v2.*or run hmem-night backfill archive --reembed",
        )  # fmt: skip
    assert looks_with(host, "vectors", EMBEDDER="local").state == "ok", "the same weights elsewhere"
    assert looks_with(host, "vectors", EMBEDDER="none").state == "warning"


def looks_with(host: World, name: str, **more: str) -> Finding:
    host.environment |= more
    return looks(host, name)


def test_a_local_embedder_under_another_name(host: World) -> None:
    expect(host, "embedder", 10, "EMBEDDER=local embeds with all-minilm only", "EMBEDDER=ollama", EMBEDDER="local", EMBED_MODEL="bge-m3")  # fmt: skip


# ------------------------------------------------------------------------------------- release, night, directories, disk


def test_no_memory_directory(host: World) -> None:
    missing = host.root / "elsewhere"
    found = expect(
        host,
        "release",
        Fault.MEMORY_MISSING,
        f"{missing} is missing, so nothing",
        "mount it",
        HMEM_MEMORY_DIR=str(missing),
    )
    assert found["vectors"].state == "skipped"
    missing.mkdir()
    empty = looks_with(host, "release", HMEM_MEMORY_DIR=str(missing))
    assert empty.state == "warning"
    assert "hmem-night run" in empty.fix


def test_a_dangling_current(host: World) -> None:
    release = (host.memory_dir / "current").resolve()
    shutil.move(release, host.root / "away")
    expect(
        host,
        "release",
        16,
        f"current points to releases/{release.name}, which is not there",
        "rollback RUN points it at a release",
    )


def test_a_manifest_that_is_newer_or_broken(host: World) -> None:
    manifest = (host.memory_dir / "current").resolve() / "manifest.json"
    content = orjson.loads(manifest.read_bytes())
    manifest.write_bytes(orjson.dumps(content | {"format_version": 99}))
    expect(host, "release", 16, "has format 99, this program knows", "Update hcli-memory")
    manifest.write_text("{")
    found = looks(host, "release")
    assert found.code == 16
    assert "manifest" in found.sentence


def test_no_night_for_two_days(host: World, durable: Redis) -> None:
    last = json.loads(durable.get("hcli:mem:night:last") or b"")
    durable.set("hcli:mem:night:last", json.dumps(last | {"finished_at": time.time() - 40 * 3600}))
    expect(
        host,
        "night",
        21,
        "last good night is 40 hours old.*newer turns are recalled from the day store only",
        "hmem-night status",
    )
    durable.delete("hcli:mem:night:last")
    assert looks(host, "night").state == "warning"
    host.say("t2", "waiting", timestamp=time.time() - 50 * 3600)
    found = looks(host, "night")
    assert found.code == 21
    assert "No night has ever run, and turns have been waiting for 50 hours" in found.sentence


def test_a_night_that_failed_since_the_last_good_one(host: World, durable: Redis) -> None:
    record = {"run": 2, "step": "embed", "error": "EmbeddingError", "sentence": "Ollama is away.", "exit_code": 13}
    durable.set("hcli:mem:night:failed", json.dumps(record | {"at": time.time() + 60}))
    found = looks(host, "night")
    assert (found.state, found.code) == ("problem", Fault.NIGHT_FAILED)
    assert "Since then night 2 stopped at embed, 0.0 hours ago: Ollama is away." in found.sentence
    last = json.loads(durable.get("hcli:mem:night:last") or b"")
    durable.set("hcli:mem:night:last", json.dumps(last | {"finished_at": time.time() - 40 * 3600}))
    expect(host, "night", 21, "40 hours old.*night 2 stopped at embed", "hmem-night status")
    durable.delete("hcli:mem:night:last")
    assert "No night has succeeded yet. The last attempt: night 2" in looks(host, "night").sentence
    durable.set("hcli:mem:night:failed", json.dumps(record | {"at": 1.0}))
    durable.set("hcli:mem:night:last", json.dumps(last))
    assert looks(host, "night").state == "ok"


def test_a_pinned_release(host: World) -> None:
    assert looks(host, "pin").state == "ok"
    write_pin(host.memory_dir, 1)
    found = looks(host, "pin")
    assert (found.state, found.code) == ("warning", 0)
    assert "Release 1 is pinned since 20" in found.sentence
    assert "hmem release unpin" in found.fix
    late = looks(host, "pin", now=lambda: time.time() + 40 * 3600)
    assert (late.state, late.code) == ("problem", 21)
    assert late.sentence.startswith("Release 1 has been pinned for 40 hours")
    (host.memory_dir / "pinned").write_text("{")
    expect(host, "pin", 16, "pin .* is damaged", "hmem release (unpin|rollback)")


def test_a_user_who_may_not_see_the_nights_would_not_notice_a_missed_one(host: World, durable: Redis) -> None:
    allow(durable, "~hcli:mem:[^n]* ~hcli:[^m]* ~hcli:memory:* +@all")
    expect(
        host, "rights", Fault.REDIS_RIGHTS, "may not reach hcli:mem:night:last, hcli:mem:night:failed, so a missed night would not be noticed",
        "ACL SETUSER", REDIS_URL=url_of(durable, "mine:pw@"),
    )  # fmt: skip


def denied(host: World, name: str, **more: str) -> tuple[int, Finding]:
    """What `hmem doctor` finds where permissions count: as root they do not, unless root gives up the right to override them."""
    override = "-dac_override,-dac_read_search"
    prefix = ["setpriv", f"--bounding-set={override}", f"--inh-caps={override}"] if AS_ROOT else []
    command = [*prefix, str(BINARIES / "hmem"), "doctor", "--json"]
    with sign_of_life(host.redis):
        done = subprocess.run(
            command, env=host.variables(**more), capture_output=True, text=True, timeout=600, check=False
        )
    assert done.stdout, done.stderr
    found = next(f for f in json.loads(done.stdout)["findings"] if f["name"] == name)
    return done.returncode, Finding(**found)


@contextmanager
def mode(path: Path, bits: int) -> Iterator[Path]:
    before = path.stat().st_mode & 0o777
    path.chmod(bits)
    yield path
    path.chmod(before)


def test_a_directory_that_leads_elsewhere_or_that_others_may_write_to(host: World) -> None:
    assert looks(host, "directories").state == "ok"
    link = host.night_dir / "imports"
    link.symlink_to(host.root)
    expect(host, "directories", 15, f"{link} is a link to {host.root}", f"rm {link}")
    link.unlink()
    with mode(host.memory_dir, 0o770):
        expect(host, "directories", 15, f"{host.memory_dir} may be written by others", f"chmod go-w {host.memory_dir}")


@pytest.mark.parametrize("place", ["", "releases", "releases/1/lexical", "releases/1/lexical/1.sqlite"])
def test_memory_that_may_not_be_read(host: World, place: str) -> None:
    with mode(host.memory_dir / place, 0) as locked:
        code, found = denied(host, "release")
    assert (code, found.code) == (Fault.MEMORY_UNREADABLE, Fault.MEMORY_UNREADABLE), found
    assert f"{locked} may not be read by this user (uid {os.geteuid()}), so nothing can be recalled" in found.sentence
    assert "same user" in found.fix


def test_a_state_directory_that_may_not_be_written(host: World) -> None:
    state = host.root / "state"
    (state / "views").mkdir()
    with mode(state, 0o500):
        code, found = denied(host, "state")
        assert (code, found.code) == (Fault.STATE_DIRECTORY, Fault.STATE_DIRECTORY)
        assert re.search(f"{state} cannot be written by .*Permission denied.*so answers fail", found.sentence)
        assert "install -d" in found.fix
        below = denied(host, "state", HMEM_STATE_DIR=str(state / "below"))[1]
        assert "does not exist, and this user cannot create it" in below.sentence
    with mode(state / "views", 0o500):
        assert f"{state / 'views'} cannot be written" in denied(host, "state")[1].sentence


def test_directories_behind_a_locked_one(host: World) -> None:
    behind = host.root / "behind"
    behind.mkdir()
    more = {"HMEM_STATE_DIR": str(behind / "state"), "HMEM_MEMORY_DIR": str(behind / "memory"), "CLAUDE_BIN": "nowhere"}
    with mode(behind, 0):
        assert denied(host, "state", **more)[1].code == Fault.STATE_DIRECTORY
        assert denied(host, "release", **more)[1].code == Fault.MEMORY_UNREADABLE


@pytest.mark.skipif(not AS_ROOT, reason="only root can give a directory to somebody else")
def test_root_is_told_to_ask_as_the_owner(host: World) -> None:
    os.chown(host.root / "state", NOBODY, NOBODY)
    found = looks(host, "state")
    assert found.state == "warning"
    assert found.fix.startswith("Run it as that user: sudo -u ")


def test_how_full_a_disk_may_be(host: World) -> None:
    cases = [
        (1 << 29, 100 << 30, "problem", Fault.DISK_NEARLY_FULL),
        (4 << 30, 100 << 30, "warning", 0),  # under 5 %, but room for days
        (1 << 29, 2 << 30, "ok", 0),  # small, and a quarter of it is free
        (12 << 30, 100 << 30, "warning", 0),
        (20 << 30, 100 << 30, "ok", 0),
    ]
    for free, total, state, code in cases:
        fullest = SimpleNamespace(free=free, total=total)

        def usage(path: Path, fullest: Any = fullest) -> Any:
            return fullest if path == host.night_dir else SimpleNamespace(free=90, total=100)

        found = looks(host, "disk", disk_usage=usage)
        assert (found.state, found.code) == (state, code)
        if state != "ok":
            assert str(host.night_dir) in found.sentence, "the fullest is named"
            assert "Free some space" in found.fix


@pytest.mark.skipif(not AS_ROOT, reason="only root can mount a file system")
def test_a_disk_that_is_nearly_full(host: World) -> None:
    place = host.root / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "none", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        (place / "filler").write_bytes(b"x" * (3900 << 10))
        expect(
            host, "disk", Fault.DISK_NEARLY_FULL, rf"Only 0.0 GiB \(\d%\) are left on the disk of {place}: .* may fail", "Free some space",
            HMEM_STATE_DIR=str(place),
        )  # fmt: skip
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_release_that_is_not_as_it_was_built(host: World) -> None:
    (host.memory_dir / "current" / "lexical" / "1.sqlite").write_bytes(b"damaged")
    expect(host, "release", 16, "lexical/1.sqlite was changed after it was built", "hmem release rollback")
    (host.memory_dir / "current").unlink()
    expect(host, "release", 16, "current is missing though there are releases", "hmem release rollback RUN")


def test_a_release_that_can_be_asked_by_words_alone(host: World) -> None:
    assert ask(host)[1]["vectors"].state == "ok", "EMBEDDER=none: it is meant so"
    found = ask(host, EMBEDDER="local")[1]["vectors"]
    assert (found.state, "built without a vector index" in found.sentence) == ("warning", True)
    assert ask(host, EMBEDDER="local", MEMORY_BACKEND="none")[1]["vectors"].state == "ok"


def test_an_index_that_cannot_be_searched(world: World) -> None:
    """The doctor opens it as a lookup does, and leaves no view of it behind."""
    world.say("t1", "the boiler code is 4711")
    with settings_for(["qdrant"], world.root) as settings:
        world.environment |= {"QDRANT_URL": str(settings.qdrant_url), "INDEX_NAME": settings.index_name}
        world.night(night_indexes="qdrant,lancedb", qdrant_url=settings.qdrant_url, index_name=settings.index_name)
        assert "its lancedb index answers" in ask(world)[1]["vectors"].sentence
        assert "its qdrant index answers" in ask(world, MEMORY_BACKEND="qdrant")[1]["vectors"].sentence
    found = ask(world, MEMORY_BACKEND="qdrant")[1]["vectors"]
    assert (found.state, found.code) == ("problem", IndexServerAway.exit_code)
    assert "The qdrant index of release 1 cannot be searched: the qdrant server does not answer" in found.sentence
    assert not list((world.root / "state" / "views").glob("*"))


def test_a_store_of_the_day_that_does_not_answer(host: World) -> None:
    assert "yet" in ask(host)[1]["store"].sentence
    host.command("hmem", "memory", "add", "9912", "the cat is called Minka")
    assert "1 facts, goals and preferences" in ask(host)[1]["store"].sentence
    expect(
        host,
        "store",
        27,
        "does not answer",
        "the next call tries again",
        MEDIUM_URL="postgresql://u:secret@127.0.0.1:1/x",
    )
    assert ask(host, MEDIUM_URL="none")[1]["store"].state == "ok"
    assert host.status(check=False, MEDIUM_URL="foo://bar").returncode == 10
    (host.root / "state" / "forgotten.jsonl").write_text('{"half')
    expect(host, "store", 15, "no tombstone", "nothing is recalled until then")
