"""The wire contract, spoken by a client that does what h-cli's bot does, against a running `hmem run`."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime
from typing import cast

import pytest

from shared.wire import keys
from tests.support.day.hcli_bot import SAY, Bot, script
from tests.support.machine import script as executable
from tests.support.machine import until_gone, wait_for
from tests.support.processes.forked import constant
from tests.support.world import SECRET, Dispatcher, World


def test_both_sides_are_logged_as_said(dispatcher: Dispatcher, bot: Bot) -> None:
    moment = "2024-02-09T17:33:20+00:00"
    task_id = bot.send("scan 192.168.1.1 with nmap", 9912, submitted_at=moment, name="Dana")
    result = bot.receive(task_id)
    user, asst = bot.turn(task_id, "user"), bot.turn(task_id, "asst")
    session = cast(bytes, bot.redis.get("hcli:session:9912")).decode()
    assert user == {"chat_id": "9912", "role": "user", "content": "scan 192.168.1.1 with nmap", "timestamp": 1707500000.0,
                    "task_id": task_id, "name": "Dana", "session": session, "user_id": "7"}  # fmt: skip
    assert (asst["role"], asst["content"], asst["chat_id"]) == ("asst", result["output"], "9912")
    assert asst["timestamp"] >= user["timestamp"]
    assert bot.redis.ttl(f"hcli:memory:{task_id}:user") == -1
    history = [json.loads(entry) for entry in bot.redis.lrange("hcli:session_history:9912", 0, -1)]
    assert [(entry["role"], set(entry)) for entry in history] == [
        ("user", {"role", "content", "timestamp", "name", "user_id"}), ("assistant", {"role", "content", "timestamp"})
    ]  # fmt: skip
    assert int(bot.redis.get("hcli:session_size:9912") or 0) == len(user["content"]) + len(asst["content"])
    assert 0 < bot.redis.ttl("hcli:session:9912") <= 14_400
    assert 0 < bot.redis.ttl("hcli:session_history:9912") <= 86_400
    stats = bot.redis.hgetall(f"hcli:stats:{datetime.now(UTC):%Y-%m-%d}")
    assert set(b"tasks errors input_tokens output_tokens cost_usd duration_ms num_turns".split()) <= set(stats)
    assert bot.redis.hlen("hcli:mem:busy") == 0


def sessions(world: World) -> dict[str, int]:
    """Session id -> messages in it, as the stand-in has filed them."""
    return {path.stem: len(path.read_text().splitlines()) for path in world.root.rglob(".claude/projects/*/*.jsonl")}


def test_two_chats_resume_their_session_and_new_starts_afresh(light: World, dispatcher: Dispatcher, bot: Bot) -> None:
    for _ in range(3):
        bot.ask("hello", 9912)
        bot.ask("hello", -100123)
    assert sorted(sessions(light).values()) == [3, 3]
    bot.new(9912)
    bot.ask("hello", 9912)
    assert sorted(sessions(light).values()) == [1, 3, 3]


@pytest.mark.slow
def test_new_during_an_answer_is_not_undone(light: World, bot: Bot) -> None:
    begun, go = light.root / "begun", light.root / "go"
    waits = f'case " $* " in *" --help "*) exit;; esac; touch {begun}; until [ -e {go} ]; do sleep 0.05; done'
    light.start_dispatcher(CLAUDE_BIN=script(light, f"{waits}; {SAY} late"))
    for chat in (9912, 77):  # the first message of a chat, and a later one
        if chat == 77:
            bot.ask("before", chat)  # `go` is there from the first chat
        for mark in (begun, go):
            mark.unlink(missing_ok=True)
        task_id = bot.send("hello", chat)
        wait_for(begun.exists, "Claude to be asked")
        bot.new(chat)
        go.touch()
        bot.receive(task_id)
        assert not bot.redis.exists(f"hcli:session:{chat}", f"hcli:session_history:{chat}")
        assert bot.turn(task_id, "asst")["content"] == "late"


def test_forty_tasks_keep_their_order_within_each_chat(light: World, bot: Bot) -> None:
    order = light.root / "order"
    path = executable(
        light.root / "claude.py",
        "#!/usr/bin/env python3\nimport sys, time, random, json\nif '--help' in sys.argv: sys.exit()\n"
        "session = sys.argv[sys.argv.index('--resume' if '--resume' in sys.argv else '--session-id') + 1]\n"
        "message = sys.stdin.read().rpartition('\\n\\n')[2]\ntime.sleep(random.random() * .05)\n"
        f"open({str(order)!r}, 'a').write(message + '\\n')\nprint(json.dumps({{'result': 'ok ' + message, 'session_id': session}}))\n",
    )
    running = [light.start_dispatcher(CLAUDE_BIN=str(path)) for _ in range(2)]
    sent = {f"{chat} {at}": bot.send(f"{chat} {at}", chat) for at in range(10) for chat in ("a", "b", "c", -5)}
    outputs = {message: bot.receive(task_id, 120)["output"] for message, task_id in sent.items()}
    assert outputs == {message: f"ok {message}" for message in sent}
    answered = order.read_text().splitlines()
    assert len(answered) == 40
    for chat in ("a", "b", "c", "-5"):
        of_chat = [line for line in answered if line.startswith(f"{chat} ")]
        assert of_chat == [f"{chat} {number}" for number in range(10)]
    history = [json.loads(e)["content"] for e in bot.redis.lrange("hcli:session_history:a", 0, -1)]
    assert history[::2] == [f"a {number}" for number in range(10)]
    assert [dispatcher.stop() for dispatcher in running] == [0, 0]
    assert bot.redis.llen("hcli:tasks") == 0


def test_cancel_removes_a_queued_task_and_its_own_result_stands(light: World, bot: Bot) -> None:
    gate = light.root / "gate"
    light.start_dispatcher(CLAUDE_BIN=script(light, f"until [ -e {gate} ]; do sleep 0.05; done; {SAY} done"))
    first = bot.send("long", 9912)
    wait_for(lambda: bot.redis.hlen("hcli:mem:busy"), "the claim")
    second = bot.send("never", 9912)
    assert bot.cancel(9912) == [second], "a task of a busy chat stays where the bot can take it back"
    assert bot.receive(second)["output"] == "Cancelled."
    moment = datetime.now(UTC).isoformat()
    early = {"output": "Stopped.", "completed_at": moment, "hmac": bot.sign(first, "Stopped.", moment)}
    bot.redis.set(f"hcli:results:{first}", json.dumps(early))
    gate.touch()
    wait_for(lambda: bot.redis.exists(f"hcli:mem:done:{first}"), "the end of the running task")
    assert bot.receive(first)["output"] == "Stopped."
    assert not bot.redis.exists(f"hcli:memory:{second}:user")


def test_new_of_our_bot_leaves_the_end_to_the_dispatcher(light: World, dispatcher: Dispatcher, bot: Bot) -> None:
    """The mark ends what was said before the next answer, once, and not what another dispatcher has begun since."""
    for number in range(2):
        bot.ask("The code is 4711.", 9912)
        if number == 0:
            bot.redis.delete("hcli:session:9912")
        bot.redis.set(keys.bot_new("9912"), "1")
        if number == 0:
            assert "4711" not in light.command("hmem", "context", "9912", "What is it?", DAY_STORE_URL="none").stdout
        bot.ask("What is it?", 9912)
        told = [json.loads(raw)["content"] for raw in bot.redis.lrange("hcli:session_history:9912", 0, -1)]
        assert ("The code is 4711." in told) == (number == 1), "a session that was there is a new conversation"
        assert int(bot.redis.get("hcli:session_size:9912") or 0) == sum(map(len, told))
        assert not bot.redis.exists(keys.bot_new("9912"))


def test_an_error_is_answered_and_not_stored_as_said(light: World, bot: Bot) -> None:
    failing = script(light, "echo 'it is broken' >&2; exit 3")
    running = light.start_dispatcher(CLAUDE_BIN=failing, OWNERS="9912", ALLOWED_CHATS="9912,77")
    other = bot.ask("hello", 77)
    assert "the Claude CLI failed" in other
    assert "it is broken" not in other
    task_id = bot.send("hello", 9912, user_id="9912")
    told = bot.receive(task_id)["output"]
    assert "the Claude CLI failed" in told
    assert "The Claude CLI said: “it is broken”. On my host, hmem doctor --try-claude shows what helps." in told
    at_the_terminal = light.command("hmem", "talk", "77", "--say", "hello", check=False)
    assert (at_the_terminal.returncode, at_the_terminal.stdout) == (69, "")
    assert "it is broken" in at_the_terminal.stderr
    scripts = light.command("hmem", "talk", "77", "--say", "hello", "--json", check=False)
    assert (scripts.returncode, json.loads(scripts.stdout)["error"]) == (69, True)
    assert "it is broken" in running.log.read_text(), "its own words are for the owner"
    assert bot.turn(task_id, "user")["content"] == "hello"
    assert not bot.redis.exists(f"hcli:memory:{task_id}:asst", "hcli:session:9912")
    assert bot.redis.hget(f"hcli:stats:{datetime.now(UTC):%Y-%m-%d}", "errors") == b"4"


def test_a_hanging_cli_is_killed_with_its_children(light: World, bot: Bot) -> None:
    child = light.root / "child"
    hang = script(light, f"(trap '' TERM; echo $BASHPID > {child}; sleep 60) & trap '' TERM; sleep 60")
    with constant("dispatcher.claude.process:KILL_GRACE_SECONDS", 0.5):
        light.start_dispatcher(CLAUDE_BIN=hang, TASK_TIMEOUT="1")
    assert "no answer within 1 s" in bot.ask("hello", 9912)
    until_gone(int(child.read_text()))


def test_the_cli_gets_the_message_by_stdin_and_none_of_our_secrets(light: World, bot: Bot) -> None:
    seen = light.root / "seen"
    look = f'printf "%s\\n--\\n" "$MESSAGE" >> {seen}; printf "%s\\n" "$@" >> {seen}; env >> {seen}; pwd >> {seen}'
    spy = script(light, f"{look}; {SAY} ok")
    secrets = {"TELEGRAM_BOT_TOKEN": "tele-secret", "ANTHROPIC_API_KEY": "theirs", "OTHER": "hidden"}
    light.start_dispatcher(CLAUDE_BIN=spy, **secrets)
    for message in ("--dangerously-skip-permissions", "-p; rm -rf /", "see @/etc/hostname", "/clear"):
        assert bot.ask(message, "../../etc") == "ok"
    text = seen.read_text()
    assert "--dangerously-skip-permissions\n--" in text
    assert text.count("--dangerously-skip-permissions") == 1, "on stdin only, never an argument"
    assert "@/etc" not in text
    assert "to the end of this message:\n\n/clear\n--\n" in text, "no message begins with a slash"
    assert not [one for one in text.split("--\n") if one.startswith("/clear")]
    assert SECRET not in text
    assert "tele-secret" not in text
    assert "REDIS_URL" not in text
    assert "OTHER" not in text
    assert "ANTHROPIC_API_KEY=theirs" in text
    (folder,) = (light.root / "state" / "chats").iterdir()
    assert text.splitlines().count(str(folder)) == 4
    assert not list(folder.iterdir())


def test_a_killed_dispatcher_loses_no_task(light: World, bot: Bot) -> None:
    slow = script(light, f"sleep 0.3; {SAY} ok")
    running = light.start_dispatcher(CLAUDE_BIN=slow)
    tasks = [bot.send(f"m{number}", f"chat{number % 3}") for number in range(9)]
    wait_for(lambda: bot.redis.hlen("hcli:mem:busy") == 3, "three claims")
    assert running.stop(signal.SIGKILL) == -signal.SIGKILL
    (lease,) = bot.redis.keys("hcli:mem:lease:*")
    bot.redis.persist(lease)  # it stands for half a minute; on the same host nobody waits for that
    second = light.start_dispatcher(CLAUDE_BIN=slow)
    assert [bot.receive(task)["output"] for task in tasks] == ["ok"] * 9
    assert len(bot.redis.keys("hcli:memory:*")) == 18
    history = [json.loads(e)["content"] for e in bot.redis.lrange("hcli:session_history:chat0", 0, -1)]
    assert history[::2] == ["m0", "m3", "m6"]
    assert not bot.redis.exists(lease)
    assert not bot.redis.keys("hcli:mem:attempts:*")
    assert bot.redis.hlen(keys.RELEASE) == 1, "the dead one is struck off"
    assert second.stop() == 0


def test_a_broken_release_does_not_stop_the_answers(light: World, bot: Bot) -> None:
    light.say("t1", "something")
    light.night()
    (light.memory_dir / "current" / "lexical" / "1.sqlite").write_bytes(b"no database")
    light.start_dispatcher()
    assert bot.ask("something?", 9912)
    (light.memory_dir / "current").unlink()
    (light.memory_dir / "current").symlink_to("releases/99")
    assert bot.ask("something?", 9912)


@pytest.mark.slow
def test_the_dispatcher_says_what_is_missing(light: World) -> None:
    assert light.command("hmem", "run", check=False, CLAUDE_BIN="/no/claude").returncode == 12
    assert light.command("hmem", "run", check=False, RESULT_HMAC_KEY="").returncode == 10
    done = light.command("hmem", "run", check=False, REDIS_URL="redis://127.0.0.1:1/0")
    assert done.returncode == 11
    assert "Redis does not answer" in done.stderr
    assert "Traceback" not in done.stderr
