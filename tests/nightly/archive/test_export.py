"""Everything out of the archive, and in again: what a person reads, what a program takes back, and what stays out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nightly.archive.export import ExportScope, export_archive
from nightly.archive.segments import RawRecord, write_segment
from nightly.night.progress import Item, Reporter
from shared.errors import InvalidInput, NightRunning
from shared.release.manifest import LEXICAL
from shared.system.files import safe_name
from shared.turns.records import Tombstone, Turn
from tests.nightly.imports.test_staging import archive
from tests.support.night.archives import chunks_in
from tests.support.samples import ODD_CHATS
from tests.support.world import World


def export(world: World, out: str = "out", **wanted: Any) -> Path:
    """The export in this process; where it lies."""
    folder = world.root / out
    export_archive(world.settings(), folder, ExportScope(**wanted), Reporter(quiet=True))
    return folder


def turns(folder: Path, chat_id: str = "9912") -> list[bytes]:
    return (folder / safe_name(chat_id) / "turns.jsonl").read_bytes().splitlines()


def document(folder: Path, chat_id: str = "9912") -> str:
    return (folder / safe_name(chat_id) / "conversation.md").read_text(encoding="utf-8")


def index(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "index.json").read_bytes())
    return found


def put(world: World, task_id: str, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    world.redis.set(f"hcli:memory:{task_id}:user", raw)
    return raw


def forget(world: World, tombstone_id: str, chat_id: str, **more: Any) -> None:
    world.push_tombstone(Tombstone(tombstone_id, chat_id, 1_707_600_000.0, **more))


def talk(world: World) -> dict[str, bytes]:
    """Three nights of several chats with everything that bytes can be up to; task id → value."""
    values = {
        task_id: put(world, task_id, line)
        for task_id, line in {
            "odd": r'{"task_id":"odd","role":"user","chat_id":9912,"content":"a\/b \u0416","timestamp":1.7075e9,"x":1e3}',
            "spaces": '{ "task_id": "spaces", "role": "user", "chat_id": "9912", "content": "", "timestamp": 1707500001 }',
            "surrogate": r'{"task_id":"surrogate","role":"user","chat_id":"9912","content":"\ud83d! 🙂 Да","timestamp":1707500002.5}',
            "lines": '{\n"task_id":"lines","role":"user","chat_id":"9912","content":"pretty","timestamp":1707500003}',
            "nameless": '{"chat_id":"9912","content":"the key alone says who","timestamp":1707500004}',
            "kind": '{"kind":"turn","task_id":"kind","role":"user","chat_id":"9912","content":"k","timestamp":1707500005}',
            "tail": '{"task_id":"tail","role":"user","chat_id":"9912","content":"t","timestamp":1707500006} ',
            "many": '{"task_id":"many","role":"user","chat_id":"9912","content":"v1","timestamp":1707500007}',
        }.items()
    }
    world.say("many", "```py\nx = 1\n```", role="asst", timestamp=1_707_500_008.0)
    put(world, "bytes", b'{"task_id":"bytes","role":"user","chat_id":"9912","content":"\xff\xfe","timestamp":1}')
    world.redis.rpush("hcli:memory:list:user", "no string")
    world.redis.set(b"hcli:memory:\xff:user", b"a key that is no UTF-8")
    for number, chat_id in enumerate(ODD_CHATS):
        world.say(f"odd-{number}", f"said in {number}", chat_id=chat_id, name="Аня 🙂")
    world.say("gone", "nobody hears of the walrus again", chat_id="9912", timestamp=1_707_400_000.0)
    world.say("whole", "all of this chat goes", chat_id="lost")
    world.night()
    put(
        world,
        "many",
        '{"task_id":"many","role":"user","chat_id":"9912","content":"v2 replaces it","timestamp":1707500000}',
    )
    put(world, "odd-1", '{"task_id":"odd-1","role":"user","chat_id":"9912","content":"moved","timestamp":1707500009}')
    forget(world, "stone-1", "9912", before=1_707_450_000.0)
    forget(world, "stone-2", "lost")
    world.night()
    world.say("later", "said on another day", timestamp=1_707_700_000.0)
    world.night()
    return values


# ------------------------------------------------------------------------------------------------------------ what is written


@pytest.mark.slow
def test_the_values_stand_as_they_were_where_they_can(light: World) -> None:
    values = talk(light)
    out = export(light)
    lines = turns(out)
    for task_id in ("odd", "spaces", "surrogate"):
        assert values[task_id] in lines
    records = [json.loads(line) for line in lines]
    wrapped = {record["key"]: record for record in records if "sha256" in record}
    assert set(wrapped) == {f"hcli:memory:{name}:user" for name in ("lines", "nameless", "kind", "tail")}
    for name in ("lines", "nameless", "kind", "tail"):
        record = wrapped[f"hcli:memory:{name}:user"]
        assert (record["kind"], record["value"].encode()) == ("turn", values[name])
        assert RawRecord.from_json(record).sha256 == record["sha256"]
    said = [record["content"] for record in records if record.get("task_id") == "many" and record["role"] == "user"]
    assert said == ["v2 replaces it"], "the version of the highest run, though it bears the earlier time"
    assert records[0]["content"] == "v2 replaces it", "where its last version belongs"
    assert b"walrus" not in b"".join(lines)


def test_a_part(light: World) -> None:
    for number in range(4):
        light.say(f"a{number}", f"note {number}", timestamp=1_707_500_000.0 + number)
        light.say(f"b{number}", f"note {number}", chat_id="-100", timestamp=1_707_500_000.0 + number)
    forget(light, "stone", "-100", turn_ids=frozenset({"b1:user"}))
    light.night()
    out = export(light, chats=frozenset({"-100"}), since=1_707_500_001.0, until=1_707_500_003.0)
    assert sorted(path.name for path in out.iterdir()) == ["-100", "README.txt", "index.json"]
    assert [json.loads(line)["task_id"] for line in turns(out, "-100")] == ["b2"]
    assert index(out)["part"] is True
    readme = (out / "README.txt").read_text(encoding="utf-8")
    assert "a part of the archive: chat -100, since 2024-02-09 17:33" in readme
    with pytest.raises(InvalidInput, match="no turns of chat nobody"):
        export(light, "none", chats=frozenset({"nobody"}))
    assert not (light.root / "none").exists()


def test_a_forgotten_last_version_takes_the_earlier_ones_along(light: World) -> None:
    """Else the earlier one would be the last of those that are brought back, and be remembered."""
    late, early = 1_707_700_000.0, 1_707_500_000.0
    nights = [
        archive(Turn("t1", "user", "9912", "first", late), Turn("t2", "user", "9912", "early", early)),
        archive(Turn("t1", "user", "9912", "second", early), Turn("t2", "user", "9912", "late", late)),
        archive(stones=[Tombstone("stone", "9912", late, before=1_707_600_000.0)]),
    ]
    folder = light.night_dir / "archive"
    folder.mkdir(parents=True)
    for run, lines in enumerate(nights, start=1):
        write_segment(folder / f"seg-{run}.jsonl", run, lines)
    assert [json.loads(line)["content"] for line in turns(export(light))] == ["late"]


# ------------------------------------------------------------------------------------------------------- whole, or not at all


class Interrupted(Reporter):
    """Calls back after the first item of a kind of work."""

    def __init__(self, what: str, call: Any, times: int = 1) -> None:
        super().__init__(quiet=True)
        self.what, self.call, self.times = what, call, times

    def track(self, items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
        for item in super().track(items, total, what):
            yield item
            if what == self.what and self.times:
                self.times -= 1
                self.call()


def test_a_segment_that_is_replaced_meanwhile(light: World) -> None:
    light.say("t1", "hello")
    light.night()
    segment = light.night_dir / "archive" / "seg-1.jsonl"

    def replace() -> None:
        copy = segment.with_suffix(".new")
        copy.write_bytes(segment.read_bytes())
        copy.replace(segment)

    folder = light.root / "out"
    export_archive(light.settings(), folder, ExportScope(), Interrupted("writing chats", replace))
    assert len(turns(folder)) == 1, "read once more"
    with pytest.raises(NightRunning, match="rewrote the archive"):
        export_archive(
            light.settings(), light.root / "again", ExportScope(), Interrupted("writing chats", replace, times=2)
        )
    assert not (light.root / "again").exists()


def test_the_command(light: World) -> None:
    light.say("t1", "hello", chat_id="-100")
    light.say("t2", "gone", chat_id="-100")
    forget(light, "stone", "-100", turn_ids=frozenset({"t2:user"}))
    light.night()
    out = str(light.root / "out")
    done = light.command("hmem-night", "export-archive", "--out", out)
    assert done.stdout == f"{out} has 1 turn of 1 chat; 1 forgotten turn left out.\n"
    told = json.loads(
        light.command("hmem-night", "export-archive", "--out", f"{out}-2", "--json", "--chat", "-100").stdout
    )
    assert (told["out"], told["counts"]["turns"], told["tombstones"][0]["tombstone_id"]) == (f"{out}-2", 1, "stone")
    for wrong in (("--since", "yesterday"), ("--chat", "0"), ()):
        assert light.command("hmem-night", "export-archive", "--out", out, *wrong, check=False).returncode == 24


# ----------------------------------------------------------------------------------------------------------- out and in again


def release_texts(world: World) -> dict[str, str]:
    chunks = chunks_in(world.memory_dir / "current" / LEXICAL)
    return {one.chunk_id: f"{one.chat_id} {one.started_at} {one.speaker} {one.text}" for one in chunks}


def all_turns(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("turns.jsonl")}


@pytest.mark.slow
def test_out_and_in_again_loses_no_turn(light: World) -> None:
    talk(light)
    first, said = export(light), release_texts(light)
    light.redis.flushall()
    again = World(light.root / "again", light.redis, light.url, light.environment)
    again.command("hmem-night", "backfill", "jsonl", str(first))
    second = export(again)
    assert all_turns(second) == all_turns(first), "byte for byte"
    for chat_id in ("9912", *ODD_CHATS):
        assert document(second, chat_id) == document(first, chat_id)
    assert release_texts(again) == said
    again.command("hmem-night", "backfill", "jsonl", str(first))
    assert index(export(again, "third"))["counts"] == index(second)["counts"], "once more gives nothing new"
    assert index(second)["counts"] == index(first)["counts"] | {"forgotten": 0}, "that was left behind"
