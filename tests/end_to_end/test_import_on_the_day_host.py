"""`hmem import` and `/import` where the archive is on another host: what waits, what the night there says about it, and taking it back."""

from __future__ import annotations

import json
import subprocess
import zlib
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from dispatcher.cli.copies.imports import handing_over
from dispatcher.memory.day.memory import DayMemory
from dispatcher.queue.consolidation.rounds import Consolidator
from shared.errors import ForgetIncomplete, InvalidInput
from shared.wire.handed_over import PIECE_BYTES, HandedImport, ImportHandOver
from tests.nightly.imports.exports.builders import NOON, gpt_conversation, gpt_node, written, zipped
from tests.support.world import World

CHAT = "9912"
KEY = "hcli:mem:imports"
POND = ("what stands at the pond?", "A heron.")


def export(world: World, *messages: str) -> Path:
    """A ChatGPT export with these messages of a person and of the assistant in turns."""
    roles = ("user", "assistant")
    nodes = [
        gpt_node(f"n{number}", f"n{number - 1}" if number else "root", roles[number % 2], text, NOON + number)
        for number, text in enumerate(messages)
    ]
    return written(world.root / "export.zip", zipped({"conversations.json": json.dumps([gpt_conversation(*nodes)])}))


def day(world: World, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """A command on the day host, which has no archive."""
    elsewhere = str(world.root / "no-archive-here" / "night")
    return world.command("hmem", *arguments, check=check, ALLOWED_CHATS=CHAT, HMEM_NIGHT_DIR=elsewhere)


def listed(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(day(world, "import", "--list", "--json").stdout)
    return found


#: What the day's host has, and the night's has not. (How it delivers a release is shown in test_two_hosts.py.)
ONLY_BY_DAY = dict.fromkeys(("hmem_memory_dir", "hmem_state_dir", "owner_key_file"), "/nonexistent/on/the/night/host")


def night(world: World, **more: Any) -> None:
    """On the other host."""
    more |= ONLY_BY_DAY
    world.night(publish_target=str(world.memory_dir), **more)


def owner(world: World) -> str:
    """The key by which a night knows the owner."""
    return str(json.loads(day(world, "owner-key", "--json").stdout)["public"])


def served(world: World) -> None:
    """With a release that another host's night has delivered."""
    world.say("t1", "good morning", chat_id=CHAT)
    night(world)


def brought(world: World) -> None:
    """An import that waits for the night."""
    served(world)
    day(world, "import", str(export(world, *POND)), "--yes")


def test_an_import_waits_for_the_night_of_the_other_host_which_reports_it(light: World) -> None:
    served(light)
    path = export(light, *POND)
    shown = day(light, "import", str(path), check=False).stdout
    assert "2 turns found: 2 would be new" in shown
    assert "user: what stands at the pond?" in shown
    assert "compared with what is known on this host" in shown
    assert light.redis.keys(f"{KEY}*") == [], "it asks first"
    done = day(light, "import", str(path), "--yes").stdout
    assert (
        "2 turns found. The archive is on another host, or another user's: its next night imports what is new." in done
    )
    assert not (light.root / "no-archive-here").exists(), "no archive is begun here"
    assert "; waits for the next night, since " in day(light, "import", "--list").stdout
    (waiting,) = listed(light)
    assert (waiting["waiting"], waiting["turns"], waiting["files"]) == (True, 2, ["export.zip"])

    night(light)
    assert "A heron." in day(light, "search", CHAT, "heron").stdout
    assert ": 2 new\n" in day(light, "import", "--list").stdout
    assert light.redis.keys(f"{KEY}:*") == [], "its content is deleted"
    assert not [*light.night_dir.rglob("handed")]
    again = day(light, "import", str(path), "--dry-run").stdout
    assert "2 turns found: 0 would be new; 2 known." in again
    day(light, "import", str(path), "--yes")
    night(light)
    assert ": 2 known\n" in day(light, "import", "--list").stdout


def remembered(world: World) -> list[str]:
    with closing(DayMemory(world.settings(), nullcontext)) as opened:
        Consolidator(opened, world.redis, "worker").round()
    found = json.loads(day(world, "memory", "list", CHAT, "--json").stdout)["memories"]
    return [one["text"] for one in found]


def test_what_another_hosts_night_took_is_undone_on_the_day_host_and_comes_again(light: World) -> None:
    public = owner(light)

    def has(folder: Path, words: str) -> bool:
        return any(words.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())

    served(light)
    facts = {
        "a.md": "has a dog, Rex\n[2025-11-02] - likes short answers",
        "b.md": "has a dog, Rex\n[2025-11-02] - plays chess",
    }
    paths = [written(light.root / name, f"[2025-11-03] - {text}") for name, text in facts.items()]
    paths.append(export(light, *POND))
    for path in paths:
        day(light, "import", str(path), "--yes")
    night(light, owner_public_key=public)
    assert remembered(light) == ["has a dog, Rex", "likes short answers", "plays chess"]
    first, second, talk = listed(light)
    assert [one["turns"] for one in (first, second, talk)] == [2, 2, 2]

    shown = day(light, "import", "--undo", talk["import"]).stdout
    assert "2 turns of chat 9912" in shown
    assert "what stands at the pond?" in shown
    for one in (first, talk):
        done = day(light, "import", "--undo", one["import"], "--yes", check=False)
        assert done.returncode == ForgetIncomplete.exit_code, done.stderr
        assert "the next night erases it there" in done.stdout
    for words in ("heron", "short answers"):  # at once, before any night
        assert words not in day(light, "search", CHAT, words).stdout
    assert remembered(light) == ["has a dog, Rex", "plays chess"], "the other import has this one, too"
    assert "; undone, and gone with the next night" in day(light, "import", "--list").stdout
    refused = day(light, "import", "--undo", talk["import"], "--yes", check=False)
    assert f"The import {talk['import']} is undone already." in refused.stderr
    assert has(light.night_dir, "short answers")
    day(light, "import", str(paths[2]), "--yes")  # again, before the night that takes out what it brought first

    night(light, owner_public_key=public)
    assert not has(light.night_dir, "short answers")
    assert {one["import"] for one in listed(light)} == {second["import"], talk["import"]}
    assert day(light, "search", CHAT, "heron").stdout.count("A heron.") == 1
    assert day(light, "forget", "--resume").stdout.count("complete.") == 2
    assert not has(light.memory_dir, "short answers")

    day(light, "import", str(paths[0]), "--yes")
    night(light, owner_public_key=public)
    assert sorted(remembered(light)) == ["has a dog, Rex", "likes short answers", "plays chess"]


def test_before_the_first_release_it_waits_for_the_host_that_has_joined(light: World) -> None:
    """`hmem-night join` has begun to count nights (nightly/cli/join.py); before that, nights are made here."""
    path, folder = str(export(light, *POND)), light.night_dir
    settings = light.settings()
    assert handing_over(settings) == []
    light.redis.incrby("hcli:mem:night:run", 0)
    assert handing_over(settings) == ["--hand-over"]
    done = light.command("hmem", "import", path, "--yes", ALLOWED_CHATS=CHAT).stdout
    assert "its next night imports what is new" in done
    assert not folder.exists(), "no archive is begun here"
    folder.mkdir(0o700)
    (folder / "lock").touch(0o600)  # as a first night that was refused leaves it
    assert handing_over(settings) == []
    assert light.redis.hlen(KEY) == 1
    light.night()
    assert ": 2 new" in day(light, "import", "--list").stdout
    assert handing_over(settings) == [], "now the archive is here"


def test_it_is_taken_back_until_a_night_has_it(light: World) -> None:
    brought(light)
    (waiting,) = listed(light)
    light.redis.set("hcli:mem:night:owner", "a night")
    refused = day(light, "import", "--undo", waiting["import"], check=False)
    assert "A night has begun to take it." in refused.stderr
    light.redis.delete("hcli:mem:night:owner")
    assert day(light, "import", str(light.root / "export.zip"), "--yes").returncode == 0  # again: it waits already
    assert listed(light) == [waiting]
    assert "is taken back: no night will see it." in day(light, "import", "--undo", waiting["import"]).stdout
    assert light.redis.keys(f"{KEY}*") == []
    night(light)
    assert "heron" not in light.command("hmem", "search", CHAT, "heron").stdout


@pytest.mark.parametrize("place", ["export:after-commit", "archive:mirrored"])
def test_a_killed_night_leaves_it_for_the_next_one(light: World, place: str) -> None:
    brought(light)
    light.command("hmem-night", "run", HMEM_CRASH_AT=place, check=False)
    (one,) = listed(light)
    assert one["waiting"]
    refused = day(light, "import", "--undo", one["import"], check=False)
    assert "A night has begun to take it." in refused.stderr
    night(light)
    (one,) = listed(light)
    assert not one["waiting"]
    assert light.command("hmem", "search", CHAT, "heron").stdout.count("A heron.") == 1


def test_what_the_release_does_not_have_yet_is_undone_after_the_next_night(light: World) -> None:
    brought(light)
    light.command("hmem-night", "run", HMEM_CRASH_AT="publish:begun", check=False)
    (one,) = listed(light)
    assert one["outcome"] == {"new": 2}
    refused = day(light, "import", "--undo", one["import"], check=False)
    assert "does not have the import" in refused.stderr
    night(light)
    assert "2 turns of chat 9912" in day(light, "import", "--undo", one["import"]).stdout


def test_what_a_later_import_brought_too_is_not_undone_before_the_release_says_so(light: World) -> None:
    public = owner(light)
    brought(light)
    night(light)
    (first,) = listed(light)
    day(light, "import", str(export(light, *POND, "and in winter?", "Swans.")), "--yes")
    light.command("hmem-night", "run", HMEM_CRASH_AT="publish:begun", check=False)
    refused = day(light, "import", "--undo", first["import"], "--yes", check=False)
    assert "does not have the import" in refused.stderr
    night(light)
    day(light, "import", "--undo", first["import"], "--yes", check=False)
    night(light, owner_public_key=public)
    assert "A heron." in day(light, "search", CHAT, "heron").stdout


def test_the_name_of_an_imported_file_is_found_and_erased_from_the_day_host(light: World) -> None:
    public = owner(light)
    served(light)
    path = export(light, *POND)
    day(light, "import", str(path.rename(path.with_name("letters-of-Anna.zip"))), "--yes")
    night(light)
    light.redis.delete(KEY)  # as 90 days later
    done = day(light, "forget", "--matching", "letters-of-Anna", "--yes", check=False)
    assert done.returncode == ForgetIncomplete.exit_code, done.stderr
    night(light, owner_public_key=public)
    assert "complete." in day(light, "forget", "--resume").stdout
    named = [*light.memory_dir.rglob("*"), *light.night_dir.rglob("*")]
    assert not [path for path in named if path.is_file() and b"letters-of-Anna" in path.read_bytes()]
    assert "A heron." in day(light, "search", CHAT, "heron").stdout


@pytest.mark.parametrize("signed", [False, True])
def test_of_a_forgotten_chat_no_import_is_named_and_of_another_message_the_name_may_stay(
    light: World, *, signed: bool
) -> None:
    key = {"owner_public_key": owner(light)} if signed else {}
    served(light)
    light.say("t5", "Ask Lindqvist about the boat", chat_id=CHAT)
    path = export(light, *POND)
    day(light, "import", str(path.rename(path.with_name("Chat with Lindqvist.zip"))), "--yes")
    night(light, **key)
    if signed:
        day(light, "forget", "--turn", "t5:user", "--yes", check=False)
        night(light, **key)
        assert "complete." in day(light, "forget", "--resume").stdout
        assert "Lindqvist" in day(light, "import", "--list").stdout
    day(light, "forget", "--chat", CHAT, "--yes", check=False)
    light.say("t6", "hello", chat_id="777")
    night(light, **key)
    release = (light.memory_dir / "current").resolve()
    assert not [path for path in release.rglob("*") if path.is_file() and b"Lindqvist" in path.read_bytes()]


def test_what_is_damaged_on_its_way_is_left_out_and_named(light: World) -> None:
    brought(light)
    (key,) = light.redis.keys(f"{KEY}:*")
    light.redis.lset(key, 0, "rubbish")
    light.redis.hset(KEY, "../../x", json.dumps({"sha256": "../../x"}))
    night(light)
    assert "it was damaged on its way and left out; import it again" in day(light, "import", "--list").stdout
    (one,) = listed(light)
    assert one["damaged"]
    refused = day(light, "import", "--undo", one["import"], check=False)
    assert "has brought nothing, so there is nothing to undo." in refused.stderr
    assert light.redis.keys(f"{KEY}:*") == []


def test_a_small_import_that_would_unpack_to_a_large_one_is_damaged(
    light: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.wire.handed_over.MOST_UNPACKED", 10_000_000)
    one = HandedImport(sha256="0" * 64, source="chatgpt", files=["x"], chats={CHAT: 1}, at=NOON)
    light.redis.rpush(one.key, zlib.compress(bytes(50_000_000)))
    with pytest.raises(ValueError, match="larger than an import can be"):
        assert max(map(len, ImportHandOver(light.redis).content(one))) <= PIECE_BYTES


def test_forgetting_its_chat_removes_it(light: World) -> None:
    brought(light)
    name = f"redis: import {listed(light)[0]['import']}"
    for others in (("--chat", "815"), ("--turn", "t1:user")):
        assert name not in day(light, "forget", *others, check=False).stdout
    done = day(light, "forget", "--chat", CHAT, "--yes", check=False)
    assert name in done.stdout + done.stderr
    assert light.redis.keys(f"{KEY}*") == []


def test_one_that_is_too_large_is_refused_and_leaves_nothing(light: World, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 8)
    one = HandedImport(sha256="0" * 64, source="chatgpt", files=["x"], chats={CHAT: 1}, at=NOON)
    with pytest.raises(InvalidInput, match="too large to be handed to the night's host"):
        ImportHandOver(light.redis, most=100).put(path, one)
    assert light.redis.keys(f"{KEY}*") == []
    handing = ImportHandOver(light.redis)
    whole = handing.put(path, one)
    assert b"".join(handing.content(whole)) == path.read_bytes()
    with pytest.raises(InvalidInput, match="too large"):
        ImportHandOver(light.redis, most=whole.size).put(path, one.model_copy(update={"sha256": "1" * 64}))
    assert ImportHandOver(light.redis, most=0).put(path, one) == whole, "what waits already needs no room"
    assert light.redis.ttl(f"{KEY}:{'0' * 64}") == -1, "it stays until a night comes"
    light.redis.config_set("maxmemory", light.redis.info("memory")["used_memory"])
    try:
        with pytest.raises(InvalidInput, match="there is room for 0"):
            handing.put(path, one.model_copy(update={"sha256": "2" * 64}))
    finally:
        light.redis.config_set("maxmemory", 0)
