"""Backfills by the real commands: taken once, whatever is killed, whatever runs beside it, and never what was forgotten."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nightly.archive.segments import RawRecord, segment_name, write_segment
from nightly.backfill import import_files
from nightly.imports.staging import staged_files
from nightly.night.folder import imports_dir
from nightly.night.lease import night_lock
from nightly.night.progress import Reporter
from shared.errors import NightRunning
from shared.turns.records import Tombstone, Turn
from tests.support.machine import wait_for
from tests.support.night.old_history import ANN, BOT, EXCHANGE, LOG, NOON, bare, bot_chat, chunk_file, message
from tests.support.night.whole_archive import read_archive
from tests.support.world import BINARIES, World

LINES = b"\n".join(
    [bare("j1", "Привет из прошлого"), bare("j1", "and the answer 🦉", role="asst"), b"broken", bare("j2", "more")]
)
DIALOGUE = bot_chat(message(1, ANN, "какая погода сегодня?"), message(2, BOT, "It is cold, minus five degrees.", NOON + 5),
                    message(3, ANN, "спасибо", NOON + 9))  # fmt: skip

#: Source → (its file, its content, more options, (found, unreadable)).
FORMATS: dict[str, tuple[str, bytes, list[str], tuple[int, int]]] = {
    "jsonl": ("turns.jsonl", LINES, [], (3, 1)),
    "chunks": ("chunk_20260209T173320Z.txt", chunk_file(EXCHANGE), [], (3, 0)),
    "audit": (
        "audit.log",
        "\n".join(x if isinstance(x, str) else json.dumps(x) for x in LOG).encode(),
        ["--chat", "9912"],
        (3, 2),
    ),
    "telegram": ("result.json", json.dumps(DIALOGUE).encode(), [], (3, 0)),
}


def file_of(world: World, source: str) -> list[str]:
    """The arguments of a backfill of this kind, its file written."""
    name, content, options, _ = FORMATS[source]
    path = world.root / name
    path.write_bytes(content)
    return [source, str(path), *options]


def backfill(world: World, *arguments: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
    return world.command("hmem-night", "backfill", *arguments, check=check, **more)


def request(arguments: tuple[str, ...], world: World) -> import_files.Request:
    source, path, *options = arguments
    given = dict(zip(options[::2], options[1::2], strict=True))
    since, until, chat = (given.pop(name, None) for name in ("--since", "--until", "--chat"))
    wanted = import_files.wanted_of(since, until, chat, world.settings().timezone)
    return import_files.Request(source, [Path(path)], wanted, {name[2:]: value for name, value in given.items()})


def report(world: World, *arguments: str) -> dict[str, Any]:
    """The same, in this process: its report."""
    return import_files.bring_in(world.settings(), request(arguments, world), Reporter(quiet=True))


def staged(world: World, *arguments: str) -> None:
    """The same while a night runs, which leaves it to the next."""
    with night_lock(world.settings()), pytest.raises(NightRunning, match="What was read waits"):
        report(world, *arguments)


def plan(world: World, *arguments: str) -> dict[str, Any]:
    """What `--dry-run` says."""
    return import_files.plan(world.settings(), request(arguments, world), Reporter(quiet=True))


def archived(world: World) -> dict[str, tuple[str, bytes]]:
    """Turn id → (chat, content) of what may be recalled."""
    turns = read_archive(world.night_dir / "archive").turns()
    return {turn.turn_id: (turn.chat_id, turn.to_json()) for turn in turns}


def turns_in_archive(world: World) -> int:
    return sum(path.read_bytes().count(b'{"kind":"turn"') for path in (world.night_dir / "archive").glob("seg-*.jsonl"))


def fates(found: dict[str, Any]) -> tuple[int, int, int, int]:
    return found["new"], found["known"], found["differs"], found["forgotten"]


@pytest.mark.parametrize("source", FORMATS)
def test_each_kind_once(light: World, source: str) -> None:
    arguments, (found, unreadable) = file_of(light, source), FORMATS[source][3]
    dry = plan(light, *arguments)
    assert (dry["found"], dry["unreadable"], dry["new"]) == (found, unreadable, found)
    assert not (light.night_dir / "imports").exists()
    assert not (light.night_dir / "archive").exists()
    first = report(light, *arguments)
    assert {name: first[name] for name in ("found", "new", "unreadable", "chats", "first", "last")} == {
        name: dry[name] for name in ("found", "new", "unreadable", "chats", "first", "last")
    }
    assert first["nights"][-1]["published"]
    assert len(archived(light)) == found
    before = archived(light)
    again = report(light, *arguments)
    assert fates(again) == (0, found, 0, 0)
    assert archived(light) == before
    assert turns_in_archive(light) == found, "nothing twice, not even in the archive"
    assert staged_files(imports_dir(light.settings())) == []


@pytest.mark.slow
def test_the_report_names_places_and_no_words(light: World) -> None:
    done = backfill(light, *file_of(light, "jsonl"))
    assert "3 turns found: 3 new, from 2026-02-09 to 2026-02-09" in done.stdout
    assert "turns.jsonl:3: not JSON" in done.stdout
    assert "Привет" not in done.stdout + done.stderr
    assert "The bot can recall it now. (Night 1, " in done.stdout


def test_since_until_and_chat(light: World) -> None:
    path = light.root / "turns.jsonl"
    path.write_bytes(
        b"\n".join(bare(f"t{i}", f"day {i}", timestamp=NOON + 86400 * i, chat_id=i % 2 + 1) for i in range(6))
    )
    narrow = ["--since", "2026-02-10T12:00", "--until", f"{NOON + 86400 * 5}"]
    found = report(light, "jsonl", str(path), *narrow, "--chat", "2")
    assert sorted(archived(light)) == ["t1:user", "t3:user"]
    assert found["left_out"] == {"outside --since and --until": 1, "of another chat than --chat": 3}
    assert fates(plan(light, "jsonl", str(path))) == (4, 2, 0, 0)


def test_killed_and_run_again(light: World) -> None:
    arguments = file_of(light, "jsonl")
    light.say("day", "of the day", timestamp=NOON)
    killed = backfill(light, *arguments, check=False, HMEM_CRASH_AT="archive:segment-written")
    assert killed.returncode == -signal.SIGKILL
    found = report(light, *arguments)
    assert fates(found) == (3, 0, 0, 0), "of the night that took it"
    assert sorted(archived(light)) == ["day:user", "j1:asst", "j1:user", "j2:user"]
    assert turns_in_archive(light) == 4
    assert light.redis.keys("hcli:memory:*") == []
    assert staged_files(imports_dir(light.settings())) == []
    assert fates(report(light, *arguments)) == (0, 3, 0, 0)


@pytest.mark.slow
def test_killed_while_it_stages(light: World) -> None:
    fifo = light.root / "slow.jsonl"
    os.mkfifo(fifo)
    command = [str(BINARIES / "hmem-night"), "backfill", "jsonl", str(fifo), "--json"]
    with (
        subprocess.Popen(
            command, env=light.variables(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process,
        fifo.open("wb") as pipe,
    ):
        pipe.write(bare("s0", "half an import") + b"\n")
        pipe.flush()
        wait_for(lambda: [*(light.night_dir / "imports").glob(".*.tmp")], "the staging to begin")
        process.kill()
        process.wait(timeout=600)
    fifo.unlink()
    assert staged_files(imports_dir(light.settings())) == []
    fifo.write_bytes(bare("s0", "half an import") + b"\n" + bare("s1", "the rest"))
    assert fates(report(light, "jsonl", str(fifo))) == (2, 0, 0, 0)
    assert [*imports_dir(light.settings()).iterdir()] == []


@pytest.mark.slow
def test_beside_a_running_night(light: World) -> None:
    arguments = file_of(light, "chunks")
    for _ in range(2):
        staged(light, *arguments)
    assert len(staged_files(imports_dir(light.settings()))) == 1, "the same import, staged once"
    (summary,) = light.night()
    assert summary["new"] == 3
    assert len(archived(light)) == 3
    assert fates(report(light, *arguments)) == (0, 3, 0, 0)


@pytest.mark.slow
def test_an_overlap_with_what_the_wire_recorded_gives_nothing_new(light: World) -> None:
    light.say("w1", "Какая погода сегодня", timestamp=NOON - 2, chat_id=str(ANN))
    light.say("w1", "**It is cold**, minus _five_ degrees.", role="asst", timestamp=NOON + 4, chat_id=str(ANN))
    assert fates(report(light, *file_of(light, "telegram"))) == (1, 2, 0, 0), "recorded in this very night"
    light.say("w2", "and tomorrow?", timestamp=NOON + 4000, chat_id=str(ANN))
    light.night()
    assert fates(report(light, *file_of(light, "telegram"))) == (0, 3, 0, 0)
    text = chunk_file([(NOON, "USER", "Какая погода сегодня?"), (NOON, "ASSISTANT", "It is cold, minus five degrees.")])
    (light.root / "chunk_2.txt").write_bytes(text)
    assert fates(report(light, "chunks", str(light.root / "chunk_2.txt"))) == (0, 2, 0, 0)


# --------------------------------------------------------------------------------------------------------- forgotten


def forget(world: World, **more: Any) -> None:
    stone = Tombstone("stone", str(ANN), **{"created_at": NOON + 60, **more})
    world.push_tombstone(stone)


def test_what_a_time_forgets_does_not_come_back(light: World) -> None:
    forget(light)
    for source in FORMATS:
        assert fates(plan(light, *file_of(light, source))) == (0, 0, 0, 3), source
    assert fates(report(light, *file_of(light, "jsonl"))) == (0, 0, 0, 3)
    light.redis.delete("hcli:mem:tombstones")  # archived by now
    assert fates(plan(light, *file_of(light, "telegram"))) == (0, 0, 0, 3)
    assert archived(light) == {}
    assert all(b"cold" not in path.read_bytes() for path in light.night_dir.rglob("*") if path.is_file())


def test_what_was_erased_does_not_come_back(light: World) -> None:
    directory = light.night_dir / "archive"
    directory.mkdir(parents=True)
    gone = {"kind": "erased", "chat_id": str(ANN), "timestamp": NOON}
    turns = [Turn("j1", "user", str(ANN), "x", NOON), Turn("w1", "asst", str(ANN), "x", NOON)]
    lines = [
        gone | {"key": f"hcli:memory:{turn.turn_id}", "sha256": RawRecord(b"k", "string", turn.to_json()).sha256}
        for turn in turns
    ]
    write_segment(directory / segment_name(1), 1, lines)
    assert fates(report(light, *file_of(light, "jsonl"))) == (2, 0, 0, 1)
    found = report(light, *file_of(light, "telegram"))
    assert fates(found) == (0, 0, 0, 3), "a question and an answer near the erased ones; nobody can tell them apart"
    assert sorted(archived(light)) == ["j1:asst", "j2:user"]
