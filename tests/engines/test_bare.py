"""The README's two commands on a Debian with nothing but python3 and git, as a plain user who may use sudo."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import roots
from tests.engines.machine import ENVIRONMENT
from tests.support.world import REPOSITORY

pytestmark = [pytest.mark.engines, pytest.mark.timeout(3600)]

PROGRAMS = ("debootstrap", "systemd-nspawn", "unshare", "git")
PACKAGES = ("python3", "git", "sudo")
#: Some of everything: documents, commands, the CLI behind Landlock, a browser.
TESTS = "tests/docs tests/dispatcher/cli tests/dispatcher/claude dispatcher/features/web/tests/browser/test_actions.py"


class Bare:
    """A copy of the kept root that lasts as long as these tests."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def run(self, command: str) -> str:
        """What a shell of somebody says in the checkout, in the network of this host."""
        variables = ENVIRONMENT | {"HOME": "/home/somebody"}
        calls = "landlock_create_ruleset landlock_add_rule landlock_restrict_self"  # which nspawn forbids unless told
        nspawn = "systemd-nspawn --quiet --register=no --keep-unit --as-pid2 --resolv-conf=off --timezone=off".split()
        nspawn += ["--console=pipe", *(f"--setenv={name}={value}" for name, value in variables.items())]
        nspawn += [f"--system-call-filter={calls}", "--user=somebody", f"--directory={self._root}"]
        with_us = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        return roots.checked([*with_us, *nspawn, "bash", "-c", f"cd && cd hcli-memory 2>/dev/null; {command}"], 3000)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bare]:
    if fault := roots.fault_of_host(*PROGRAMS):
        pytest.skip(fault)
    with roots.alone():
        kept = roots.kept("bare", PACKAGES, with_somebody)
        root = tmp_path_factory.mktemp("bare") / "root"
        roots.checked(["cp", "--archive", "--reflink=auto", str(kept), str(root)])
        roots.checked(["git", "-C", str(REPOSITORY), "bundle", "create", str(root / "source.bundle"), "HEAD"])
        yield Bare(root)
        shutil.rmtree(root)


def with_somebody(root: Path) -> None:
    roots.debian(root, PACKAGES)
    roots.checked(["chroot", str(root), "useradd", "--create-home", "--shell", "/bin/bash", "somebody"])
    (root / "etc/sudoers.d/somebody").write_text("somebody ALL=(ALL) NOPASSWD: ALL\n")


def test_set_up_by_one_command(bare: Bare) -> None:
    bare.run("git clone --quiet /source.bundle hcli-memory")
    assert "setup: ready" in bare.run("scripts/setup")


def test_the_demo_finds_what_was_said(bare: Bare) -> None:
    said = bare.run("scripts/demo")
    assert "The answer was remembered for 6 of 6 questions" in said
    assert len(said[said.index("A real Redis") :].splitlines()) <= 40


def test_the_tests_pass(bare: Bare) -> None:
    said = bare.run(f"scripts/test {TESTS}")
    assert re.search(r"^\d{2,} passed", said, re.M), said[-2000:]
