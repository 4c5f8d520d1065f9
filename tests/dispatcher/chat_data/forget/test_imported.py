"""`hmem forget` reaches what was imported from other programs: by turn, by words, and by the title of a conversation."""

from __future__ import annotations

from tests.dispatcher.chat_data.forget.test_turns_and_text import forgotten
from tests.nightly.backfill.test_import_files import archived, report
from tests.nightly.imports.exports.builders import NOON, gpt_conversation, gpt_node, written
from tests.support.night.archives import places
from tests.support.world import World

TITLE = "Zanzibar lighthouse plans"


def imported(world: World) -> dict[str, tuple[str, bytes]]:
    titled = gpt_conversation(
        gpt_node("q", "root", "user", "how tall shall it be?"),
        gpt_node("a", "q", "assistant", "forty metres of coral stone", NOON + 5),
        title=TITLE,
    )
    other = gpt_conversation(
        gpt_node("z", "root", "user", "what is for dinner?"), conversation_id="c-2", title="Dinner"
    )
    report(world, "chatgpt", str(written(world.root / "c.json", [titled, other])), "--chat", "9912")
    (world.root / "c.json").unlink()
    return archived(world)


def test_a_conversation_goes_by_its_title(light: World) -> None:
    imported(light)
    forgotten(light, "--matching=zanzibar  LIGHTHOUSE", "--chat=9912")
    assert places(light, "coral stone") == []
    assert places(light, "Zanzibar") == [], "the title has gone with its turns"
    assert len(archived(light)) == 1
