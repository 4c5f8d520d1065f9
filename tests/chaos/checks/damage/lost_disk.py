"""By day the disk of the day host vanishes, or an older copy of Redis comes in its place, and the journal (JOURNAL) brings back what is missing.

A round: people talk (questions, facts by `/memory add`); at a random moment a real redis-server and the dispatcher are killed, Redis' directory and
HMEM_STATE_DIR are deleted (each alone, too), or Redis gets a copy of its directory from rounds before; sometimes the dispatcher lives on. Then it
starts, sometimes after `hmem restore --day`. Every few rounds there is a night, at times before the dispatcher is back: then its export takes the
turns from the journal. Sometimes something is forgotten.

An observer sees what Redis has, every few hundredths of a second. What it has seen at least GRACE_SECONDS before a fault must not be lost: `lost`.
Within that interval it may be, as the journal promises no more, and is counted in a note. `doubled`: an answer, a memory or a turn that is there
twice. `torn`: a finished task that was asked again (answered twice), a turn in other bytes, or words that were forgotten and are in the journal.
"""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import orjson
from redis import Redis, RedisError

from shared.errors import ForgetIncomplete
from tests.chaos.harness.forked import night
from tests.chaos.harness.oracle import Shadow, judge
from tests.chaos.harness.report import Bench, Outcome, RedisServer, chaos
from tests.support.machine import wait_for
from tests.support.world import Dispatcher, World

CHATS = ("101", "102", "-1009912")
#: JOURNAL_SECONDS of the check, and the interval that may be lost: a look, its writing, and a busy machine.
LOOK_SECONDS, GRACE_SECONDS = 0.2, 1.0
TALK_SECONDS, PAUSE_SECONDS = (0.4, 1.4), (0.0, 0.15)
#: One round in so many has a night; one message in so many is a fact; after one round in so many, an answered message is forgotten.
NIGHT_EACH, FACT_EACH, FORGET_EACH = 8, 5, 8
FAULTS = {
    "both disks": 4, "disk of Redis": 3, "older Redis": 3, "disk of the dispatcher": 2, "Redis alone": 2, "older Redis alone": 2,
}  # fmt: skip

CLAUDE = r"""#!/bin/sh
[ "$1" = --help ] && exit
while [ $# -gt 0 ]; do case "$1" in --session-id|--resume) session=$2 ;; esac; shift; done
message=$(grep -ao 'message [a-z0-9]*' | tail -n 1)
sleep 0.0$(od -An -N1 -tu1 /dev/urandom | tr -d ' ' | cut -c1)
echo "$(date +%s.%N) $message" >>"$HOME/asked"
answer=$(printf '"type": "result", "result": "answer to %s"' "$message")
echo "{\"is_error\": false, $answer, \"session_id\": \"$session\", \"total_cost_usd\": 0.0, \"num_turns\": 1, \"usage\": {}}"
"""


class Observer(threading.Thread):
    """What Redis was seen to have, and when first: tasks that are done, turns in their bytes."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True, name="observer")
        self._redis: Any = Redis.from_url(url)
        self._ended = threading.Event()
        self.done: dict[str, float] = {}
        self.refused: set[str] = set()  # a command that was answered with an apology, since Redis was gone
        self.turns: dict[bytes, dict[bytes, float]] = {}

    def run(self) -> None:
        while not self._ended.wait(0.05):
            with suppress(RedisError):
                self.look()

    def look(self) -> None:
        found, now = list(self._redis.scan_iter(match="hcli:memory:*", count=5000)), time.time()
        for key, value in zip(found, self._redis.mget(found) if found else [], strict=True):
            if value is not None:
                self.turns.setdefault(key, {}).setdefault(value, now)
        for key in self._redis.scan_iter(match="hcli:mem:done:*", count=5000):
            self.done.setdefault(key.decode().rpartition(":")[2], now)
        results = list(self._redis.scan_iter(match="hcli:results:*", count=5000))
        for key, raw in zip(results, self._redis.mget(results) if results else [], strict=True):
            if raw is not None and json.loads(raw).get("error"):
                self.refused.add(key.decode().rpartition(":")[2])

    def end(self) -> None:
        self._ended.set()
        self.join()
        self._redis.close()


class Host:
    """The day host: its Redis, its dispatcher, and another disk."""

    def __init__(self, bench: Bench, random: Random) -> None:
        self.world = bench.world("host", light=True)
        self.server: RedisServer = bench.servers["host"]
        self.random, self.disk, self.older = random, self.world.root / "other-disk", self.world.root / "older"
        self.disk.mkdir()
        script = self.world.root / "claude.sh"
        script.write_text(CLAUDE)
        script.chmod(0o755)
        self.world.environment |= {
            "CLAUDE_BIN": str(script), "JOURNAL": str(self.disk), "JOURNAL_SECONDS": str(LOOK_SECONDS),
            "CONSOLIDATION_INTERVAL": "0.5", "LOG_JSON": "true",
        }  # fmt: skip
        self.dispatcher: Dispatcher | None = None
        self.start()

    @property
    def state(self) -> Path:
        return self.world.root / "state"

    def start(self) -> None:
        if self.dispatcher is None:
            self.dispatcher = self.world.start_dispatcher()

    def kill(self) -> None:
        if self.dispatcher is not None:
            self.dispatcher.stop(signal.SIGKILL)
            self.world.dispatchers.remove(self.dispatcher)
            self.dispatcher = None

    def keep_older(self) -> None:
        """A copy of Redis' directory, to come back in a later round."""
        shutil.rmtree(self.older, ignore_errors=True)
        shutil.copytree(self.server.directory, self.older)

    def lose_redis(self, *, older: bool) -> None:
        self.server.stop(kill=True)
        shutil.rmtree(self.server.directory)
        if older and self.older.is_dir():
            shutil.copytree(self.older, self.server.directory)
        else:
            self.server.directory.mkdir()
        self.server.start()

    def fault(self, kind: str) -> None:
        if not kind.endswith("alone"):
            self.kill()
        if kind in ("both disks", "disk of the dispatcher"):
            shutil.rmtree(self.state)
        if kind != "disk of the dispatcher":
            self.lose_redis(older=kind.startswith("older"))


class Model:
    """What was said, and what must be true of it."""

    def __init__(self, host: Host, observer: Observer, outcome: Outcome) -> None:
        self.host, self.observer, self.outcome = host, observer, outcome
        self.pushed: dict[str, tuple[float, str, str]] = {}  # task → when, its message, its chat
        self.forgotten: dict[str, float] = {}  # task → when that was confirmed
        self.faults: list[
            tuple[float, float]
        ] = []  # begin and end: Redis still answers between them, for as long as killing takes
        self.seen: Counter[str] = Counter()
        self._gone: set[str] = set()  # lost within the interval

    def say(self, number: int, chat: str, *, fact: bool) -> None:
        task = f"t{number:06d}"
        message = f"/memory add likes{number:06d}" if fact else f"message {task}"
        self.host.world.enqueue(task, message, chat_id=int(chat), submitted_at=time.time())
        self.pushed[task] = (time.time(), message, chat)

    def safe(self, at: float) -> bool:
        """Whether what was there at this time must have outlived every fault."""
        return not any(began - GRACE_SECONDS < at <= ended + 0.001 for began, ended in self.faults)

    def settle(self) -> None:
        """Wait until the journal has been looked at twice, and every task that must be there is done."""
        since = time.time()
        wait_for(lambda: self._looked_at() > since + 2 * LOOK_SECONDS, "the journal to follow Redis again")
        due = {task for task, (at, *_) in self.pushed.items() if self.safe(at) and task not in self.forgotten}

        def missing() -> set[str]:
            return {task for task in due if task not in self.observer.done}

        with suppress(BaseException):
            wait_for(lambda: not missing() and not self.host.world.redis.llen("hcli:tasks"), "the answers", 20)
        for task in sorted(missing()):
            self.outcome.found("lost", f"{task} has no answer, {self.pushed.pop(task)}, faults {self.faults[-2:]}")
        self._within()

    def _looked_at(self) -> float:
        with suppress(RedisError):
            redis: Any = self.host.world.redis
            fields = redis.hgetall("hcli:mem:journal")
            return max([json.loads(raw)["at"] for name, raw in fields.items() if name.endswith(b":state")], default=0.0)
        return 0.0

    def _within(self) -> None:
        """Messages of the last moment: their sender says them again."""
        for task in [one for one in self.pushed if one not in self.observer.done and one not in self._gone]:
            self._gone.add(task)
            self.seen["messages lost within the interval"] += 1

    def check_turns(self) -> None:
        """Every turn that was seen in time is in Redis or in the archive, in the bytes that were seen."""
        archived = archived_values(self.host.world)
        for key, versions in self.observer.turns.items():
            task = key.decode().split(":")[2]
            first, at = min(versions.items(), key=lambda item: item[1])
            if task in self.forgotten:
                continue
            there = self.host.world.redis.get(key) or archived.get(key)
            if self.safe(at) and there is None:
                self.outcome.found("lost", f"{key!r} is in neither Redis nor the archive")
            if self.safe(at) and len(versions) > 1:
                self.outcome.found("torn", f"{key!r} was written again: {sorted(versions)}")
            if there is None or first != there:
                self.seen["turns of the last moment"] += 1

    def check_asked(self) -> None:
        """No task that was seen done in time is asked after that."""
        for line in (self.host.world.root / "asked").read_text().splitlines():
            if len(line.split()) != 3:  # it was killed while it wrote
                continue
            at, _, task = line.split()
            done = self.observer.done.get(task)
            if done is not None and float(at) > done + GRACE_SECONDS:
                if self.safe(done):
                    self.outcome.found("torn", f"{task} was answered twice: done at {done}, asked again at {at}")
                self.seen["asked again"] += 1

    def check_memories(self) -> None:
        """Every fact that was confirmed in time is stored once."""
        path = self.host.state / "day-store.sqlite"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
            stored = Counter(str(text) for (text,) in store.execute("SELECT text FROM memories"))
        for task, (_, message, _) in self.pushed.items():
            done = self.observer.done.get(task)
            if (
                not message.startswith("/memory")
                or done is None
                or task in self.observer.refused
                or task in self.forgotten
            ):
                continue
            count = stored[message.removeprefix("/memory add ")]
            if count > 1:
                self.outcome.found("doubled", f"{message} is stored {count} times")
            if not count and self.safe(done):
                self.outcome.found("lost", f"{message}, confirmed at {done}, is not stored; faults {self.faults[-2:]}")

    def answered(self) -> list[str]:
        """Tasks whose two turns must be there: not commands, and not what was asked and lost within the interval."""
        archived, redis = archived_values(self.host.world), self.host.world.redis

        def is_there(key: str) -> bool:
            return bool(redis.exists(key)) or key.encode() in archived

        asked = [
            one
            for one, (_, message, _) in self.pushed.items()
            if message.startswith("message") and one not in self.forgotten
        ]
        return [one for one in asked if all(is_there(f"hcli:memory:{one}:{role}") for role in ("user", "asst"))]

    def forget(self, task: str) -> None:
        """By the owner, for ever."""
        done = self.host.world.command("hmem", "forget", "--turn", task, "--yes", "--later", check=False)
        self.forgotten[task] = time.time()
        if done.returncode not in (0, ForgetIncomplete.exit_code):  # the archive's part is left to the next night
            self.outcome.found("torn", f"hmem forget of {task} ended with {done.returncode}: {done.stderr[-400:]}")

    def check_forgotten(self) -> None:
        """The journal has no words of it, and the tombstones are in Redis and in the state directory."""
        if not self.forgotten:
            return
        redis: Any = self.host.world.redis
        stones = b"".join(redis.lrange("hcli:mem:tombstones", 0, -1))
        gone = [task for task in self.forgotten if f"{task}:user".encode() not in stones]
        for task in gone:
            if self.safe(self.forgotten[task]):
                self.outcome.found(
                    "lost", f"the tombstone of {task}, forgotten at {self.forgotten[task]}; faults {self.faults}"
                )
        self.seen["forgotten within the interval and back"] += len(gone)

        def words() -> list[str]:
            content = b"".join(path.read_bytes() for path in self.host.disk.iterdir())
            return [task for task in self.forgotten if task not in gone and f"message {task}".encode() in content]

        with suppress(BaseException):
            wait_for(lambda: not words(), "the journal to be rewritten", 10)
        for task in words():
            self.outcome.found("torn", f"the journal has words of {task}, which was forgotten")


def archived_values(world: World) -> dict[bytes, bytes]:
    found = {}
    for path in sorted((world.night_dir / "archive").glob("seg-*.jsonl")) if world.night_dir.is_dir() else []:
        for line in path.read_bytes().splitlines():
            record = orjson.loads(line)
            if record.get("kind") == "turn" and record.get("value") is not None:
                found[record["key"].encode()] = record["value"].encode()
    return found


def talk(model: Model, random: Random, number: int) -> int:
    ends = time.monotonic() + random.uniform(*TALK_SECONDS)
    while time.monotonic() < ends:
        model.say(number, random.choice(CHATS), fact=not random.randrange(FACT_EACH))
        number += 1
        time.sleep(random.uniform(*PAUSE_SECONDS))
    return number


def carry_out_night(host: Host, outcome: Outcome) -> None:
    code, output = night(host.world)
    if code != 0:
        outcome.found("torn", f"a night ended with {code}: {output[-600:]}")


def one_round(host: Host, model: Model, random: Random, number: int, at: int) -> int:
    """Talk, a fault, the way back, and what is true then."""
    number = talk(model, random, number)
    if random.random() < 0.3:
        host.keep_older()
    kind = random.choices(list(FAULTS), weights=list(FAULTS.values()))[0]
    began = time.time()
    host.fault(kind)
    model.faults.append((began, time.time()))
    model.seen[kind] += 1
    with_night = at % NIGHT_EACH == NIGHT_EACH - 1
    if with_night and host.dispatcher is None and random.random() < 0.5:
        model.seen["nights from the journal"] += 1
        carry_out_night(host, model.outcome)
        with_night = False
    if kind == "both disks" and random.random() < 0.5:
        done = host.world.command("hmem", "restore", "--day", "--json", check=False)
        model.seen["hmem restore --day"] += 1
        if done.returncode != 0:
            model.outcome.found("lost", f"hmem restore --day ended with {done.returncode}: {done.stderr[-400:]}")
    host.start()
    model.settle()
    if not random.randrange(FORGET_EACH) and (answered := model.answered()):
        model.forget(random.choice(answered))
        model.seen["forgotten"] += 1
    if with_night:
        model.seen["nights"] += 1
        carry_out_night(host, model.outcome)
    model.check_memories()
    return number


@chaos(
    "disk", "by day: the disks of Redis and dispatcher vanish, or an older Redis comes back, and the journal restores"
)
def run(bench: Bench) -> Outcome:
    random, outcome = bench.random("disk"), Outcome(rounds=bench.rounds, faults=bench.rounds)
    host = Host(bench, random)
    observer = Observer(host.server.url)
    model, number = Model(host, observer, outcome), 0
    observer.start()
    try:
        for at in range(bench.rounds):
            number = one_round(host, model, random, number, at)
            if at % 20 == 19:
                bench.say(f"{at + 1} rounds, {number} messages, lost {outcome.lost}, torn {outcome.torn}")
        observer.look()
        model.check_turns()
        model.check_asked()
        model.check_forgotten()
        wait_for(lambda: not host.world.redis.hlen("hcli:mem:busy"), "the last answers")
        observer.look()
        carry_out_night(host, outcome)
    finally:
        observer.end()
        host.kill()
    _judge_archive(host, model, outcome)
    outcome.notes.append(json.dumps({"messages": number, **model.seen}))
    return outcome


def _judge_archive(host: Host, model: Model, outcome: Outcome) -> None:
    """The harness' own judge, of archive, release and recall, over every turn that must be there."""
    shadow = Shadow()
    for key, versions in model.observer.turns.items():
        task = key.decode().split(":")[2]
        for value, at in sorted(versions.items(), key=lambda item: item[1]):
            shadow.tried.setdefault(key, []).append(value)
            if model.safe(at) and task not in model.forgotten:
                shadow.acknowledged(key, value)
        if task in model.forgotten and model.safe(model.forgotten[task]):
            shadow.forgotten[f"{task}:{key.decode().rpartition(':')[2]}"] = f"message {task}".encode()
    outcome.add(judge(host.world, shadow, at_rest=True))
