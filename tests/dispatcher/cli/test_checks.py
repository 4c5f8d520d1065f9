"""`--check` of dispatcher and bot, which health checks of containers use: with the rights of their own Redis users only."""

from __future__ import annotations

from pathlib import Path

from shared.wire import keys
from tests.support.processes import forked
from tests.support.redis.users import Guarded
from tests.support.world import BINARIES, REPOSITORY


def check(guarded: Guarded, user: str, *command: str, home: Path) -> tuple[int, str]:
    variables = {"PATH": f"{BINARIES}:/usr/bin:/bin", "HOME": str(home), "REDIS_URL": guarded.urls[user]}
    variables |= {"HMEM_CONFIG": "/dev/null", "HMEM_STATE_DIR": str(home), "PYTHONPATH": str(REPOSITORY)}
    done = forked.run([str(BINARIES / "hmem"), *command, "--check"], 120, variables)
    return done.returncode, done.stdout + done.stderr


def test_the_bot_is_running_while_it_holds_its_lease(guarded: Guarded, tmp_path: Path) -> None:
    code, said = check(guarded, "bot", "telegram", home=tmp_path)
    assert (code, "no messages are received" in said) == (41, True)
    guarded.client("tester").set(keys.bot_owner("main"), "bot-of-host\x1b[2J", ex=30)
    code, said = check(guarded, "bot", "telegram", home=tmp_path)
    assert (code, said.startswith("The bot runs: bot-of-host")) == (0, True)
    assert "\x1b" not in said


def test_a_dispatcher_is_running_while_it_renews_its_lease(guarded: Guarded, tmp_path: Path) -> None:
    tester = guarded.client("tester")
    tester.sadd(keys.WORKERS, "dead-one", "living")
    code, said = check(guarded, "dispatcher", "run", home=tmp_path)
    assert (code, "messages wait" in said) == (42, True)
    tester.set(keys.lease("living"), "1", ex=30)
    assert check(guarded, "dispatcher", "run", home=tmp_path) == (0, "The dispatcher runs: living.\n")
