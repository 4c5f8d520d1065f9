"""What a command loads before it does anything: every module is waited for at every call."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.world import World

#: None of these is needed to look at an installation, or to say which commands there are.
HEAVY = {
    "apscheduler", "chromadb", "cryptography.hazmat", "dateparser", "lancedb", "numpy", "onnxruntime",
    "pydantic_settings", "snowballstemmer", "sqlalchemy", "sqlite3", "structlog", "tokenizers",
}  # fmt: skip
#: What libraries load where it is installed, and we never use.
UNUSED = {"opentelemetry", "rich"}
LOADED = "import sys; sys.argv[:] = sys.argv[1:]\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"


def loaded(world: World, *command: str) -> set[str]:
    """Modules that a process has loaded when the command ends."""
    part = {"hmem": "dispatcher", "hmem-night": "nightly"}[command[0]]
    done = subprocess.run(
        [sys.executable, "-c", f"from {part}.cli.main import main; {LOADED}", *command],
        env=world.variables(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("command", ["hmem", "hmem-night"])
def test_help_loads_no_part_of_the_program(light: World, command: str) -> None:
    found = loaded(light, command, "--help")
    assert "shared.system.command" in found
    assert not found & (HEAVY | {"redis", "pydantic", "asyncio", "shared.config.settings", "shared.wire.keys"})


def test_a_command_loads_no_other_command(light: World) -> None:
    light.environment["REDIS_URL"] = f"{light.url}?socket_timeout=60"  # redis-py checks an address with options
    found = loaded(light, "hmem", "status")
    assert "dispatcher.health.status" in found
    assert not found & (HEAVY | UNUSED), found & (HEAVY | UNUSED)
    added = {"dispatcher.answering.hooks", "dispatcher.cli.hooks", "dispatcher.memory.hooks"}  # what features may add
    found -= {"dispatcher.answering", "dispatcher.memory", *added}
    assert not {name for name in found if name.startswith(("nightly", "dispatcher.answering", "dispatcher.memory"))}
    own = {name.removeprefix("dispatcher.cli.") for name in found if name.startswith("dispatcher.cli.")}
    assert own == {"main", "arguments", "health"}


def test_the_day_hosts_end_of_a_night_loads_no_client_and_logs_beside_its_answer(light: World) -> None:
    code = "import sys, shared.delivery.receiver, shared.delivery.trial, shared.text.logs as logs; print(*sys.modules)"
    command = [sys.executable, "-c", f"{code}; logs.Logger().warning('seen'); print('rich' in sys.modules)"]
    done = subprocess.run(command, env=light.variables(), capture_output=True, text=True, check=True)
    before, rich = done.stdout.splitlines()
    assert not set(before.split()) & (UNUSED | {"redis", "asyncio", "structlog"})
    assert (rich, "seen" in done.stderr) == ("False", True)
