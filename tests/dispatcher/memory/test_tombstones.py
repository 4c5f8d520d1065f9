"""The tombstone filter of the day host: durable, shared by processes, and no memory rather than a forgotten one."""

from __future__ import annotations

import stat
import subprocess
import sys
import time
from contextlib import closing, nullcontext
from pathlib import Path
from typing import cast

import pytest
from redis import Redis

from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.read_for_prompt import PromptRequest
from dispatcher.memory.tombstones import Forgotten, announce
from dispatcher.prompt.assemble import assemble
from dispatcher.prompt.context import Context
from shared.errors import StorageError
from shared.turns.records import Tombstone, Turn
from tests.support.stores import at_once
from tests.support.world import REPOSITORY, World

NOW = 1_800_000_000.0


def stone(name: str, chat: str = "9912", *turns: str, before: float | None = None) -> Tombstone:
    return Tombstone(name, chat, NOW, before, frozenset(turns) or None)


def turn(task: str, chat: str = "9912", at: float = NOW - 10) -> Turn:
    return Turn(task, "user", chat, "the garage code is 7731", at)


def test_a_tombstone_is_read_back_by_its_own_chat_and_by_other_processes(tmp_path: Path) -> None:
    here, there = Forgotten(tmp_path / "state"), Forgotten(tmp_path / "state")
    assert (here.of("9912"), here.all()) == ([], [])
    here.add(stone("f1", "9912", "t1:user"))
    here.add(stone("f2", "77", "t1:user"))
    assert there.of("9912") == [stone("f1", "9912", "t1:user")]
    there.add(stone("f3", "9912", before=NOW - 100))
    assert [one.tombstone_id for one in here.of("9912")] == ["f1", "f3"], "what another process adds is seen"
    assert [one.tombstone_id for one in here.all()] == ["f1", "f3", "f2"]
    assert [here.covers(turn(*one)) for one in (("t1",), ("t2",), ("t2", "77"), ("t1", "77"), ("t2", "9912", NOW - 101))] == [
        True, False, False, True, True,
    ]  # fmt: skip
    assert stat.S_IMODE((tmp_path / "state" / "forgotten.jsonl").stat().st_mode) & 0o077 == 0


def test_threads_and_processes_lose_none(tmp_path: Path) -> None:
    body = (
        "import sys; from pathlib import Path; from dispatcher.memory.tombstones import Forgotten; from shared.turns.records import Tombstone\n"
        "filter_ = Forgotten(Path(sys.argv[1]))\n"
        "for n in range(15): filter_.add(Tombstone(f'p{sys.argv[2]}-{n}', '9912', 1.0, turn_ids=frozenset({'t:user'})))"
    )
    others = [
        subprocess.Popen([sys.executable, "-c", body, str(tmp_path), str(number)], cwd=REPOSITORY)
        for number in range(2)
    ]
    filter_ = Forgotten(tmp_path)

    def add(number: int) -> None:
        for n in range(15):
            filter_.add(stone(f"t{number}-{n}", "9912", "t:user"))
            assert filter_.of("9912")

    at_once(add, 3)
    assert [one.wait(600) for one in others] == [0, 0]
    assert {one.tombstone_id for one in filter_.of("9912")} == {
        f"{kind}-{n}" for kind in ("p0", "p1", "t0", "t1", "t2") for n in range(15)
    }


REQUEST = PromptRequest("9912", "what is the garage code?", count_access=False)


DAMAGES = (
    b'{"tombstone_id": "f9"',
    b"\xff\xfe",
    b"[]",
    b'{"tombstone_id":"x","chat_id":"1","created_at":1,"turn_ids":[]}',
)


def test_with_a_damaged_file_nothing_is_recalled_and_it_says_so(light: World) -> None:
    settings = light.settings(memory_deadline_ms=20_000)  # the machine may be busy
    with closing(DayMemory(settings, nullcontext)) as day:
        day.upkeep.store_turns([turn("t1", at=time.time() - 60)])

        def asked() -> Context:
            return assemble(REQUEST, settings, None, day)

        assert "7731" in asked().text
        day.forgotten.add(stone("f1", "9912", "t9:user"))
        path = settings.hmem_state_dir / "forgotten.jsonl"
        whole = path.read_bytes()
        for damage in DAMAGES:
            path.write_bytes(whole + damage + b"\n")
            told = asked()
            assert told.text == ""
            assert "no memory at all: forgotten.jsonl has a line that is not a tombstone" in told.degraded[0]
            with pytest.raises(StorageError, match="Fix that line"):
                day.forgotten.add(stone("f2", "9912", "t8:user"))
            assert path.read_bytes() == whole + damage + b"\n", "what it holds is not overwritten"
        path.write_bytes(whole)
        assert "7731" in asked().text, "as soon as it is mended"


def test_a_place_that_cannot_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file in the way")
    with pytest.raises(StorageError, match="Nothing was forgotten"):
        Forgotten(tmp_path / "state").add(stone("f1", "9912", "t1:user"))


def test_what_is_announced_twice_stands_once_in_redis(redis: Redis) -> None:
    stones = [stone("f1", "9912", "t2:user", "t1:user"), stone("f2", "77", before=5.0)]
    assert (announce(redis, stones), announce(redis, stones), announce(redis, [])) == (2, 0, 0)
    assert [Tombstone.parse(cast(bytes, raw)) for raw in redis.lrange("hcli:mem:tombstones", 0, -1)] == stones
