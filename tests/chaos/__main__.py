"""scripts/chaos: run the checks, and end with one line of JSON on standard output. Exit 1 if anything was lost, doubled or torn."""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.harness.report import Check, Outcome, load_all, run_check

#: Enough to try each check in a minute or two; `--rounds 200` is a proof.
ROUNDS = 10
COUNTED = ("rounds", "faults", "lost", "doubled", "torn")


def arguments(checks: dict[str, Check]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"of each check (default {ROUNDS})")
    parser.add_argument("--only", default="", metavar="NAME[,NAME]", help=f"of these: {', '.join(checks)}")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="of all draws (default: random)")
    parser.add_argument("--list", action="store_true", help="name the checks and end")
    parser.add_argument("--json", action="store_true", help="nothing but the one line of JSON")
    parser.add_argument("--keep", action="store_true", help="keep the directories of the installations")
    given = parser.parse_args()
    given.only = [name for name in given.only.split(",") if name]
    if unknown := sorted(set(given.only) - set(checks)):
        parser.error(f"no such check: {', '.join(unknown)}. There are {', '.join(checks)}.")
    return given


def say(text: str, given: argparse.Namespace) -> None:
    if not given.json:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def carry_out(check: Check, root: Path, given: argparse.Namespace) -> dict[str, Any]:
    """One check's part of the JSON; an error in it is reported there, and the next one still runs."""
    say(f"{check.name}: {check.description}", given)
    started = time.perf_counter()
    error = None
    try:
        found = run_check(check, root, given.rounds, given.seed, quiet=given.json)
    except (Exception, pytest.fail.Exception) as raised:  # noqa: BLE001 - whatever it is, it is shown and ends with exit 1
        found, error = Outcome(), f"{type(raised).__name__}: {raised}"
        say(traceback.format_exc(), given)
    seconds = round(time.perf_counter() - started, 1)
    for note in found.notes[:20]:
        say(f"  {note}", given)
    counts = ", ".join(f"{name} {getattr(found, name)}" for name in COUNTED)
    say(f"  {'FAILED' if error or not found.clean else 'held'}: {counts}, {seconds} s", given)
    return found.to_json() | {"seconds": seconds} | ({"error": error} if error else {})


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers end with us
    checks = load_all()
    given = arguments(checks)
    if given.list:
        for check in checks.values():
            sys.stdout.write(f"{check.name:12} {check.description}\n")
        return 0
    root = Path(tempfile.mkdtemp(prefix="hmem-chaos-"))
    say(f"seed {given.seed}, {given.rounds} rounds, in {root}", given)
    started = time.perf_counter()
    parts = {name: carry_out(checks[name], root, given) for name in given.only or checks}
    total: dict[str, Any] = {name: sum(part[name] for part in parts.values()) for name in COUNTED}
    total |= {"seconds": round(time.perf_counter() - started, 1), "seed": given.seed, "checks": parts}
    if not given.keep:
        shutil.rmtree(root, ignore_errors=True)
    sys.stdout.write(json.dumps(total, ensure_ascii=False) + "\n")
    failed = any(total[name] for name in ("lost", "doubled", "torn")) or any("error" in part for part in parts.values())
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
