"""deploy/redis-users.acl on a real Redis: each part does its whole work as its own user, and nothing of the others'."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from redis import Redis
from redis.exceptions import AuthenticationError, ResponseError

from tests.support.day.hcli_bot import Bot
from tests.support.machine import free_port, wait_for
from tests.support.redis.users import DEPLOY, USERS, Guarded, health, refusals
from tests.support.world import World


@pytest.mark.slow
def test_day_and_night_as_their_own_users(installed: World, guarded: Guarded, admin: Redis) -> None:
    night, owner = guarded.urls["night"], guarded.urls["owner"]
    bot = Bot(guarded.client("hcli-bot"))
    stranded(admin)
    running = installed.start_dispatcher()
    wait_for(lambda: admin.exists("hcli:mem:done:stranded"), "the task of a dead dispatcher")
    for message in ("The boiler code is 4711.", "Where is the key?"):
        assert "stand-in" in bot.receive(bot.send(message, 9912))["output"]
    bot.cancel(9912)
    bot.redis.set("hcli:results:cancelled", "signed", ex=600)
    bot.redis.lrem("hcli:tasks", 1, "taken back")
    bot.redis.rpush("hcli:tasks", "{")
    bot.new(9912)
    assert bot.redis.hgetall(next(admin.scan_iter(match="hcli:stats:*")))
    assert bot.redis.lrem("hcli:pending:9912", 0, "x") == 0
    assert len(bot.redis.lrange("hcli:session_history:77", 0, -1)) == 2
    wait_for(lambda: admin.llen("hcli:mem:dead"), "the dead letter")

    admin.rpush("hcli:memory:odd:user", "a list where a string belongs")
    done = json.loads(installed.command("hmem-night", "run", "--json", REDIS_URL=night).stdout)
    assert (done[0]["new"], done[0]["quarantined"], done[0]["published"]) == (6, 1, True)
    assert list(admin.scan_iter(match="hcli:memory:*")) == []
    assert b"1" in admin.hgetall("hcli:mem:release").values(), "the night saw that it is served"

    told = installed.command("hmem", "talk", "9912", "--say", "What is the code?", REDIS_URL=owner).stdout
    assert "4711" in told
    status = json.loads(installed.command("hmem", "status", "--json", REDIS_URL=owner).stdout)
    assert (status["release"], status["last_night_run"], status["turns_waiting"]) == (1, 1, 2)
    assert len(status["workers"]) == 1
    assert status["dead_letters"] == 1
    guarded.client("owner").rpush("hcli:mem:tombstones", json.dumps(tombstone()))
    assert json.loads(installed.command("hmem-night", "run", "--json", REDIS_URL=night).stdout)[0]["published"]
    installed.command("hmem-night", "run", "--dry-run", REDIS_URL=night)
    assert running.stop() == 0
    replaying = installed.start_dispatcher(SESSION_MODE="replay")
    assert "stand-in" in bot.receive(bot.send("once more", 9912))["output"]
    assert replaying.stop() == 0
    assert refusals(admin) == []


#: Every command of h-cli's bot, in the order of its source: its health check, /status, /stats, /new, /cancel, a message, its answer, the teach mode.
#: Then every one of its dispatcher: a message, /new by our bot, the session, counters, what was said, the answer.
OF_H_CLI = {"hcli-bot": """
PING
LLEN hcli:tasks|HGETALL hcli:stats:2026-11-22|LRANGE hcli:session_history:7 0 -1|DEL hcli:session_history:7|DEL hcli:session_size:7|DEL hcli:session:7
RPOP hcli:pending:7|LRANGE hcli:tasks 0 -1|LREM hcli:tasks -1 x|SET hcli:results:t x EX 300|RPUSH hcli:tasks x|RPUSH hcli:pending:7 t
EXPIRE hcli:pending:7 600|GET hcli:results:t|DEL hcli:results:t|LREM hcli:pending:7 1 t|EXISTS hcli:teach:7|RPUSH hcli:teach:7:turns x
EXPIRE hcli:teach:7:turns 60|SET hcli:teach:7 1 EX 60|LRANGE hcli:teach:7:turns 0 -1|DEL hcli:teach:7 hcli:teach:7:turns
""", "hcli-dispatcher": """
PING
RPUSH hcli:session_history:7 x|BLPOP hcli:tasks 1|EXISTS hcli:session:7|LLEN hcli:session_history:7|LRANGE hcli:session_history:7 0 -1
DEL hcli:session_history:7|DEL hcli:session_size:7|GET hcli:session_size:7|GET hcli:session:7|DEL hcli:session:7|SET hcli:session:7 x EX 60
INCRBY hcli:session_size:7 9|EXPIRE hcli:session_size:7 60|RPUSH hcli:session_history:7 x y|EXPIRE hcli:session_history:7 60
MULTI|HINCRBY hcli:stats:2026-11-22 tasks 1|HINCRBYFLOAT hcli:stats:2026-11-22 cost_usd 0.5|EXPIRE hcli:stats:2026-11-22 86400|EXEC
SET hcli:memory:t:user x EX 14400|SET hcli:memory:t:asst x EX 14400|SET hcli:results:t x EX 600
"""}  # fmt: skip


@pytest.mark.parametrize("user", OF_H_CLI)
def test_h_cli_may_do_all_that_it_does(guarded: Guarded, admin: Redis, user: str) -> None:
    admin.rpush("hcli:tasks", "x")
    client = guarded.client(user)
    client.response_callbacks.clear()  # answers as Redis gives them
    for line in OF_H_CLI[user].strip().replace("\n", "|").split("|"):
        client.execute_command(*line.split())  # type: ignore[no-untyped-call]
    client.close()
    assert refusals(admin) == []


def test_the_doctor_finds_nothing_wrong_with_the_dispatchers_rights(installed: World) -> None:
    found = {
        line["name"]: line
        for line in json.loads(installed.command("hmem", "doctor", "--json", check=False).stdout)["findings"]
    }
    assert found["rights"]["state"] == "ok", found["rights"]


def stranded(admin: Redis) -> None:
    """What a dispatcher leaves that was killed over a task."""
    task = {"task_id": "stranded", "message": "hello", "chat_id": "77"}
    admin.sadd("hcli:mem:workers", "dead")
    admin.hset("hcli:mem:inflight:dead", "dead:1", json.dumps(task))
    admin.hset("hcli:mem:busy", "77", "dead:1")


def tombstone() -> dict[str, Any]:
    return {"tombstone_id": str(uuid4()), "chat_id": "9912", "created_at": 1_800_000_000.0,
            "before": 4_000_000_000.0, "turn_ids": None}  # fmt: skip


@pytest.mark.parametrize(("user", "call"), [
    ("dispatcher", "return redis.call('DEL', KEYS[1])"), ("dispatcher", "return redis.call('GET', KEYS[1])"),
    ("night", "return redis.call('SET', KEYS[1], 'x')"), ("night", "return redis.call('GET', 'hcli:results:t')"),
])  # fmt: skip
def test_a_script_may_do_no_more_than_its_user(guarded: Guarded, admin: Redis, user: str, call: str) -> None:
    admin.set("hcli:memory:t:user", "said")
    client = guarded.client(user)
    with pytest.raises(ResponseError, match=r"can't (access|run)|No permissions"):
        client.register_script(call)(keys=["hcli:memory:t:user"])
    assert admin.get("hcli:memory:t:user") == b"said"
    client.close()


def test_nobody_comes_in_without_a_password(guarded: Guarded) -> None:
    assert health(guarded.port) == "PONG"
    for url in (f"redis://127.0.0.1:{guarded.port}/0", f"redis://bot:wrong@127.0.0.1:{guarded.port}/0"):
        client: Redis = Redis.from_url(url)
        with pytest.raises(AuthenticationError):
            client.ping()
        client.close()


def test_the_file_is_refused_until_the_passwords_are_set(tmp_path: Path) -> None:
    command = ["redis-server", "--port", str(free_port()), "--dir", str(tmp_path), "--save", ""]
    done = subprocess.run(
        [*command, "--aclfile", str(DEPLOY / "redis-users.acl")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode != 0
    assert "password hash must be exactly 64 characters" in done.stdout


def test_secrets_are_made_once_and_readable_by_their_owner_only(tmp_path: Path) -> None:
    command = [str(DEPLOY / "new-secrets"), str(tmp_path / "secrets")]
    subprocess.run(command, check=True)
    before = {path.name: path.read_bytes() for path in (tmp_path / "secrets").iterdir()}
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "secrets").iterdir()}
    assert set(before) == {"redis-users.acl", *(f"{user}.toml" for user in USERS)}
    made = {user: tomllib.loads((tmp_path / "secrets" / f"{user}.toml").read_text()) for user in USERS}
    assert len({values["REDIS_URL"] for values in made.values()}) == len(USERS)
    assert len({made[user]["RESULT_HMAC_KEY"] for user in USERS if user not in ("night", "admin")}) == 1
    assert not [user for user in ("night", "admin") if "RESULT_HMAC_KEY" in made[user]], "they sign nothing"
    assert made["owner"]["REDIS_ADMIN_URL"] == made["admin"]["REDIS_URL"]
    assert not (tmp_path / "secrets").stat().st_mode & 0o077, "nobody else gets in"
    held_by_root = (
        "hcli-bot",
        "dispatcher",
        "hcli-dispatcher",
        "owner",
        "admin",
    )  # the other two are mounted for users of their own in containers
    assert not [user for user in held_by_root if (tmp_path / "secrets" / f"{user}.toml").stat().st_mode & 0o077]
    assert "SHA256" not in (tmp_path / "secrets" / "redis-users.acl").read_text()
