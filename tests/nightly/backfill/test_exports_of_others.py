"""Exports of other programs by the real commands: a dry run, once, a later and larger one, forgotten, and into the chat that was named."""

from __future__ import annotations

import json

import pytest

from nightly.imports.formats import formats
from shared.errors import InvalidInput
from tests.nightly.backfill.test_import_files import archived, backfill, fates, plan, report, turns_in_archive
from tests.nightly.imports.exports.builders import (
    NOON,
    claude_conversation,
    claude_message,
    gpt_conversation,
    gpt_node,
    signal_frames,
    signal_item,
    written,
    zipped,
)
from tests.nightly.imports.exports.golden import ANSWER, GOLDEN, chatgpt, openclaw
from tests.support.world import World


@pytest.mark.parametrize("source", [name for name, one in formats().items() if not one.of_a_chat])
def test_an_export_comes_in_once_and_a_larger_one_adds_what_is_new(light: World, source: str) -> None:
    path = GOLDEN[source](light.root, False)
    with pytest.raises(InvalidInput, match="--chat=ID"):
        report(light, source, str(path))
    dry = plan(light, source, str(path), "--chat", "-100")
    assert (dry["found"], dry["unreadable"], dry["new"]) == (2, 0, 2)
    assert not (light.night_dir / "archive").exists()
    first = report(light, source, str(path), "--chat", "-100")
    assert (first["new"], first["first"], first["last"]) == (2, dry["first"], dry["last"])
    assert NOON - 1 <= first["first"] <= first["last"] <= NOON + 5
    before = archived(light)
    assert {chat for chat, _ in before.values()} == {"-100"}
    later = report(light, source, str(GOLDEN[source](light.root, True)), "--chat", "-100")
    assert fates(later) == (2, 2, 0, 0), "both of the same words"
    assert before.items() <= archived(light).items()
    assert turns_in_archive(light) == 4


@pytest.mark.parametrize(("source", "with_first"), [("chatgpt", True), ("claude", False)])
def test_an_answer_that_was_made_anew_comes_in_after_the_earlier_one(
    light: World, source: str, with_first: bool
) -> None:
    anew, thanks = "A grey heron, to be exact.", "thanks for the heron"
    if source == "chatgpt":
        nodes = [gpt_node("q", "root", "user", "what stands there?"), gpt_node("a", "q", "assistant", ANSWER, NOON + 5)]
        more = [gpt_node("b", "q", "assistant", anew, NOON + 60), gpt_node("q2", "b", "user", thanks, NOON + 70)]
        made = gpt_conversation
    else:
        root = "00000000-0000-4000-8000-000000000000"
        nodes = [claude_message("q", "human", "what stands there?", parent_message_uuid=root),
                 claude_message("a", "assistant", ANSWER, "2026-02-09T12:00:05Z", parent_message_uuid="q")]  # fmt: skip
        more = [claude_message("b", "assistant", anew, "2026-02-09T12:01:00Z", parent_message_uuid="q"),
                claude_message("q2", "human", thanks, "2026-02-09T12:01:10Z", parent_message_uuid="b")]  # fmt: skip
        made = claude_conversation
    first = written(light.root / "conversations.json", [made(*nodes)])
    assert fates(report(light, source, str(first), "--chat", "9912")) == (2, 0, 0, 0)
    second = written(light.root / "conversations.json", [made(*nodes[: 2 if with_first else 1], *more)])
    assert fates(report(light, source, str(second), "--chat", "9912")) == (2, 1, 0, 0)
    history = json.loads(light.command("hmem", "history", "9912", "--json").stdout)
    titled, *later = [turn["text"] for turn in history["turns"]]
    assert (titled.partition("\n")[2], later) == ("what stands there?", [ANSWER, anew, thanks])
    hits = json.loads(light.command("hmem", "search", "9912", "grey heron", "--json").stdout)["hits"]
    assert {hit.get("question") for hit in hits if hit["text"] == anew} == {titled}


def test_it_is_recalled_and_says_where_it_is_from(light: World) -> None:
    report(light, "openclaw", str(openclaw(light.root, False)), "--chat", "9912")
    report(light, "chatgpt", str(chatgpt(light.root, False)), "--chat", "9912")
    hits = json.loads(light.command("hmem", "search", "9912", "heron pond", "--json").stdout)["hits"]
    labels = {hit["label"] for hit in hits if "heron stands" in hit["text"]}
    assert labels == {"assistant", "user (forwarded from OpenClaw's memory)"}
    shown = light.command("hmem", "search", "9912", "heron pond").stdout
    assert "forwarded from OpenClaw" in shown


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
    wrong = backfill(light, "whatsapp", str(path), "--chat", "9912", "--dates", "xyz", check=False)
    assert "Write dmy, mdy or ymd" in wrong.stderr
    found = json.loads(
        backfill(light, "whatsapp", str(path), "--chat", "9912", "--dates", "mdy", "--bot", "AI", "--json").stdout
    )
    assert found["new"] == 2
    told = backfill(light, "whatsapp", str(path), "--chat", "9912", "--dates", "mdy", "--dry-run").stdout
    assert "dates are read as month, day, year (--dates mdy); 2 of 2 dates fit" in told
    assert sorted(turn_id.rpartition(":")[2] for turn_id in archived(light)) == ["asst", "user"]
    frames = signal_frames(signal_item("2", "a"), signal_item("2", "b", chat="11"))
    account = written(light.root / "main.jsonl", "\n".join(map(json.dumps, frames)))
    several = backfill(light, "signal", str(account), "--chat", "9912", check=False)
    assert "--only NAME" in several.stderr
    one = json.loads(
        backfill(light, "signal", str(account), "--chat", "9912", "--only", "Family", "--dry-run", "--json").stdout
    )
    assert one["left_out"] == {"of another conversation than --only": 1}


def test_a_hostile_archive_leaves_nothing_behind(light: World) -> None:
    path = written(light.root / "evil.zip", zipped({"conversations.json": "[]", "../../escape.json": "[]"}))
    before = sorted(light.root.parent.iterdir())
    done = backfill(light, "chatgpt", str(path), "--chat", "9912", check=False)
    assert done.returncode == 24
    assert "leads out of the archive" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(light.root.parent.iterdir()) == before
    assert not [*(light.night_dir / "imports").glob("*.jsonl")]
