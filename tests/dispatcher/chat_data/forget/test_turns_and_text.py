"""`hmem forget --turn` and `--matching`: these and nothing else; what is asked wrongly is refused before anything is done."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import Any

import pytest

from dispatcher.chat_data.forget.layers.store import StoreLayer
from dispatcher.chat_data.forget.request import folded
from dispatcher.memory.store.memories import Memory, MemoryType
from shared.system.processes import day_command
from shared.turns.records import Tombstone, Turn, dumps
from tests.dispatcher.chat_data.forget.test_every_layer import in_redis, left
from tests.dispatcher.chat_data.forget.test_whole_chat import released
from tests.nightly.archive.media.kept_media import PHOTO, file_of, keep, media_files, send, waiting
from tests.support.day.forgetting_world import CANARIES, CHAT, OTHER, OTHERS, hmem, keys_of, planted
from tests.support.world import REPOSITORY, World


def forgotten(world: World, *arguments: str) -> dict[str, Any]:
    """The receipt."""
    (record,) = json.loads(hmem(world, "forget", *arguments, "--yes", "--json").stdout)
    assert record["complete"], record
    return dict(record)


def memories(world: World) -> set[tuple[str, str]]:
    store = StoreLayer(world.settings())
    found = {(memory.chat_id, memory.text) for memory in store.memories.every()}
    store.close()
    return found


def tombstones(world: World) -> list[Tombstone]:
    raws: Any = world.redis.lrange("hcli:mem:tombstones", 0, -1)
    return [Tombstone.parse(raw) for raw in raws]


def test_a_text_goes_and_the_rest_stays(light: World) -> None:
    planted(light)
    others = keys_of(light, OTHER)
    record = forgotten(light, "--matching=ZANZIBAR   Lighthouse")
    assert record["chats"] == [CHAT]
    assert "zanzibar" not in json.dumps(record).casefold()
    assert CANARIES[0] not in released(light)
    assert {CANARIES[1], *OTHERS} <= released(light)
    assert in_redis(light, "zanzibar") == []
    assert not [place for place in left(light) if b"zanzibar" in (light.root / place).read_bytes()]
    assert memories(light) == {(CHAT, CANARIES[1]), *((OTHER, text) for text in OTHERS)}
    assert light.redis.llen("hcli:mem:outbox:main") == 3
    assert light.redis.lrange("hcli:mem:unconsolidated:9912", 0, -1) == [b"new-9912-1:user"]
    assert light.redis.llen("hcli:tasks") == 3
    now = keys_of(light, OTHER)
    assert {key: now[key] for key in others if not key.startswith(b"hcli:memory:")} == {
        key: value for key, value in others.items() if not key.startswith(b"hcli:memory:")
    }


def test_a_memory_that_no_turn_says(light: World) -> None:
    store = StoreLayer(light.settings())
    for text in ("collects stamps from Madagascar", "likes walnuts"):
        store.memories.add(Memory(CHAT, MemoryType.FACT, text, created=time.time()))
    store.close()
    light.redis.set(f"hcli:session:{CHAT}", "one")
    shown = json.loads(hmem(light, "forget", "--matching=madagascar", "--json").stdout)["preview"]
    assert (shown["turns"], [one["number"] for one in shown["memories"]]) == (0, [1])
    assert "your shell's history" in [one["what"] for one in shown["stays"]]
    assert forgotten(light, "--matching=madagascar")["layers"]["store: memories"] == {"removed": 1}
    assert memories(light) == {(CHAT, "likes walnuts")}
    assert not light.redis.exists(f"hcli:session:{CHAT}")


@pytest.mark.slow
def test_a_turn_by_its_id(light: World) -> None:
    planted(light)
    record = forgotten(light, "--turn=old-9912-1:user", "--turn=new-9912-1")
    assert record["chats"] == [CHAT]
    assert CANARIES[1] not in released(light)
    assert CANARIES[0] in released(light)
    assert memories(light) == {(CHAT, CANARIES[0]), *((OTHER, text) for text in OTHERS)}
    stones = tombstones(light)
    assert sorted(stones[0].named) == ["new-9912-1:user", "old-9912-1:user"]
    assert all(name.startswith("event-") for name in stones[1].named), "of the memories that came from them"
    assert [stone.erase for stone in stones] == [True, True]


def test_a_turn_that_nobody_knows_needs_its_chat(light: World) -> None:
    refused = hmem(light, "forget", "--turn=nobodys:user", "--yes")
    assert (refused.returncode, "Give the chat too" in refused.stderr) == (24, True)
    forgotten(light, "--turn=nobodys", f"--chat={CHAT}")
    (stone,) = tombstones(light)
    assert stone.named == {"nobodys:user", "nobodys:asst"}


def test_turns_of_a_clock_that_was_ahead_are_named(light: World) -> None:
    light.say("ahead", "said in the year 2033", chat_id=CHAT, timestamp=2_000_000_000.0)
    record = forgotten(light, f"--chat={CHAT}")
    assert len(record["stones"]) == 2
    assert not light.redis.exists("hcli:memory:ahead:user")
    light.say("later", "said afterwards", chat_id=CHAT, timestamp=time.time())
    light.night()
    assert released(light) == {"said afterwards"}


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["--matching=ab"], 24, "at least 3 characters"),
        ([], 24, "Select what to forget"),
        (["--turn=a:b"], 24, "not the id of a turn"),
        (["--chat=9912", "--before=someday"], 24, "is not a time"),
    ],
)
def test_what_is_asked_wrongly_is_refused(light: World, arguments: list[str], code: int, why: str) -> None:
    refused = hmem(light, "forget", *arguments)
    assert (refused.returncode, why in refused.stderr) == (code, True), refused.stderr


def test_without_yes_nothing_is_done_and_where_nothing_is_stored_there_is_nothing_to_forget(light: World) -> None:
    light.say("one", CANARIES[0], chat_id=CHAT)
    light.night()
    asked = hmem(light, "forget", f"--chat={CHAT}")
    assert "Nothing was changed. Run it again with --yes." in asked.stderr
    assert "1 turn of chat 9912" in asked.stdout
    for nothing in ("--matching=nowhere said", "--chat=777"):
        done = hmem(light, "forget", nothing, "--yes")
        assert (done.returncode, done.stderr) == (0, "Nothing matches, so there is nothing to forget.\n")
    assert hmem(light, "forget", "--chat=777").stdout == "", "no preview of what will not happen"
    assert released(light) == {CANARIES[0]}
    assert not light.redis.exists("hcli:mem:tombstones")
    assert len(list((light.night_dir / "nights").iterdir())) == 1


@pytest.mark.slow
def test_the_archives_part_may_be_left_to_the_next_night(light: World) -> None:
    planted(light)
    left = hmem(light, "forget", f"--chat={CHAT}", "--yes", "--later", "--json")
    (record,) = json.loads(left.stdout)
    assert (left.returncode, record["scan"]["found"]) == (28, [])
    assert "left to the next night" in record["pending"][0]
    light.night()
    (record,) = json.loads(hmem(light, "forget", "--resume", "--json").stdout)
    assert record["complete"], record
    assert released(light) == set(OTHERS)


def test_the_same_store_on_another_engine(light: World, stores: Any) -> None:
    """No copy in a table, and the scan asks the tables."""
    if stores.engine == "postgresql":
        light.environment["DAY_STORE_URL"] = stores.url
    store = StoreLayer(light.settings())
    store.turns.store([Turn("t", "user", CHAT, CANARIES[1], time.time() - 5)])
    store.turns.store([Turn("t", "user", OTHER, OTHERS[1], time.time() - 5)])
    record = forgotten(light, f"--chat={CHAT}")
    assert record["layers"]["store: turns"] == {"removed": 1}
    assert [stored.turn.content for stored in store.turns.every()] == [OTHERS[1]]
    assert any("PostgreSQL" in one["what"] for one in record["stays"]) == (stores.engine == "postgresql")
    store.close()


def test_texts_are_compared_without_case_width_and_blanks() -> None:
    assert folded("  Ｆｕｌｌ\n Width  ÉTÉ ") == "full width été"


def test_chats_whose_name_is_a_pattern(light: World) -> None:
    for chat in ("a*", "ab", "a[b]"):
        light.redis.set(f"hcli:mem:bot:seen:{chat}-1", dumps({"task": f"t-{len(chat)}-{ord(chat[1])}"}))
        light.say(f"t-{len(chat)}-{ord(chat[1])}", "said", chat_id=chat)
    forgotten(light, "--chat=a*")
    assert [bool(light.redis.exists(f"hcli:mem:bot:seen:{chat}-1")) for chat in ("a*", "ab", "a[b]")] == [False, True, True]  # fmt: skip


def test_it_ends_well_when_nobody_reads_what_it_prints(light: World) -> None:
    """`hmem forget … 2>&1 | head`"""
    light.say("t1", CANARIES[0], chat_id=CHAT)
    reading, writing = os.pipe()
    os.close(reading)
    command = day_command("forget", f"--chat={CHAT}", "--yes")
    variables = light.variables(PYTHONPATH=str(REPOSITORY))
    done = subprocess.run(command, env=variables, stdout=writing, stderr=writing, check=False)
    os.close(writing)
    assert (done.returncode, hmem(light, "forget", "--list").stdout.count("complete, chats")) == (0, 1)
    assert in_redis(light, "zanzibar") == []


@pytest.mark.slow
def test_a_place_that_the_owner_has_looked_at_ends_it(light: World) -> None:
    planted(light)
    notes = light.root / "state" / "notes.txt"
    notes.write_text(CANARIES[0])
    done = hmem(light, "forget", f"--chat={CHAT}", "--yes", "--json")
    (record,) = json.loads(done.stdout)
    assert (done.returncode, record["complete"], [one["place"] for one in record["scan"]["found"]]) == (28, False, [str(notes)])  # fmt: skip
    assert hmem(light, "forget", "--accept").returncode == 24
    (record,) = json.loads(hmem(light, "forget", "--resume", "--accept", "--json").stdout)
    assert (record["complete"], record["accepted"]) == (True, True)
    assert not list((light.root / "state" / "forgetting").glob("*.json"))


@pytest.mark.slow
def test_other_forms_of_a_word_and_names_are_no_traces(light: World) -> None:
    """An index holds "striving" as "strive", and who spoke beside what was said."""
    light.say("a", "Theodora and I strive for a кукушку", chat_id=CHAT)
    light.say("b", "striving is good for кукушками", chat_id=OTHER, name="Theodora")
    light.night()
    (record,) = json.loads(hmem(light, "forget", f"--chat={CHAT}", "--yes", "--json").stdout)
    assert record["complete"], record["scan"]


# ------------------------------------------------------------------------------------------------ files of messages


def test_files_go_with_their_turn_and_then_with_their_chat_and_a_copy_is_named_by_its_bytes(light: World) -> None:
    mirror = light.root / "mirror"
    mirror.mkdir(mode=0o700)
    light.environment["ARCHIVE_MIRROR"] = str(mirror)
    send(light, "t1", PHOTO, text="the first picture of the canary")
    send(light, "t2", PHOTO, text="the same one, sent again")
    send(light, "t4", PHOTO, chat_id=OTHER)
    light.night()
    send(light, "t3", PHOTO, b"another", text="not archived yet: the canary")
    shown = hmem(light, "forget", "--matching=canary").stdout
    assert "kept files of messages             3" in shown
    record = forgotten(light, "--matching=canary")
    assert record["layers"]["redis: kept files of messages"] == {"removed": 2}
    assert record["layers"]["archive"]["files"] == 1
    assert record["scan"]["kept_files"] == 3
    archive = light.night_dir / "archive"
    left = [file_of(light, "t2", PHOTO), file_of(light, "t4", PHOTO, OTHER)]
    assert media_files(archive) == media_files(mirror) == {str(one.relative_to(archive)): PHOTO for one in left}
    assert waiting(light) == []
    keep(light, "t9", b"of a task that left no turn", at=time.time() - 60)
    copy = archive / "a copy of the owner.jpg"
    copy.write_bytes(PHOTO)
    (record,) = json.loads(hmem(light, "forget", f"--chat={CHAT}", "--yes", "--json").stdout)
    assert (record["complete"], [one["place"] for one in record["scan"]["found"]]) == (False, [str(copy)])
    assert record["layers"]["redis: kept files of messages"] == {"removed": 1}
    assert {path.name.partition(".")[0] for path in (archive / "media").rglob("*.*")} == {"t4"}


def test_a_tombstone_that_hides_keeps_the_file(light: World) -> None:
    send(light, "t1", PHOTO)
    light.push_tombstone(Tombstone("s1", CHAT, time.time(), turn_ids=frozenset({"t1:user"})))
    light.night()
    assert file_of(light, "t1", PHOTO).read_bytes() == PHOTO
