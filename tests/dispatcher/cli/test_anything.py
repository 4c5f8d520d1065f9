"""Any text and any JSON value that a task may hold goes through everything; any bytes are refused with a reason, or carried. Never a stop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import pytest
from structlog.testing import capture_logs

from dispatcher.answering.commands.command import read_command
from dispatcher.answering.opening import open_parts
from dispatcher.answering.task_handler import TaskHandler
from dispatcher.answering.worker import Worker
from dispatcher.claude.client import ClaudeCli, ClaudeRequest
from dispatcher.claude.events import Progress
from dispatcher.claude.reply import Answer
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.session_summary import SummaryWriter, in_thread
from dispatcher.queue.chat_commands import dispatcher_commands
from dispatcher.releases.served import ServedRelease
from nightly.archive import export
from nightly.backfill import import_files
from nightly.imports.candidates import Wanted
from nightly.night.progress import Reporter
from shared.release.manifest import current_release
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.turns.records import RecordRefused, Task, Tombstone
from shared.turns.signed import Result
from shared.wire.client import open_async_redis
from tests.support.day.anything import EXAMPLES, damaged, drawn, tasks, through
from tests.support.day.forgetting_world import hmem
from tests.support.night.whole_archive import read_archive
from tests.support.world import SECRET, World

QUIET = Reporter(quiet=True)
#: The first chat is forgotten. The others are kept; what they say must stay.
FORGOTTEN, *KEPT = CHATS = ["7", "8", "-100123", "a chat", "a:b*"]

#: Kinds of values; each gets its share of the examples.
KINDS = 8
SHARE = max(1, EXAMPLES // KINDS)

TASK = {"task_id": "t", "message": "hello", "chat_id": "8", "user_id": 1, "submitted_at": "2026-11-22T10:00:00Z"}
TURN = {"task_id": "t", "role": "user", "chat_id": "8", "content": "hello", "timestamp": 1.7e9, "name": "Ann"}
TOMBSTONE = json.loads(Tombstone("s", "8", 1.7e9, turn_ids=frozenset({"t:user"}), said_at={"t:user": 1.0}).to_json())


class Echo(ClaudeCli):
    """In place of the CLI's process, which carries nothing of this further: it answers with the message."""

    async def ask(self, question: ClaudeRequest, report: Callable[[Progress], None] | None = None) -> Answer:
        return Answer(f"You said: {question.message}".encode("utf-8", "replace").decode(), session_cost=None)

    async def flags(self) -> tuple[str, ...]:
        return ()


@pytest.fixture
def quick(light: World) -> World:
    light.environment |= {"CONSOLIDATION_INTERVAL": "0.2", "MEMORY_DEADLINE_MS": "10000", "MAX_CONCURRENT_TASKS": "8"}
    return light


def answer_all(world: World) -> None:
    """The dispatcher, in this process, until nothing is queued and the day's store has every turn; no error may have been logged."""

    async def run() -> None:
        settings, loop = world.settings(), asyncio.get_running_loop()
        served, claude = ServedRelease(settings), Echo(settings)
        writer = SummaryWriter(settings, partial(in_thread, claude, settings, loop))
        day = DayMemory(settings, served.reading, writer)
        client = open_async_redis(settings.redis_url)
        worker = Worker(settings, client, TaskHandler(open_parts(settings, client, claude, day, served)))
        running = asyncio.create_task(worker.run())
        while not running.done() and await asyncio.to_thread(busy, world):
            await asyncio.sleep(0.05)
        worker.stop()
        await running
        await client.aclose()

    with capture_logs() as logged:
        asyncio.run(run())
    errors = [line for line in logged if line["log_level"] in ("error", "critical") or line.get("exc_info")]
    assert not errors, errors[:3]


def busy(world: World) -> bool:
    unread = [key for key in world.redis.scan_iter(match="hcli:mem:unconsolidated:*") if world.redis.llen(key)]
    return bool(world.redis.exists("hcli:tasks", "hcli:mem:busy") or unread)


def canary(number: int) -> str:
    return f"zq{number:06d}qz"


def as_task(number: int, value: dict[str, Any]) -> bytes:
    """The value as a task of one of the chats, with a word in its message that is nowhere else."""
    message = value["message"]
    marked = f"{message} {canary(number)}" if isinstance(message, str) else message
    return json.dumps(
        value | {"message": marked, "task_id": f"t{number}", "chat_id": CHATS[number % len(CHATS)]}
    ).encode()


Parsed = TypeVar("Parsed")


def taken(parse: Callable[[bytes], Parsed], raw: bytes) -> Parsed | None:
    """None if it is refused."""
    with contextlib.suppress(RecordRefused):
        return parse(raw)
    return None


def _is_command(message: str) -> bool:
    command = read_command(message)
    return command is not None and command[0] in dispatcher_commands()


def said(world: World, raws: list[bytes]) -> dict[str, Task]:
    """Queue them and have them answered; the tasks that became turns, by id. Each other one is a dead letter, or was a command."""
    for raw in raws:
        world.redis.rpush("hcli:tasks", raw)
    answer_all(world)
    found = {task.task_id: task for raw in raws if (task := taken(Task.parse, raw)) and not _is_command(task.message)}
    assert world.redis.llen("hcli:mem:dead") >= sum(taken(Task.parse, raw) is None for raw in raws)
    for task in found.values():
        stored = json.loads(world.redis.get(f"hcli:memory:{task.task_id}:user") or b"null")
        assert stored["content"] == task.said, "the message as it came"
        answered: Any = world.redis.get(f"hcli:results:{task.task_id}")
        result = Result.parse(answered)
        assert result.verify(SECRET, task.task_id)
    return found


def versions(world: World) -> dict[str, bytes]:
    archived = read_archive(world.night_dir / "archive").versions
    return {turn_id: turn.to_json() for turn_id, (turn, _) in archived.items()}


def search(world: World, found: dict[str, Task]) -> None:
    """Each message as a question: it is answered, from its own chat. (Of nearly equal messages one is found and names the others.)"""
    release = current_release(world.memory_dir)
    assert release
    with contextlib.closing(OpenRelease(world.settings(), release)) as opened:
        for task in found.values():
            recall = opened.recall(Query(task.chat_id, task.message, 5))
            assert {hit.chunk.chat_id for hit in recall.hits} <= {task.chat_id}
            turn_id = f"{task.task_id}:user"
            assert opened.holds(task.chat_id, [turn_id]) == {turn_id}


def elsewhere(world: World) -> World:
    """An empty installation on the same Redis, out of the way of what is searched for words."""
    root = world.root.parent / f"{world.root.name}-elsewhere"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    return World(root, world.redis, world.url, world.environment)


def words_left(world: World, numbers: list[int]) -> list[str]:
    """Places that hold one of the words."""
    words = [canary(number).encode() for number in numbers]
    values = {str(path): path.read_bytes() for path in world.root.rglob("*") if path.is_file()}
    client: Any = world.redis
    for key in client.scan_iter():
        values[f"redis {key!r}"] = key + (client.dump(key) or b"")
    for key in client.scan_iter(_type="string"):
        values[f"redis {key!r}"] += client.get(key) or b""
    return [place for place, content in values.items() if any(word in content for word in words)]


def test_any_task_passes_through_everything(quick: World) -> None:
    """say → night → search → export → import elsewhere → forget → night."""

    def cycle(values: Sequence[tuple[int, dict[str, Any]]]) -> None:
        clean(quick)
        raws = [as_task(number, value) for number, value in values]
        found = said(quick, raws)
        (night,) = quick.night()
        assert (night["quarantined"], night["set_aside"], night["without_summary"]) == (0, {}, {})
        assert night["exported"] == night["deleted"] == 2 * len(found)
        if not found:
            return
        search(quick, found)
        before = versions(quick)
        assert set(before) == {f"{task_id}:{role}" for task_id in found for role in ("user", "asst")}
        carried(quick, before)
        if any(task.chat_id == FORGOTTEN for task in found.values()):
            forget(quick)
        assert quick.night()[-1]["set_aside"] == {}
        gone = [task for task in found.values() if task.chat_id == FORGOTTEN]
        assert words_left(quick, [int(task.task_id[1:]) for task in gone]) == []
        kept = {name for name in before if found[name.partition(":")[0]].chat_id != FORGOTTEN}
        assert versions(quick) == {name: raw for name, raw in before.items() if name in kept}, "others are untouched"

    assert through(list(enumerate(drawn(tasks, SHARE))), cycle) == SHARE


def forget(world: World) -> None:
    """All of a chat, for good. The scan may name places where others said the same pieces; `words_left` knows better, so that is accepted."""
    done = hmem(world, "forget", f"--chat={FORGOTTEN}", "--yes", "--json")
    assert done.stdout, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["pending"] == [], done.stderr
    if not record["complete"]:
        assert hmem(world, "forget", "--resume", "--accept").returncode == 0


def carried(world: World, before: dict[str, bytes]) -> None:
    """Export, and import into an installation that has nothing: the same turns, byte for byte."""
    other = elsewhere(world)
    out = other.root / "export"
    export.export_archive(world.settings(), out, export.ExportScope(), QUIET)
    if before:
        request = import_files.Request("jsonl", [out], Wanted())
        import_files.bring_in(other.settings(), request, QUIET)
        assert versions(other) == before


def clean(world: World) -> None:
    """A new installation in the same place."""
    for path in world.root.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    world.redis.flushall()


def test_any_bytes_are_a_task_or_a_dead_letter(quick: World) -> None:
    def cycle(values: Sequence[bytes]) -> None:
        clean(quick)
        for number, raw in enumerate(values):
            quick.redis.rpush("hcli:tasks", raw.replace(b'"t"', b'"t%d"' % number, 1))
        answer_all(quick)
        assert not quick.redis.exists("hcli:tasks", "hcli:mem:busy")
        quick.night()

    assert through(drawn(damaged([TASK]), SHARE), cycle) == SHARE


@pytest.mark.slow
def test_any_bytes_are_a_turn_or_quarantined(quick: World) -> None:
    def cycle(values: Sequence[bytes]) -> None:
        clean(quick)
        for number, raw in enumerate(values):
            quick.redis.set(b"hcli:memory:t%d:user" % number, raw.replace(b'"t"', b'"t%d"' % number, 1))
        (night,) = quick.night()
        assert night["exported"] == night["new"] + night["quarantined"] == len(values) == night["deleted"]
        assert night["set_aside"] == {}
        quick.push_tombstone(Tombstone("all", "8", 1e10, erase=True))
        (night,) = quick.night()
        assert not [turn_id for turn_id, raw in versions(quick).items() if json.loads(raw)["chat_id"] in ("8", 8)]

    assert through(drawn(damaged([TURN]), SHARE), cycle) == SHARE


def test_any_bytes_are_a_tombstone_or_refused(quick: World) -> None:
    def cycle(values: Sequence[bytes]) -> None:
        clean(quick)
        quick.say("precious", "the boiler stopped", chat_id="77")
        for raw in values:
            quick.redis.rpush("hcli:mem:tombstones", raw)
        quick.push_tombstone(Tombstone("real", "78", 1.0, erase=True))
        (night,) = quick.night()
        refused = sum(night["refused_tombstones"].values())
        hiding = [one for raw in values if (one := taken(Tombstone.parse, raw)) and not one.erase]
        assert refused == len(values) - len(hiding), "what would erase is not signed, the rest cannot be read"
        assert "precious:user" in versions(quick)

    assert through(drawn(damaged([TOMBSTONE, TOMBSTONE | {"erase": True}]), SHARE), cycle) == SHARE
