"""`hmem export`: all that is kept of one chat, from wherever it lies, and nothing of anybody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from dispatcher.chat_data.export.chat import export_chat
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.hooks import feature_tables
from dispatcher.memory.store.memories import Memory, MemoryType
from dispatcher.memory.store.summaries import SessionSummary
from dispatcher.memory.tombstones import Forgotten
from shared.errors import InvalidInput
from shared.turns.records import ANSWERS, Tombstone, Turn
from tests.nightly.archive.media.kept_media import PHOTO, entry, send
from tests.support.day.talking import CLAUDE, Talk
from tests.support.machine import free_port
from tests.support.samples import ODD_CHATS
from tests.support.world import REPOSITORY, World

FILES = [
    "README.txt",
    "conversation.md",
    "memories.jsonl",
    "memories.md",
    "summaries.json",
    "summaries.md",
    "turns.jsonl",
]
ODD = rb'{"task_id":"odd","role":"user","chat_id":9912,"content":"a\/b \ud83d","timestamp":1.7075e9,"x":1e3}'


@pytest.fixture
def here(light: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The environment of the commands, for this process too: the export starts one of the night's."""
    for name, value in light.variables().items():
        monkeypatch.setenv(name, value)
    return light


def export(world: World, chat_id: str = "9912", out: str = "out", **more: Any) -> tuple[Path, dict[str, Any]]:
    settings = world.settings(**more)
    client: Redis = Redis.from_url(settings.redis_url, socket_connect_timeout=1, retry=None)
    with closing(client):
        return world.root / out, export_chat(settings, client, chat_id, world.root / out)


def contents(folder: Path) -> list[str]:
    return [json.loads(line)["content"] for line in (folder / "turns.jsonl").read_bytes().splitlines()]


def everything(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.fixture
def day(here: World) -> Iterator[DayMemory]:
    with closing(DayMemory(here.settings(), nullcontext)) as opened:
        yield opened


def remember(day: DayMemory, chat_id: str = "9912") -> None:
    """A memory of each type, and the summary of a session."""
    facts = [
        Memory(chat_id, MemoryType.FACT, "The *boiler* is\na Vaillant", created=1_707_500_000.25, source_turn="t1:user t2:user"),
        Memory(chat_id, MemoryType.GOAL, "paint the kitchen", created=1_707_500_001.0, deadline=1_707_600_000.0, importance=5),
        Memory(chat_id, MemoryType.PREFERENCE, "short answers", created=1_707_500_002.0, embedding=b"0000", embedding_model="m"),
        Memory(chat_id, MemoryType.COMPLETED_GOAL, "sweep", created=1.0, completed_at=1_707_500_003.0, category="home"),
    ]  # fmt: skip
    for fact in facts:
        day.memories.add(fact)
    day.summaries.store(
        SessionSummary(
            chat_id, "s1", "- we spoke of <herons>", 1_707_500_000.0, 1_707_500_060.0, 1_707_500_100.0, ("t1:user",)
        )
    )


# ---------------------------------------------------------------------------------------------------------------- what is in it


def test_each_turn_once_in_the_words_that_were_said(here: World, day: DayMemory) -> None:
    here.redis.set("hcli:memory:odd:user", ODD)
    here.say("t1", "as it was first", timestamp=1_707_500_001.0)
    here.redis.set("hcli:memory:t2:user", b'{"chat_id":"9912","content":"no id in it","timestamp":1707500002}')
    here.night()
    here.say("t1", "as it is now", timestamp=1_707_500_001.0)
    here.say("t3", "since the last night", timestamp=1_707_500_003.0)
    copies = [("odd", "a worse copy"), ("t3", "another copy"), ("t4", "in the store alone")]
    day.upkeep.store_turns([Turn(name, "user", "9912", text, 1_707_500_009.0) for name, text in copies])
    folder, told = export(here)
    lines = (folder / "turns.jsonl").read_bytes().splitlines()
    assert lines[0] == ODD, "to the byte"
    assert contents(folder)[1:] == ["as it is now", "no id in it", "since the last night", "in the store alone"]
    assert json.loads(lines[2])["task_id"] == "t2", "a line of its own says whose it is"
    assert told["sources"] == {"archive": 2, "redis": 2, "day": 1, "release": 0}
    assert told["notes"] == []
    text = (folder / "conversation.md").read_text(encoding="utf-8")
    assert "**17:33 user**\n\n> as it is now  \n" in text
    assert "first" not in text


def test_memories_and_summaries(here: World, day: DayMemory) -> None:
    here.say("t1", "The heron stood at the pond.")
    here.night()
    remember(day)
    folder, told = export(here)
    of_features = {f"{one.table.name}.json" for one in feature_tables()}
    assert {path.name for path in folder.iterdir()} == {*FILES, *of_features}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())
    memories = [json.loads(line) for line in (folder / "memories.jsonl").read_bytes().splitlines()]
    assert [(one["number"], one["type"], one["importance"]) for one in memories] == [
        (1, "fact", 3), (2, "goal", 5), (3, "preference", 3), (4, "completed_goal", 3),
    ]  # fmt: skip
    fact, goal, _, done = memories
    assert (fact["created"], fact["source_turn"]) == ("2024-02-09T17:33:20.250000+00:00", "t1:user t2:user")
    assert (goal["deadline"], goal["completed_at"], done["completed_at"]) == (
        "2024-02-10T21:20:00+00:00", None, "2024-02-09T17:33:23+00:00",
    )  # fmt: skip
    assert b"embedding" not in everything(folder)
    assert (folder / "memories.md").read_text(encoding="utf-8") == (
        "# Memories\n\n"
        "## Facts\n\n- 1: The \\*boiler\\* is a Vaillant (noted 2024-02-09 17:33)\n\n"
        "## Goals\n\n- 2: paint the kitchen (noted 2024-02-09 17:33, due 2024-02-10 21:20)\n\n"
        "## Preferences\n\n- 3: short answers (noted 2024-02-09 17:33)\n\n"
        "## Completed goals\n\n- 4: sweep (noted 1970-01-01 00:00, done 2024-02-09 17:33)\n"
    )
    summaries = json.loads((folder / "summaries.json").read_bytes())
    assert summaries["release"]["run"] == 1
    assert "heron" in summaries["release"]["text"]
    assert summaries["sessions"][0]["turn_ids"] == ["t1:user"]
    text = (folder / "summaries.md").read_text(encoding="utf-8")
    assert "## A conversation, 2024-02-09 17:33 to 2024-02-09 17:34\n\n> - we spoke of \\<herons>" in text
    assert (told["memories"], told["session_summaries"], told["release"]) == (4, 1, 1)


def test_memories_can_be_brought_back(here: World, day: DayMemory) -> None:
    remember(day)
    folder, _ = export(here)
    for _ in range(2):  # the second time all is known
        here.command("hmem", "memory", "import", "77", str(folder / "memories.jsonl"))
    there = here.root / "back"
    here.command("hmem", "export", "77", "--out", str(there))
    first, second = (
        [json.loads(line) for line in (place / "memories.jsonl").read_bytes().splitlines()] for place in (folder, there)
    )
    for memory in (*first, *second):
        del memory["number"]  # the chat's own
    assert sorted(second, key=str) == sorted(first, key=str)


def test_without_the_archive_the_release_speaks(here: World) -> None:
    long = "\n\n".join(f"Paragraph {number} of a long answer. " + "word " * 120 for number in range(4))
    here.say("t1", "\x1b[31mred\x1b[0m  herring")
    here.say("t1", long, role="asst", timestamp=1_707_500_001.0)
    here.say("t2", "mine", chat_id="other")
    anew = long.replace("long", "new")
    here.say("a1", anew, role="asst", timestamp=1_707_500_002.0, extra={ANSWERS: "t1"})
    here.night()
    folder, told = export(here, hmem_night_dir=here.root / "elsewhere")
    first, second, third = contents(folder)
    assert first == "red herring", "cleaned"
    assert second.split() == long.split(), "all passages, in their order"
    assert third.split() == anew.split(), "of another answer to the same question, too"
    assert told["sources"] == {"archive": 0, "redis": 0, "day": 0, "release": 3}
    assert "the release: cleaned text" in (folder / "README.txt").read_text(encoding="utf-8")
    assert b"mine" not in everything(folder)


# ------------------------------------------------------------------------------------------------------------ what stays out


#: Not the archive's alone, where neither it nor the tombstone can be seen from here.
@pytest.mark.parametrize(("where", "archive_here"), [("state", True), ("redis", False), ("archive", True)])
def test_what_is_forgotten_stays_out_of_all_of_it(here: World, day: DayMemory, where: str, archive_here: bool) -> None:
    here.say("t1", "The walrus stood at the pond.")
    here.say("t2", "The heron flew over the lake.", timestamp=1_707_500_100.0)
    if where == "archive":  # and the release is from before: it would still have it
        here.night()
    day.upkeep.store_turns([Turn("t1", "user", "9912", "The walrus stood at the pond.", 1_707_500_000.0)])
    day.summaries.store(SessionSummary("9912", "s", "the walrus again", 1.0, 2.0, 3.0, ("t1:user", "t2:user")))
    stone = Tombstone("stone", "9912", 1_707_600_000.0, turn_ids=frozenset({"t1:user"}))
    if where == "state" or not archive_here:
        here.night()  # whose release has it
    if where == "state":
        Forgotten(here.root / "state").add(stone)
    else:
        here.redis.rpush("hcli:mem:tombstones", stone.to_json())
    if where == "archive":
        here.night()
        here.redis.delete("hcli:mem:tombstones")
    more: dict[str, Any] = {} if archive_here else {"hmem_night_dir": here.root / "elsewhere"}
    if where == "state":
        assert b"walrus" in (here.memory_dir / "current" / "chats.sqlite").read_bytes(), "it would be told"
    folder, _ = export(here, **more)
    assert b"walrus" not in everything(folder)
    assert contents(folder) == ["The heron flew over the lake."]


@pytest.mark.slow
def test_a_chat_sees_only_itself(here: World, day: DayMemory) -> None:
    beside = set(here.root.parent.iterdir())
    for number, chat_id in enumerate(ODD_CHATS):
        here.say(f"old-{number}", f"archived-{number}-canary", chat_id=chat_id)
    here.night()
    for number, chat_id in enumerate(ODD_CHATS):
        here.say(f"new-{number}", f"redis-{number}-canary", chat_id=chat_id)
        day.upkeep.store_turns([Turn(f"day-{number}", "user", chat_id, f"store-{number}-canary", 1.0)])
        day.memories.add(Memory(chat_id, MemoryType.FACT, f"fact-{number}-canary", created=1.0))
        day.summaries.store(SessionSummary(chat_id, "s", f"summary-{number}-canary", 1.0, 2.0, 3.0, ()))
    for elsewhere in (False, True):
        more: dict[str, Any] = {"hmem_night_dir": here.root / "elsewhere"} if elsewhere else {}
        for number, chat_id in enumerate(ODD_CHATS if elsewhere else ODD_CHATS[:4]):
            found = everything(export(here, chat_id, f"out-{elsewhere}-{number}", **more)[0])
            for source in ("archived", "redis", "store", "fact", "summary"):
                assert f"{source}-{number}-canary".encode() in found
            assert not [
                other for other in range(len(ODD_CHATS)) if other != number and f"-{other}-canary".encode() in found
            ]
    assert set(here.root.parent.iterdir()) == beside, "nothing outside"


# ---------------------------------------------------------------------------------------------------- whatever else is away


def test_without_redis(here: World, day: DayMemory) -> None:
    here.say("t1", "archived")
    here.night()
    remember(day)
    folder, told = export(here, redis_url=f"redis://127.0.0.1:{free_port()}/0")
    assert contents(folder) == ["archived"]
    assert told["notes"] == [
        note for note in told["notes"] if note.startswith("Turns since the last night may be missing")
    ]
    assert "Redis does not answer" in (folder / "README.txt").read_text(encoding="utf-8")


def test_without_a_store_and_a_release(here: World) -> None:
    here.say("t1", "only in Redis")
    folder, told = export(here, day_store_url="none")
    assert contents(folder) == ["only in Redis"]
    assert len(told["notes"]) == 2
    assert json.loads((folder / "summaries.json").read_bytes()) == {"release": None, "sessions": []}
    (here.root / "state").mkdir(exist_ok=True)
    (here.root / "state" / "day-store.sqlite").write_bytes(b"no database" * 1000)
    _, told = export(here, out="again")
    assert [note.partition(":")[0] for note in told["notes"] if "left out" in note] == [
        "The day store was left out", "Memories and summaries of sessions were left out",
    ]  # fmt: skip


def test_a_damaged_archive_is_named_and_the_release_asked(here: World) -> None:
    here.say("t1", "hello")
    here.night()
    segment = here.night_dir / "archive" / "seg-1.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b"hello", b"jello"))
    folder, told = export(here)
    assert contents(folder) == ["hello"]
    assert "Archive segment" in told["notes"][0]
    assert told["sources"]["release"] == 1


def test_nothing_is_kept_of_an_unknown_chat(here: World) -> None:
    here.say("t1", "hello")
    here.night()
    with pytest.raises(InvalidInput, match="Nothing is stored of chat 99"):
        export(here, "99")
    assert not (here.root / "out").exists()
    assert not list(here.root.glob(".*.tmp"))


def test_the_command_beside_a_running_dispatcher(light: World) -> None:
    talk = Talk(light, "-100")
    light.start_dispatcher(CLAUDE_BIN=str(REPOSITORY / CLAUDE), CONSOLIDATION_INTERVAL="0.2")
    talk.say("Where is the key?", "Under the mat.")
    talk.consolidated()
    out = light.root / "out"
    told = json.loads(light.command("hmem", "export", "-100", "--out", str(out), "--json").stdout)
    assert (told["out"], told["turns"]) == (str(out), 2)
    assert contents(out) == ["Where is the key?", "Under the mat."]
    again = light.command("hmem", "export", "-100", "--out", str(out), check=False)
    assert (again.returncode, "not empty" in again.stderr) == (24, True)
    done = light.command("hmem", "export", "-100", "--out", str(light.root / "more"))
    assert done.stdout == f"2 turns, 0 memories and the summaries of chat -100 are in {light.root / 'more'}.\n"
    assert "note: There is no release" in done.stderr
    for chat_id in ("unknown", "0"):
        assert light.command("hmem", "export", chat_id, check=False).returncode == 24


# ------------------------------------------------------------------------------------------------ files of messages


def test_files_come_from_the_archive_and_from_redis(here: World) -> None:
    send(here, "t1", PHOTO, timestamp=1_770_638_400.0)
    here.night()
    send(here, "t2", b"since the last night", timestamp=1_770_638_460.0)
    here.say("t3", "lost", timestamp=1_770_638_520.0, extra={"media": [entry(b"lost")]})
    folder, told = export(here)
    names = {path.name: path.read_bytes() for path in (folder / "media").iterdir()}
    assert names == {"2026-02-09_12-00_photo.jpg": PHOTO, "2026-02-09_12-01_photo.jpg": b"since the last night"}
    assert (told["files"], told["notes"][-1]) == (
        2, "1 file of messages was left out: in an archive elsewhere, damaged, or lost.",
    )  # fmt: skip
    document = (folder / "conversation.md").read_text()
    assert [name for name in names if f"](media/{name})" in document] == list(names)
    assert "files that came with messages (2)" in (folder / "README.txt").read_text()
    assert not (folder / "_work").exists()
