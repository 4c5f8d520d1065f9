"""An installation of three users: root, the day's and the night's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.machine import wait_for
from tests.support.processes.as_user import command
from tests.support.world import BINARIES, REPOSITORY, World

DAY, NIGHT = 31_001, 31_002
SPY = REPOSITORY / "tests" / "servers" / "spying_claude.py"


class Installation(World):
    """As systemd/README.md makes it: directories of two users, settings without secrets, credentials that only root may read."""

    def prepare(self) -> None:
        self.root.chmod(0o755)
        for name, owner, group, mode in (
            ("state", DAY, DAY, 0o700),
            ("home", DAY, DAY, 0o700),
            ("night", NIGHT, NIGHT, 0o700),
            ("memory", NIGHT, DAY, 0o2750),
            ("secrets", 0, 0, 0o700),
            ("roots-home", 0, 0, 0o700),
        ):
            (self.root / name).mkdir()
            os.chown(self.root / name, owner, group)
            (self.root / name).chmod(mode)
        places = {"HMEM_MEMORY_DIR": "memory", "HMEM_STATE_DIR": "state", "HMEM_NIGHT_DIR": "night"}
        lines = [f'{name} = "{self.root / place}"' for name, place in places.items()]
        lines += [f'CLAUDE_BIN = "{SPY}"', 'EMBEDDER = "none"', 'NIGHT_INDEXES = "none"']
        (self.root / "hmem.toml").write_text("\n".join(lines))
        for part in ("dispatcher", "night", "owner"):
            text = f'REDIS_URL = "{self.url}"\nRESULT_HMAC_KEY = "the-hmac-key-of-three-users"\n'
            self.secrets(part).write_text(text)
            self.secrets(part).chmod(0o600)

    def secrets(self, part: str) -> Path:
        return self.root / "secrets" / f"{part}.toml"

    def plain(self, **more: str) -> dict[str, str]:
        """An environment without a secret."""
        return {
            "PATH": f"{BINARIES}:/usr/bin:/bin",
            "HOME": str(self.root / "home"),
            "HMEM_CONFIG": str(self.root / "hmem.toml"),
            "PYTHONPATH": str(REPOSITORY),
            **self.environment,
            **more,
        }

    @contextmanager
    def running(self, uid: int, part: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """A service, started as its unit does it: its credentials are its standard input, opened by root."""
        with self.secrets(part).open("rb") as secrets, (self.root / f"{part}.log").open("wb") as log:
            variables = self.plain(HMEM_CREDENTIALS="fd:0")
            started = command(uid, (uid,), *words)
            process = subprocess.Popen(started, env=variables, stdin=secrets, stdout=log, stderr=log, cwd=REPOSITORY)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(600)

    @contextmanager
    def dispatcher(self) -> Iterator[subprocess.Popen[bytes]]:
        with self.running(DAY, "dispatcher", str(BINARIES / "hmem"), "run") as process:
            log = self.root / "dispatcher.log"
            wait_for(lambda: b"dispatcher started" in log.read_bytes() or process.poll() is not None, "the dispatcher")
            assert process.poll() is None, log.read_text()
            yield process

    def as_root(self, *words: str, part: str = "owner", check: bool = True) -> subprocess.CompletedProcess[str]:
        """A command as the owner types it under sudo."""
        variables = self.plain(HMEM_CREDENTIALS=str(self.secrets(part)), HOME=str(self.root / "roots-home"))
        done = subprocess.run(
            command(0, (0,), *words), env=variables, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=600
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def night_by_root(self) -> None:
        """A night, whose release the dispatcher's group reads."""
        self.as_root(str(BINARIES / "hmem-night"), "run", part="night")

    def foreign_files(self) -> list[str]:
        """What lies in the services' directories and is root's."""
        places = [self.root / name for name in ("state", "home", "night", "memory")]
        return [str(path) for place in places for path in [place, *place.rglob("*")] if path.lstat().st_uid == 0]
