"""One installation by `hmem init` for its life under a real systemd: it is confined, answers, runs a night, is killed, boots again, is taken out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engines import roots
from tests.engines.confinement import faults_of, limits_of, secrets
from tests.engines.machine import PROGRAMS, UNITS, Machine, installed_root
from tests.engines.standins import CHAT, FACT, HEARD, QUESTION, REMEMBERED, StandIns
from tests.support.machine import wait_for

pytestmark = [pytest.mark.engines, pytest.mark.timeout(3600)]

REDIS, DISPATCHER, BOT, NIGHT = UNITS
TIMER, WEB, PAGE = "hmem-night.timer", "hmem-web.service", "127.0.0.1:8765"
ACCOUNTS = {REDIS: "hmem-redis", DISPATCHER: "hmem", BOT: "hmem-bot", NIGHT: "hmem-night"}
#: Where programs leave files; and what is apt's, a log, or of the checkout.
PLACES = ("/data", "/etc", "/opt", "/usr/local", "/var")
OTHERS = ("/opt/hcli-memory", "/var/cache", "/var/lib/apt", "/var/lib/dpkg", "/var/log", "/var/tmp")


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """A Debian in which scripts/setup has run."""
    if fault := roots.fault_of_host(*PROGRAMS):
        pytest.skip(fault)
    with roots.alone(), Machine(installed_root()) as made:
        made.set_up()
        yield made


@pytest.fixture(scope="module")
def people(machine: Machine) -> Iterator[StandIns]:
    with StandIns(machine.network) as made:
        yield made


@pytest.fixture(scope="module")
def before(machine: Machine) -> set[str]:
    """The files, accounts and units before `hmem init`."""
    return traces(machine)


@pytest.fixture(scope="module")
def installed(machine: Machine, people: StandIns, before: set[str]) -> str:
    """What `hmem init --yes` says."""
    return machine.hmem("init", "--yes", WEB_SERVICE=PAGE, **people.environment)


def test_init_installs_and_starts_everything(machine: Machine, installed: str) -> None:
    assert "Ready" in installed
    units = [REDIS, DISPATCHER, BOT, TIMER, WEB]
    assert [(unit, machine.shown(unit, "ActiveState")) for unit in units] == [(unit, "active") for unit in units]
    assert [machine.shown(unit, "UnitFileState") for unit in units] == ["enabled"] * 5


def test_the_page_answers_and_comes_back_when_it_is_killed(machine: Machine, installed: str) -> None:
    assert f"http://{PAGE}" in installed
    first = machine.shown(WEB, "MainPID")
    machine.run("systemctl", "kill", "--signal=KILL", "--kill-whom=main", WEB)
    wait_for(lambda: machine.shown(WEB, "MainPID") not in (first, "0"), "the page to be started again", 60)
    fetch = f"curl --silent --fail --retry 30 --retry-delay 1 --retry-connrefused http://{PAGE}/static/icon.svg"
    assert "<svg" in machine.run("sh", "-c", fetch)


def test_only_one_redis_runs(machine: Machine, installed: str) -> None:
    assert machine.run("pgrep", "--exact", "redis-server").split() == [machine.shown(REDIS, "MainPID")]


@pytest.mark.parametrize("unit", [REDIS, DISPATCHER, BOT])
def test_a_service_is_confined(machine: Machine, installed: str, unit: str) -> None:
    assert faults_of(machine, unit, ACCOUNTS[unit]) == []
    assert_limits_hold(machine, unit)


def test_secrets_are_known_to_this_test(machine: Machine, people: StandIns, installed: str) -> None:
    """Or the search for them in environments would prove nothing."""
    assert len(secrets(machine)) >= 5 and people.environment["TELEGRAM_BOT_TOKEN"] in secrets(machine)


def test_a_message_is_answered(people: StandIns, installed: str) -> None:
    people.ask("Good morning.")
    people.ask(FACT)


def test_a_new_conversation_begins(people: StandIns, installed: str) -> None:
    people.ask("/new", "new conversation")
    people.ask("This is the second conversation.")
    assert len(conversation(people)) == 1
    people.ask("This goes on.")
    assert len(conversation(people)) == 2


def test_a_night_comes_by_its_timer_and_is_remembered(machine: Machine, people: StandIns, installed: str) -> None:
    before = machine.status()
    assert before["turns_waiting"] > 0
    with soon(machine, TIMER):
        wait_for(lambda: runs_its_program(machine, NIGHT), "the timer to start a night", 120)
        assert faults_of(machine, NIGHT, ACCOUNTS[NIGHT]) == []
        assert_limits_hold(machine, NIGHT)
        wait_for(lambda: machine.shown(NIGHT, "ActiveState") == "inactive", "the night to end", 300)
    assert machine.shown(NIGHT, "Result") == "success"
    after = machine.status()
    assert after["release"] != before["release"]
    assert after["turns_waiting"] == 0
    assert REMEMBERED in people.ask(QUESTION, "From memory: ")


@pytest.mark.parametrize("unit", [REDIS, DISPATCHER, BOT])
def test_a_killed_service_comes_back_and_loses_no_turn(
    machine: Machine, people: StandIns, installed: str, unit: str
) -> None:
    people.ask(f"Before {unit} is killed.")
    waiting, process = machine.status()["turns_waiting"], machine.shown(unit, "MainPID")
    machine.run("systemctl", "kill", "--signal=KILL", "--kill-whom=main", unit)
    people.ask(f"After {unit} was killed.")
    assert machine.shown(unit, "MainPID") != process
    assert machine.status()["turns_waiting"] == waiting + 2


def test_an_answer_that_is_being_given_survives_a_stop(machine: Machine, people: StandIns, installed: str) -> None:
    asked = people.say("Please answer slowly.")
    wait_for(lambda: conversation(people)[-1].endswith("slowly."), "Claude to be asked")
    assert faults_of(machine, DISPATCHER, ACCOUNTS[DISPATCHER]) == []  # of the Claude CLI, too
    machine.run("systemctl", "stop", DISPATCHER)
    machine.run("systemctl", "start", DISPATCHER)
    people.answer(asked, HEARD)
    assert sum(HEARD in one.text for one in people.telegram.messages(CHAT) if one.id > asked) == 1


def test_a_reboot_loses_no_turn(machine: Machine, people: StandIns, installed: str) -> None:
    people.ask("Before the reboot.")
    before = machine.status()
    machine.power_off()
    machine.boot()
    wait_for(lambda: machine.status().get("bot") and machine.status()["workers"], "bot and dispatcher", 120)
    after = machine.status()
    assert [after[name] for name in ("turns_waiting", "release", "queued", "in_flight", "dead_letters")] == [
        before[name] for name in ("turns_waiting", "release", "queued", "in_flight", "dead_letters")
    ]
    assert before["turns_waiting"] > 0
    people.ask("/new", "new conversation")
    assert REMEMBERED in people.ask(QUESTION, "From memory: ")


def test_the_doctor_finds_nothing(machine: Machine, installed: str) -> None:
    assert "✓ isolation" in machine.hmem("doctor", "--all")


def test_undo_leaves_only_what_it_names(machine: Machine, installed: str, before: set[str]) -> None:
    stamp = "/var/lib/systemd/timers/stamp-hmem-night.timer"
    assert stamp in traces(machine)
    said = machine.hmem("init", "--undo", "--yes")
    named = set(re.split(r"[\s,:;]+|\. ", said))
    left = {one for one in traces(machine) - before if not named & {one, *map(str, Path(one).parents)}}
    assert not left, said


def assert_limits_hold(machine: Machine, unit: str) -> None:
    for name, (wanted, holds) in limits_of(machine, unit).items():
        assert wanted == holds, f"{unit}: {name} is {wanted} for systemd, and {holds} for the kernel"
        assert wanted.isdecimal(), f"{unit} has no {name}"


def runs_its_program(machine: Machine, unit: str) -> bool:
    """Whether its main process is no longer systemd's, which is not confined yet."""
    try:
        return b"hmem" in (machine.process(unit) / "cmdline").read_bytes()
    except OSError:
        return False


@contextmanager
def soon(machine: Machine, timer: str) -> Iterator[None]:
    """The timer elapses in a second, as it else does at its time of day."""
    folder = f"/run/systemd/system/{timer}.d"
    lines = "[Timer]\\nOnActiveSec=1\\nRandomizedDelaySec=0\\nAccuracySec=1ms\\n"
    again = f"systemctl daemon-reload && systemctl restart {timer}"
    machine.run("sh", "-c", f"mkdir {folder} && printf '{lines}' >{folder}/soon.conf && {again}")
    try:
        yield
    finally:
        machine.run("sh", "-c", f"rm -r {folder} && {again}")


def conversation(people: StandIns) -> list[str]:
    """What the user said, in the newest request to the provider."""
    found = []
    for message in people.provider.requests[-1]["messages"]:
        if message["role"] == "user":
            content = message["content"]
            found.append(content if isinstance(content, str) else "\n".join(one.get("text", "") for one in content))
    return found


def traces(machine: Machine) -> set[str]:
    """The paths, accounts, units and users of processes that there are."""
    but = [word for place in OTHERS for word in ("-path", place, "-prune", "-o")]
    paths = machine.run("sh", "-c", 'mkdir -p /data && exec "$@"', "sh", "find", *PLACES, *but, "-print")
    accounts = machine.run("cut", "-d:", "-f1", "/etc/passwd", "/etc/group")
    units = machine.run("systemctl", "list-units", "--all", "--plain", "--no-legend", "--state=loaded,failed", "hmem*")
    processes = machine.run("ps", "-eo", "user:32=")
    return {*paths.split("\n"), *accounts.split(), *re.findall(r"^hmem\S+", units, re.MULTILINE), *processes.split()}
