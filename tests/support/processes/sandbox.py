"""Run a command under the kernel filters of one of our units, as systemd would set them: system calls, address families, W+X memory.

    python -m tests.support.processes.sandbox systemd/hmem-night.service COMMAND …

systemd itself is not needed: its lists come from `systemd-analyze syscall-filter`, the filter is loaded with libseccomp. What is not
allowed fails with EPERM, as SystemCallErrorNumber= says. Not repeated here: mounts, users and capabilities.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from pathlib import Path

SYSTEMD = Path(__file__).resolve().parents[3] / "systemd"
#: Where the units expect the program.
HOME = "/opt/hcli-memory"

ALLOW, EPERM_ELSE, EQUAL, MASKED_EQUAL = 0x7FFF0000, 0x00050001, 4, 7
WRITE, EXECUTE = 2, 4


class _Compare(ctypes.Structure):
    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


def settings_of(unit: Path) -> dict[str, list[str]]:
    """Name -> its values, in the order of the file."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text(encoding="utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith(("#", ";")):
            found.setdefault(name.strip(), []).append(value.strip())
    return found


def _expand(names: list[str]) -> set[str]:
    calls: set[str] = set()
    for name in names:
        if name.startswith("@"):
            command = ["systemd-analyze", "syscall-filter", name]
            shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            lines = [line.strip() for line in shown.splitlines()[1:]]
            calls |= _expand([line for line in lines if line and not line.startswith("#")])
        else:
            calls.add(name)
    return calls


def allowed_calls(unit: dict[str, list[str]]) -> set[str]:
    allowed = _expand(["@default"])
    for value in unit["SystemCallFilter"]:
        if value.startswith("~"):
            allowed -= _expand(value[1:].split()) - _expand(["@default"])
        else:
            allowed |= _expand(value.split())
    return allowed


def _rules(unit: dict[str, list[str]]) -> list[tuple[str, _Compare | None]]:
    families = (int(getattr(socket, family)) for family in unit["RestrictAddressFamilies"][0].split())
    special: dict[str, list[_Compare | None]] = {"socket": [_Compare(0, EQUAL, number, 0) for number in families]}
    if unit.get("MemoryDenyWriteExecute") == ["yes"]:
        special["mprotect"] = special["pkey_mprotect"] = [_Compare(2, MASKED_EQUAL, EXECUTE, 0)]
        special["mmap"] = [
            _Compare(2, MASKED_EQUAL, EXECUTE, 0), _Compare(2, MASKED_EQUAL, WRITE | EXECUTE, EXECUTE)
        ]  # fmt: skip
    return [(call, rule) for call in sorted(allowed_calls(unit)) for rule in special.get(call, [None])]


def confine(unit: Path) -> None:
    """From here on this process and its children are under the unit's filters."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(EPERM_ELSE)))
    for call, compare in _rules(settings_of(unit)):
        number = library.seccomp_syscall_resolve_name(call.encode())
        if number < 0:  # of another architecture
            continue
        array = (_Compare * 1)(*([compare] if compare else []))
        code = library.seccomp_rule_add_array(context, ctypes.c_uint32(ALLOW), number, 1 if compare else 0, array)
        if code != 0:
            raise OSError(-code, f"seccomp_rule_add_array({call})")
    if (code := library.seccomp_load(context)) != 0:
        raise OSError(-code, "seccomp_load")


if __name__ == "__main__":
    confine(Path(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
