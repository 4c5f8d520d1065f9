"""The services of deploy/compose.yaml, started as deploy/README.md says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from tests.engines.docker.engine import Engine
from tests.support.machine import wait_for
from tests.support.world import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
#: Those that stay.
STAYING = ("redis", "dispatcher", "telegram", "night")
#: How often Docker asks for the health of each; the file says 1 to 5 minutes.
OFTEN = {"services": {name: {"healthcheck": {"interval": "10s"}} for name in STAYING}}


class Services:
    """`docker compose` with the shipped file, and with what a person fills in."""

    def __init__(self, engine: Engine, folder: Path, told: dict[str, str]) -> None:
        self._engine, self._told = engine, told
        self._files = [f"--file={DEPLOY}/compose.yaml", f"--file={folder}/often.yaml", f"--env-file={folder}/env"]
        (folder / "often.yaml").write_text(yaml.safe_dump(OFTEN))
        settings = (DEPLOY / "hmem.toml").read_text(encoding="utf-8")
        address = f'TELEGRAM_API_URL = "{told["TELEGRAM_API_URL"]}"'
        changed = re.sub(r"^#TELEGRAM_API_URL = .*$", address, settings, flags=re.M)
        (folder / "hmem.toml").write_text(changed, encoding="utf-8")
        values = [f"{name}={told[name]}" for name in ("TELEGRAM_BOT_TOKEN", "ALLOWED_CHATS")]
        (folder / "env").write_text("\n".join([*values, f"HMEM_SETTINGS={folder}/hmem.toml"]))

    def start(self) -> None:
        """Builds the images, starts everything, and logs the Claude CLI in, with a key."""
        self.compose("up", "--detach", "--build")
        login = {name: self._told[name] for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")}
        write = "mkdir -p ~/.claude && cat >~/.claude/settings.json"
        self.compose("run", "--rm", "-T", "dispatcher", "sh", "-c", write, input=json.dumps({"env": login}))

    def compose(self, *words: str, **more: Any) -> str:
        """As `Engine.docker`."""
        return self._engine.docker("compose", *self._files, "--ansi=never", "--progress=plain", *words, **more)

    def owner(self, *words: str) -> str:
        """A command of the owner."""
        return self.compose("run", "--rm", "-T", "owner", *words)

    def status(self) -> dict[str, Any]:
        """`hmem status`."""
        return dict(json.loads(self.owner("hmem", "status", "--json")))

    def inspect(self, service: str) -> dict[str, Any]:
        """What Docker knows of the service's container."""
        container = self.compose("ps", "--all", "--quiet", service).strip()
        return dict(json.loads(self._engine.docker("inspect", container))[0])

    def wait_until_healthy(self, *services: str) -> None:
        """Those services; without a name, all that stay."""

        def ill() -> list[str]:
            return [one for one in services or STAYING if self.inspect(one)["State"]["Health"]["Status"] != "healthy"]

        wait_for(lambda: not ill(), lambda: f"{', '.join(ill())} to be healthy", 180)

    def process(self, service: str) -> tuple[dict[str, str], dict[str, list[str]]]:
        """Of the first process in the service's container: the lines of its status, and the options of each place where something is mounted."""
        running = ("exec", "-T", service, "cat")
        inside = running if service in STAYING else ("run", "--rm", "-T", "--entrypoint=cat", service)
        lines = self.compose(*inside, "/proc/1/status", "/proc/mounts").splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        mounts = [line.split() for line in lines if ":\t" not in line]
        return status, {place: options.split(",") for _, place, _, options, *_ in mounts}

    def logs(self) -> str:
        """Which containers there are, and the ends of their logs."""
        lines = self.compose("ps", "--all", check=False) + self.compose("logs", "--tail=60", check=False)
        return lines.replace("\x1b[2K", "")
