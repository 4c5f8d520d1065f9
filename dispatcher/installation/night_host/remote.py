"""The other host over ssh: a script for any Python, our own program once it is there, and rsync. What goes wrong is one sentence."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dispatcher.installation import environment
from dispatcher.installation.init.terminal import Terminal
from dispatcher.installation.night_host.there import bootstrap
from dispatcher.installation.run import DOWNLOAD_SECONDS, run
from shared.config.ownership import user_name
from shared.errors import InstallationIncomplete

#: Nobody is asked: a password or an unknown host key is an error that says what to do.
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15")
#: What a destination may be: a name of ssh's, with or without a user. Nothing that ssh could take for an option.
_DESTINATION = re.compile(r"(?:[\w.][\w.+-]*@)?[\w.][\w.:-]*", re.ASCII)
_PYTHONS = "python3 python3.14 python3.13 python3.12 python3.11"
#: The script that finds a Python which is new enough and hands our standard input to it.
_FIND_PYTHON = f"""\
for name in {_PYTHONS}; do
  if command -v $name >/dev/null 2>&1 && $name -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null; then
    exec $name -
  fi
done
echo "no-python: $(python3 --version 2>&1)"
exit 96
"""
_AGENT = "dispatcher.installation.night_host.there.agent"
#: What ssh says → what to do; `{0}` is the destination.
_REMEDIES = (
    ("Host key verification failed", "its host key is not known here. Run ssh {0} once, compare the fingerprint that it shows, and accept it"),
    ("REMOTE HOST IDENTIFICATION", "its host key has changed. If you know why, run ssh-keygen -R HOST, then ssh {0}"),
    ("Permission denied (", "no key of yours is accepted there. Run ssh-copy-id {0}; if your key has a passphrase, run ssh-add"),
    ("Could not resolve", "there is no such name. Correct it, or add it to ~/.ssh/config"),
    ("Connection refused", "no sshd answers on that port. Start it, or set its port in ~/.ssh/config"),
    ("Connection timed out", "it does not answer. Check that it runs, and the network"),
    ("No route to host", "it cannot be reached. Check that it runs, and the network"),
)  # fmt: skip


def checked_destination(destination: str) -> str:
    if not _DESTINATION.fullmatch(destination):
        raise InstallationIncomplete(
            f"{destination!r} is no host for ssh. Write it like user@gpu, and set a port in ~/.ssh/config."
        )
    return destination


class RemoteHost:
    """`name` is as the owner gave it, `command` the one to run again. `python` is our program's there, once it is known."""

    def __init__(self, name: str, terminal: Terminal, command: str) -> None:
        self.name, self.terminal, self.command = checked_destination(name), terminal, command
        self.python = ""

    def script(
        self, verb: str, given: Mapping[str, Any], what: str, remedy: str, seconds: float = 60.0
    ) -> dict[str, Any]:
        """A verb of bootstrap.py."""
        source = Path(bootstrap.__file__).read_text(encoding="utf-8")
        text = f"{source}\nmain({verb!r}, json.loads({json.dumps(given)!r}))\n"
        return self._json(["sh", "-c", _FIND_PYTHON], text, what, remedy, seconds)

    def ask(self, verb: str, given: Mapping[str, Any], what: str, seconds: float = 600.0) -> dict[str, Any]:
        """A verb of agent.py. InstallationIncomplete with its own sentence if it refuses."""
        remedy = f"Run {self.command} again; if it fails again, log in there and look"
        words = [self.python, "-P", "-m", _AGENT, verb]
        answer = self._json(words, json.dumps(given), what, remedy, seconds)
        if "error" in answer:
            raise InstallationIncomplete(f"On {self.name}: {answer['error']}")
        return answer

    def copy(
        self, source: str, target: str, what: str, *options: str, seconds: float = DOWNLOAD_SECONDS, back: bool = False
    ) -> None:
        """rsync a directory's contents there, or `back`. What is there too much is removed."""
        if shutil.which("rsync") is None:
            raise InstallationIncomplete(
                f"rsync is not installed here. Install it (apt-get install rsync), then run {self.command} again."
            )
        there = [f"{source}/", f"{self.name}:{target}/"] if not back else [f"{self.name}:{source}/", f"{target}/"]
        options = ("-aH", "--no-owner", "--no-group", "--delete", "--protect-args", "--info=progress2", *options)
        command = ["rsync", *options, "-e", shlex.join(SSH), *there]
        with self.terminal.busy(what) as show:
            run(
                command, what, f"Check network and disks, then run {self.command} again.", seconds=seconds, show=show, **_how()
            )  # fmt: skip

    def _json(self, words: Sequence[str], given: str, what: str, remedy: str, seconds: float) -> dict[str, Any]:
        command = [*SSH, self.name, shlex.join(words)]
        try:
            with self.terminal.busy(what) as show:
                said = run(command, what, remedy, seconds=seconds, show=show, given=given, **_how())
        except InstallationIncomplete as error:
            raise self._translated(error) from error
        last = next((line for line in reversed(said.splitlines()) if line.startswith("{")), "")
        try:
            return dict(json.loads(last))
        except ValueError as error:
            raise InstallationIncomplete(
                f"{what} failed: {self.name} answered {said[-200:]!r}. Make its shell start without printing anything."
            ) from error

    def _translated(self, error: InstallationIncomplete) -> InstallationIncomplete:
        said = str(error)
        if "no-python: " in said:
            found = re.search(r"Python \d[\d.]*\d", said)
            has = f"only {found[0]}" if found else "no Python"
            return InstallationIncomplete(
                f"{self.name} has {has}, and 3.11 or newer is needed (Debian 12, Ubuntu 24.04 and newer have it). Install one "
                f"(sudo apt-get install python3 python3-venv), then run {self.command} again."
            )
        for words, remedy in _REMEDIES:
            if words in said:
                who = f" (as {user_name(os.geteuid())})" if os.geteuid() == 0 else ""
                return InstallationIncomplete(
                    f"ssh {self.name} does not work{who}: {remedy.format(self.name)}. Then run {self.command} again."
                )
        return error


def _how() -> dict[str, Any]:
    return {"env": environment.for_ssh(), "cwd": "/"}
