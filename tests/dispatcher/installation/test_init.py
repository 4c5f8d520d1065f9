"""`hmem init` as a user meets it: in an empty home, with a real Redis and Claude CLI, and stand-ins for Telegram and the provider."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator

import pytest

from shared.errors import InstallationIncomplete, InvalidInput
from tests.support.machine import wait_for
from tests.support.processes.installing import CHAT, NewHome, new_home, path_without, script
from tests.support.world import BINARIES

pytestmark = pytest.mark.slow  # each installs and starts everything


@pytest.fixture
def home() -> Iterator[NewHome]:
    with new_home() as made:
        yield made


def files_of(home: NewHome) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.config.iterdir() if path.is_file() and path.suffix != ".pid"}


def test_from_nothing_to_a_remembered_message_and_out_again(home: NewHome) -> None:
    code, output = home.init("--yes")
    assert code == InstallationIncomplete.exit_code
    assert f"{BINARIES}/hmem run" in output
    assert f"{BINARIES}/hmem telegram" in output
    assert f"{BINARIES}/hmem-night schedule" in output
    home.start_programs(output)
    wait_for(lambda: home.run("telegram", "--check").returncode == 0, "the bot to start")
    output = home.install()
    assert "redis, dispatcher, telegram: running already (by hand); night: not checked" in output
    assert home.telegram.texts(CHAT)[0].startswith("Hello, I am ready.")
    settings = home.config / "hmem.toml"
    assert settings.stat().st_mode & 0o777 == 0o600

    home.telegram.say(CHAT, "My boiler shows the code F28.", {"id": CHAT, "is_bot": False, "first_name": "Noor"})
    wait_for(lambda: json.loads(home.run("status", "--json").stdout)["turns_waiting"] == 2, "the answer")
    night = home.run("run", program="hmem-night")
    assert night.returncode == 0, night.stderr
    assert "F28" in home.run("search", str(CHAT), "boiler code").stdout
    assert home.run("memory", "add", str(CHAT), "Noor lives in Lisbon").returncode == 0
    wait_for(lambda: "Captured: 1 new record" in home.run("capture", program="hmem-night").stdout, "the fact's event")

    before, running = files_of(home), set(home.processes())
    code, output = home.init("--yes", given=False)
    assert code == 0, output
    assert (files_of(home), set(home.processes())) == (before, running), "run again it changes nothing"

    code, output = home.init("--undo", "--yes", given=False)
    assert "Stop them where you started them" in output
    home.stop_programs()
    code, output = home.init("--undo", "--yes", given=False)
    assert code == 0, output
    assert home.processes() == []
    assert not home.config.exists()
    assert "sk-ant-api-test" not in (home.home / ".claude" / "settings.json").read_text()
    assert (home.data / "night" / "archive").is_dir(), "the conversations stay"
    archive = home.data / "night" / "archive"
    archive.rename(home.home / "copy")
    shutil.rmtree(home.data)
    archive.parent.mkdir(parents=True)
    (home.home / "copy").rename(archive)
    home.install()
    assert "F28" in home.run("search", str(CHAT), "boiler code").stdout, "an archive is all that it takes"
    assert "Noor lives in Lisbon" in home.run("memory", "list", str(CHAT)).stdout


def test_killed_after_each_step_it_goes_on(home: NewHome) -> None:
    for step in ("directories", "redis", "login"):
        process = home.start("--yes")
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(f"✓ {step}"):
                break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    home.install()
    home.telegram.say(CHAT, "Is anybody there?", {"id": CHAT, "is_bot": False, "first_name": "Noor"})
    wait_for(lambda: "All right." in home.telegram.texts(CHAT), "an answer")


def test_what_breaks_is_said_with_its_cure_and_can_be_gone_on_from(
    home: NewHome, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One thing after another is broken, in one installation that gets further each time."""
    folder = tmp_path_factory.mktemp("broken")
    said = []

    def broken(why: str, **given: str) -> None:
        kept = dict(home.given)
        home.given.update(given)
        code, output = home.init("--yes")
        home.given = kept
        assert code != 0, output
        assert why in output, output
        said.append(output)

    home.config.parent.mkdir()
    home.config.write_text("a file where the directory should be")
    broken("Not a directory")
    home.config.unlink()
    no_redis = path_without(folder / "no-redis", "redis-server", "apt-get")
    broken("no apt-get. Install them", PATH=no_redis)
    failing = script(folder / "redis", "redis-server", ["echo 'cannot bind' >&2", "exit 1"]).parent
    broken("Starting Redis failed: cannot bind", PATH=f"{failing}:{os.environ['PATH']}")
    broken("is not installed or not executable", CLAUDE_BIN="/nowhere/claude")
    broken("is not logged in", ANTHROPIC_API_KEY="")
    (home.config / "hmem.toml").chmod(0o600)
    text = (home.config / "hmem.toml").read_text()
    (home.config / "hmem.toml").write_text(text + "not toml")
    broken("cannot be read")
    (home.config / "hmem.toml").write_text(text)
    cures = ("run hmem init again", "Correct or remove it", "Change it")
    assert all(any(cure in output for cure in cures) for output in said)

    home.install()


def test_it_asks_nothing_without_a_terminal(home: NewHome) -> None:
    code, output = home.init()
    assert code == InvalidInput.exit_code
    assert "add --yes with the settings" in output
    assert "there is no terminal to ask on. Run it on one, or add --yes.\n" in home.init("--undo")[1]
