"""Exports of other programs by the real commands: a dry run, once, a later and larger one, forgotten, and into the chat that was named."""

from __future__ import annotations

import json

import pytest

from nightly.imports.formats import formats
from shared.errors import InvalidInput
from tests.nightly.backfill.test_import_files import archived, backfill, fates, plan, report, staged, turns_in_archive
from tests.nightly.imports.exports.builders import (
    NOON,
    gpt_conversation,
    gpt_node,
    signal_frames,
    signal_item,
    written,
)
from tests.nightly.imports.exports.golden import ANSWER, GOLDEN, chatgpt, openclaw
from tests.support.world import World


def test_exports_come_in_once_and_larger_ones_add_what_is_new(light: World) -> None:
    """One of each format that names no chat of ours, all in one night."""
    sources = [name for name, one in formats().items() if not one.of_a_chat]
    for source in sources:
        path = str(GOLDEN[source](light.root / source, False))
        with pytest.raises(InvalidInput, match="--chat=ID"):
            report(light, source, path)
        dry = plan(light, source, path, "--chat", "-100")
        assert (dry["found"], dry["unreadable"], dry["new"]) == (2, 0, 2), source
        assert NOON - 1 <= dry["first"] <= dry["last"] <= NOON + 5
        staged(light, source, path, "--chat", "-100")
    assert not (light.night_dir / "archive").exists()
    assert light.night()[0]["new"] == 2 * len(sources)
    before = archived(light)
    assert {chat for chat, _ in before.values()} == {"-100"}
    for source in sources:
        more = (source, str(GOLDEN[source](light.root / source, True)), "--chat", "-100")
        assert fates(plan(light, *more)) == (2, 2, 0, 0), f"{source}: both of the same words"
        staged(light, *more)
    light.night()
    assert before.items() <= archived(light).items()
    assert turns_in_archive(light) == 4 * len(sources)


def test_an_answer_that_was_made_anew_comes_in_after_the_earlier_one(light: World) -> None:
    anew, thanks = "A grey heron, to be exact.", "thanks for the heron"
    nodes = [gpt_node("q", "root", "user", "what stands there?"), gpt_node("a", "q", "assistant", ANSWER, NOON + 5)]
    more = [gpt_node("b", "q", "assistant", anew, NOON + 60), gpt_node("q2", "b", "user", thanks, NOON + 70)]
    first = written(light.root / "conversations.json", [gpt_conversation(*nodes)])
    assert fates(report(light, "chatgpt", str(first), "--chat", "9912")) == (2, 0, 0, 0)
    second = written(light.root / "conversations.json", [gpt_conversation(*nodes, *more)])
    assert fates(report(light, "chatgpt", str(second), "--chat", "9912")) == (2, 1, 0, 0)
    history = json.loads(light.command("hmem", "history", "9912", "--json").stdout)
    titled, *later = [turn["text"] for turn in history["turns"]]
    assert (titled.partition("\n")[2], later) == ("what stands there?", [ANSWER, anew, thanks])
    hits = json.loads(light.command("hmem", "search", "9912", "grey heron", "--json").stdout)["hits"]
    assert {hit.get("question") for hit in hits if hit["text"] == anew} == {titled}


def test_it_is_recalled_and_says_where_it_is_from(light: World) -> None:
    staged(light, "openclaw", str(openclaw(light.root, False)), "--chat", "9912")
    report(light, "chatgpt", str(chatgpt(light.root, False)), "--chat", "9912")
    hits = json.loads(light.command("hmem", "search", "9912", "heron pond", "--json").stdout)["hits"]
    labels = {hit["label"] for hit in hits if "heron stands" in hit["text"]}
    assert labels == {"assistant", "user (forwarded from OpenClaw's memory)"}


def test_the_commands_take_their_options_and_name_what_is_wrong(light: World) -> None:
    path = written(light.root / "chat.txt", "03/04/24, 10:00 - Ann: hi\n03/04/24, 10:01 - AI: hello\n")
    asked = backfill(light, str(path), "--chat", "9912", "--dry-run", check=False)
    assert asked.returncode == 24
    assert "is WhatsApp's exported chat: a file whose lines begin with a date" in asked.stdout
    assert "--dates dmy, mdy or ymd" in asked.stderr
    for other, code in (("claude", 24), ("openclaw", 0)):  # any text may be a note
        other_format = backfill(light, other, str(path), "--chat", "9912", "--dry-run", check=False)
        assert other_format.returncode == code
        assert f"hmem-night backfill whatsapp {path}" in other_format.stderr
    with pytest.raises(InvalidInput, match="Write dmy, mdy or ymd"):
        plan(light, "whatsapp", str(path), "--chat", "9912", "--dates", "xyz")
    found = json.loads(
        backfill(light, "whatsapp", str(path), "--chat", "9912", "--dates", "mdy", "--bot", "AI", "--json").stdout
    )
    assert found["new"] == 2
    assert "dates are read as month, day, year (--dates mdy); 2 of 2 dates fit" in "".join(found["notes"])
    assert sorted(turn_id.rpartition(":")[2] for turn_id in archived(light)) == ["asst", "user"]
    frames = signal_frames(signal_item("2", "a"), signal_item("2", "b", chat="11"))
    account = str(written(light.root / "main.jsonl", "\n".join(map(json.dumps, frames))))
    one = json.loads(
        backfill(light, "signal", account, "--chat", "9912", "--only", "Family", "--dry-run", "--json").stdout
    )
    assert one["left_out"] == {"of another conversation than --only": 1}
