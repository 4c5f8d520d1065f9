"""`hmem import`: what it brings, what it takes back, and that it may come again."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer

from dispatcher.cli.copies import imports
from dispatcher.memory.day.memory import DayMemory
from dispatcher.queue.consolidation.rounds import Consolidator
from dispatcher.releases import night_command
from dispatcher.releases.night_command import NightCommandFailed
from nightly.imports.formats import formats
from shared.config.settings import Settings
from shared.errors import ForgetIncomplete, InvalidInput
from shared.release.imports import Batch
from shared.turns.events import Event
from tests.nightly.imports.exports.builders import NOON, gpt_conversation, gpt_node, written, zipped
from tests.support.world import World

CHAT = "9912"


def export(world: World, name: str, *messages: str) -> Path:
    """A ChatGPT export with these messages of a person and of the assistant in turns."""
    roles = ("user", "assistant")
    nodes = [
        gpt_node(f"n{number}", f"n{number - 1}" if number else "root", roles[number % 2], text, NOON + number)
        for number, text in enumerate(messages)
    ]
    return written(world.root / name, zipped({"conversations.json": json.dumps([gpt_conversation(*nodes)])}))


def bring(world: World, path: Path) -> dict[str, Any]:
    done = world.command("hmem", "import", str(path), "--yes", "--json", ALLOWED_CHATS=CHAT)
    return dict(json.loads(done.stdout))


def listed(world: World) -> list[dict[str, Any]]:
    return list(json.loads(world.command("hmem", "import", "--list", "--json").stdout))


def history(world: World) -> list[tuple[str, str]]:
    found = json.loads(world.command("hmem", "history", CHAT, "--json").stdout)
    return [(turn["role"], turn["text"]) for turn in found["turns"]]


def archive_has(world: World, words: str) -> bool:
    files = (path for path in (world.night_dir / "archive").iterdir() if path.is_file())
    return any(words.encode() in path.read_bytes() for path in files)


def test_an_import_is_undone_and_comes_again(light: World) -> None:
    light.say("t1", "good morning", chat_id=CHAT)
    path = export(light, "export.zip", "what stands at the pond?", "A heron.")
    said = light.command("hmem", "import", str(path), "--yes", ALLOWED_CHATS=CHAT)
    assert f"{path} is ChatGPT's data export: " in said.stdout
    assert "2 turns found: 2 new" in said.stdout
    assert said.stdout.splitlines()[-1].startswith("The bot can recall it now. (Night 1, ")
    for jargon in ("quarantined", "staged", "new_records", "tombstones"):
        assert jargon not in said.stdout + said.stderr
    (batch,) = listed(light)
    assert (batch["source"], batch["files"], batch["chat_id"], batch["turns"]) == ("chatgpt", ["export.zip"], CHAT, 2)
    before = history(light)
    assert bring(light, path)["new"] == 0
    assert listed(light) == [batch], "the same once more is the same import"
    shown = light.command("hmem", "import", "--undo", batch["import"])
    assert "2 turns of chat 9912" in shown.stdout
    assert "It can be imported again." in shown.stdout
    assert history(light) == before, "it asks first"
    done = light.command("hmem", "import", "--undo", batch["import"], "--yes")
    assert "its words were not searched for" in done.stdout
    assert history(light) == [("user", "good morning")]
    assert listed(light) == []
    assert not archive_has(light, "heron")
    assert not archive_has(light, "export.zip")
    assert bring(light, path)["new"] == 2
    assert history(light) == before
    assert light.command("hmem", "search", CHAT, "heron").stdout.count("heron") == 1
    assert "what stands at the pond?" in light.command("hmem", "search", CHAT, "boiler").stdout, "by its title"
    large = export(light, "large.zip", "what stands at the pond?", "A heron.", "since when?", "Since noon.")
    assert bring(light, large)["new"] == 2
    first, second = listed(light)
    assert (first["turns"], second["turns"]) == (2, 4)
    whole = history(light)
    light.command("hmem", "import", "--undo", first["import"], "--yes")
    assert history(light) == whole, "the larger one has all of it"
    found = json.loads(light.command("hmem", "history", CHAT, "--json").stdout)["turns"]
    light.command("hmem", "forget", "--turn", found[-1]["turn_id"], "--yes")
    light.command("hmem", "import", "--undo", second["import"], "--yes")
    assert history(light) == [("user", "good morning")]
    report = bring(light, large)
    assert (report["new"], report["forgotten"]) == (3, 1)
    assert not archive_has(light, "Since noon."), "what was forgotten stays forgotten"
    done = light.command("hmem", "import", "--undo", first["import"], "--yes", check=False)
    assert f"There is no import {first['import']}. hmem import --list shows all." in done.stderr


def test_the_preview_says_what_it_is_and_shows_the_first_and_last_words(light: World) -> None:
    path = export(light, "export.zip", "what stands at the pond?", "A heron.", "thanks")
    done = light.command("hmem", "import", str(path), ALLOWED_CHATS=CHAT, check=False)
    assert "conversations.json" in done.stderr, "by what it is recognised"
    assert "3 turns found: 3 would be new" in done.stdout
    assert "into chat 9912, the only one that the bot answers (--chat names another)" in done.stdout
    assert "user: what stands at the pond?" in done.stdout
    assert "user: thanks" in done.stdout
    assert "Nothing was imported, as nobody could be asked. Add --yes." in done.stderr
    assert listed(light) == []
    odd = path.rename(os.fsdecode(os.fsencode(light.root) + b"/caf\xe9.zip"))
    assert bring(light, odd)["new"] == 3
    assert [one["files"] for one in listed(light)] == [["caf\ufffd.zip"]]
    done = light.command("hmem", "import", str(odd), "--yes", ALLOWED_CHATS="5,9912", check=False)
    assert done.returncode == InvalidInput.exit_code
    assert "Name the chat that it belongs to with --chat=ID. The bot answers 5, 9912." in done.stderr


def test_it_wants_one_thing(light: World) -> None:
    for given in ((), ("--list", "--undo", "x"), ("file", "--list")):
        done = light.command("hmem", "import", *given, check=False)
        assert "Name the files to import, or give --list or --undo IMPORT alone." in done.stderr


def test_the_nights_host_names_the_place_where_it_is_undone(light: World) -> None:
    done = light.command("hmem", "import", "--undo", "x", "--yes", PUBLISH_TARGET="night@day.example:", check=False)
    assert "The bot's memory is on another host (PUBLISH_TARGET), where an import is undone" in done.stderr


def test_a_conversation_is_forgotten_by_its_title(light: World) -> None:
    light.say("t1", "what is for dinner?", chat_id=CHAT)
    bring(light, export(light, "export.zip", "how tall shall it be?", "forty metres of coral stone"))
    light.command("hmem", "forget", "--matching=  BOILER", f"--chat={CHAT}", "--yes")
    assert not archive_has(light, "coral stone")
    assert not archive_has(light, "Boiler"), "the title has gone with its turns"
    assert history(light) == [("user", "what is for dinner?")]


def test_two_undone_before_a_night_take_out_what_both_have(light: World) -> None:
    """The nights that the undoing runs fail; the next one does both."""
    small = export(light, "small.zip", "what stands at the pond?", "A heron.")
    large = export(light, "large.zip", "what stands at the pond?", "A heron.", "since when?", "Since noon.")
    bring(light, small)
    bring(light, large)
    first, second = listed(light)
    for batch in (second, first):
        done = light.command(
            "hmem", "import", "--undo", batch["import"], "--yes", HMEM_CRASH_AT="export:after-commit", check=False
        )
        assert done.returncode == ForgetIncomplete.exit_code, done.stderr
    assert [one["undone"] for one in listed(light)] == [True, True]
    done = light.command("hmem", "import", "--undo", first["import"], "--yes", check=False)
    assert "is undone already. hmem forget --resume finishes it" in done.stderr
    light.night()
    assert listed(light) == []
    assert not archive_has(light, "heron")


def test_what_another_program_writes_of_imports_stops_none(light: World) -> None:
    state = {"kind": "import", "id": "x1", "chat_id": CHAT, "what": "made", "at": NOON, "state": {"a": 1}}
    light.redis.set("hcli:mem:event:import:x1", json.dumps(state))
    light.night()
    bring(light, export(light, "export.zip", "what stands at the pond?", "A heron."))
    assert [one["files"] for one in listed(light)] == [["export.zip"]]
    assert Batch.of(Event.parse(b"hcli:mem:event:import:x1", json.dumps(state).encode())) is None


def remembered(world: World) -> list[str]:
    found = json.loads(world.command("hmem", "memory", "list", CHAT, "--json").stdout)["memories"]
    return [one["text"] for one in found]


def consolidated(world: World) -> None:
    """A round of a dispatcher's consolidation."""
    with closing(DayMemory(world.settings(), nullcontext)) as day:
        Consolidator(day, world.redis, "worker").round()


def test_what_another_program_remembered_becomes_memories_and_goes_with_its_import(light: World) -> None:
    facts = "[2025-11-02] - likes short answers\n[2025-11-03] - has a dog, Rex\n[unknown] - " + "long " * 300
    path = written(light.root / "memories.md", facts)
    light.command("hmem", "memory", "add", CHAT, "Likes short answers.")
    shown = light.command("hmem", "import", str(path), "--dry-run", ALLOWED_CHATS=CHAT).stdout
    assert "2 facts that would become memories" in shown
    assert "2025-11-03  has a dog, Rex" in shown
    assert '"likes short answers" is known as 1. "Likes short answers."' in shown
    assert bring(light, path)["new"] == 3
    assert light.redis.llen("hcli:mem:tags") == 2
    night = str(max(int(path.name) for path in (light.night_dir / "nights").iterdir() if path.name.isdecimal()))
    assert json.loads((light.night_dir / "nights" / night / "flush" / "result.json").read_bytes())["facts"] == 2
    tags = light.redis.lrange("hcli:mem:tags", 0, -1)
    light.redis.rpush("hcli:mem:tags", *tags)  # handed over again
    consolidated(light)
    assert remembered(light) == ["Likes short answers.", "has a dog, Rex"]
    entry = json.loads(light.command("hmem", "memory", "list", CHAT, "--json").stdout)["memories"][1]
    assert entry["created"] == datetime(2025, 11, 3, 12, tzinfo=UTC).timestamp(), "its day"
    light.redis.rpush("hcli:mem:tags", *tags)
    (batch,) = listed(light)
    light.command("hmem", "import", "--undo", batch["import"], "--yes")
    assert light.redis.llen("hcli:mem:tags") == 0, "what no dispatcher has taken goes, too"
    assert remembered(light) == ["Likes short answers."]


def test_what_is_no_export_is_refused_with_the_reason(light: World) -> None:
    path = light.root / "file"
    for content, why in (
        (None, f"There is no {path}, or the user "),
        (b"", f"{path} is empty."),
        (b"\x89PNG\r\n\x1a\n\0\0", f"{path} holds no text (a picture, a recording, a program?)."),
        (zipped({"conversations.json": "[" + " " * 9_000})[:100], f"{path} is refused: "),
        (b"only words", f"{path} is not recognised by its content as any format. By its name it may be one of "),
    ):
        if content is not None:
            written(path, content)
        done = light.command("hmem", "import", str(path), "--yes", check=False)
        assert (done.returncode, why in done.stderr) == (InvalidInput.exit_code, True), done.stderr


def test_of_a_file_of_no_format_all_are_listed_one_a_line_and_the_likeliest_are_named(light: World) -> None:
    for name, content, likely in (
        ("result (1).json", b"{}", "telegram"),
        ("conversations", b" [1]", "chatgpt"),
        ("notes.md", b"x", "basic-memory"),
    ):
        path = written(light.root / name, content)
        told = light.command("hmem", "import", str(path), "--yes", check=False).stderr.splitlines()
        assert [line.split()[0] for line in told[1:-1]] == list(formats())
        assert f"By its name it may be one of {likely}, " in told[-1], "chat and page show the last line alone"
    mistyped = light.command("hmem-night", "backfill", "telegramm", str(path), check=False).stderr
    assert "There is no format and no file telegramm. Did you mean telegram? " in mistyped


@pytest.mark.parametrize(
    ("sentence", "option"),
    [
        ("Name the chat that it belongs to with --chat=ID. The bot answers 5, 9912.", "chat"),
        (
            "x has several chats: 1, 2. Name the one that belongs to --chat with --only NAME, as Signal shows it.",
            "only",
        ),
        (
            "x does not show in which order day, month and year are written. Name it with --dates dmy, mdy or ymd.",
            "dates",
        ),
        ("It is not known who is the bot. Give --bot its name as Telegram shows it.", "bot"),
        ("Nobody in x is called Eve: there are Ann, Bob. Name one with --as NAME.", "as"),
    ],
)
def test_in_a_terminal_it_asks_for_what_an_error_names(
    light: World, monkeypatch: pytest.MonkeyPatch, sentence: str, option: str
) -> None:
    calls = list[tuple[str, ...]]()

    def night(_: Settings, *arguments: str, ours: bool = False) -> bytes:
        calls.append(arguments)
        if len(calls) == 1:
            raise NightCommandFailed("backfill", InvalidInput.exit_code, sentence)
        return b'{"new": 1, "text": ["1 turn"], "facts": []}'

    monkeypatch.setattr(night_command, "run_night", night)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    answers = {"--chat": CHAT}
    monkeypatch.setattr(typer, "prompt", lambda shown: answers.get(shown, f"answer to {shown}"))
    expected = f"--{option}={answers.get(f'--{option}', f'answer to --{option}')}"
    asked, new = imports._previewed(light.settings(), ["file"], json=False)
    assert (asked, new) == (["file", expected], True)
    assert calls[1][:3] == ("backfill", "file", expected)
    calls.clear()
    answers["--chat"] = "Family"
    with pytest.raises(InvalidInput, match=r"There is no chat Family\.") if option == "chat" else nullcontext():
        imports._previewed(light.settings(), ["file"], json=False)
