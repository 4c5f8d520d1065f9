"""What the kernel says of the processes of a service: whose they are, what they may do, and how much they may take."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from tests.engines.machine import Machine

NO_CAPABILITY = "0" * 16
#: Lines of /proc/PID/status, and what each says of a confined process.
CONFINED = {**dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), NO_CAPABILITY), "NoNewPrivs": "1"}
#: Limit of a unit → the controller, and its file in cgroups of version 1 and 2.
LIMITS = {"MemoryMax": ("memory", "memory.limit_in_bytes", "memory.max"), "TasksMax": ("pids", "pids.max", "pids.max")}


def faults_of(machine: Machine, unit: str, account: str) -> list[str]:
    """What of a unit's confinement does not hold for one of its processes."""
    main = machine.process(unit)
    pids = (cgroup(main, "name=systemd") / "cgroup.procs").read_text().split()
    assert pids, f"{unit} has no processes"
    wanted = CONFINED | {"Uid": "\t".join([machine.run("id", "--user", account).strip()] * 4)}
    filters = int(status_of(machine.inside("/proc/1"))["Seccomp_filters"])  # systemd-nspawn's, over all that runs in it
    known, found = secrets(machine), list[str]()
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):  # the Claude CLI has children that live for a moment
            process = Path("/proc", pid)
            status, environment = status_of(process), (process / "environ").read_text()
            faults = [f"{name} is {status[name]}" for name, value in wanted.items() if status[name] != value]
            faults += ["its own filter refuses no system call"] if int(status["Seccomp_filters"]) <= filters else []
            faults += ["a secret is in its environment"] if any(one in environment for one in known) else []
            found += [f"{unit}: {status['Name']}: {fault}" for fault in faults]
    return found


def status_of(process: Path) -> dict[str, str]:
    lines = (line.partition(":") for line in (process / "status").read_text().splitlines())
    return {name: value.strip() for name, _, value in lines}


def limits_of(machine: Machine, unit: str) -> dict[str, tuple[str, str]]:
    """Limit → what the unit says, and what holds."""
    main, found = machine.process(unit), {}
    for name, (controller, old, new) in LIMITS.items():
        folder = cgroup(main, controller)
        file = folder / old if (folder / old).exists() else folder / new
        found[name] = (machine.shown(unit, name), file.read_text().strip())
    return found


def cgroup(process: Path, controller: str) -> Path:
    """The directory of a process among the cgroups of that controller."""
    lines = [line.split(":", 2) for line in (process / "cgroup").read_text().splitlines()]
    for _, controllers, path in lines:
        if controller in controllers.split(","):
            return Path("/sys/fs/cgroup", controller.removeprefix("name="), path[1:])
    return next(Path("/sys/fs/cgroup", path[1:]) for number, _, path in lines if number == "0")


def secrets(machine: Machine) -> set[str]:
    """Every key, token and password of the installation."""
    found = set()
    for file in machine.inside("/etc/hmem/secrets").glob("*.toml"):
        for name, value in tomllib.loads(file.read_text()).items():
            found |= {value} if name.endswith(("_KEY", "_TOKEN")) else {urlsplit(str(value)).password or ""}
    return found - {""}
