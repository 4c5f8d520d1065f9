"""`/import` in the chat: a file with a caption, its preview, a yes, the outcome, and taking it out again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from nightly.imports.formats import formats
from tests.nightly.imports.exports.builders import NOON, gpt_conversation, gpt_node
from tests.support.day.hcli_bot import SAY, Bot, script
from tests.support.machine import wait_for
from tests.support.processes.talk import CHAT, Talk, talking
from tests.support.world import World

QUESTION = gpt_node("q", "root", "user", "what stands at the pond?", NOON)
EXPORT = json.dumps([gpt_conversation(QUESTION, gpt_node("a", "q", "assistant", "A heron.", NOON + 1))]).encode()


def press(talk: Talk, label: str, expected: str) -> None:
    """Press a button of the newest message; what the bot says until that is there."""
    talk.stage.api.press(CHAT, label)
    wait_for(lambda: any(expected in text for text in talk.stage.api.texts(CHAT)), expected, 120)


def test_a_file_is_previewed_brought_in_and_taken_out(redis_url: str, tmp_path: Path) -> None:
    """The real bot, dispatcher and night."""
    with talking(redis_url, tmp_path, EMBEDDER="none", NIGHT_INDEXES="none", ALLOWED_CHATS=str(CHAT)) as talk:
        document = talk.stage.api.files.document(EXPORT, "conversations.json", "application/json")
        shown = talk.send(None, caption="/import", **document)
        assert "2 turns found: 2 would be new" in shown
        assert "user: what stands at the pond?" in shown
        press(talk, "Import it", "I am importing it and will tell you when it is done.")
        wait_for(lambda: any("2 turns found: 2 new" in text for text in talk.stage.api.texts(CHAT)), "the outcome", 120)
        assert not any((talk.stage.world.root / "state" / "web-uploads").iterdir())
        assert "A heron." in talk.search("heron")
        listed = talk.send("/import")
        assert "chatgpt, 2, conversations.json" in listed
        name = listed.split("chatgpt")[0].rpartition("\n")[2].strip(": ")
        press(talk, f"Undo {name}", "I am removing it and will tell you when it is done.")
        wait_for(lambda: any("Undoing an import" in text for text in talk.stage.api.texts(CHAT)), "the outcome", 120)
        assert "A heron." not in talk.search("heron")
        assert talk.model.requests == [], "Claude was asked nothing"


def sent(world: World, bot: Bot, caption: str, content: bytes, chat: object = CHAT) -> dict[str, Any]:
    """The answer to a file with a caption."""
    name = hashlib.sha256(content).hexdigest()
    world.redis.set(f"hcli:mem:media:{name}", content)
    media = [{"kind": "document", "sha256": name, "size": len(content), "name": "../conversations.json"}]
    return bot.receive(bot.send(caption, str(chat), media=media))


def test_what_cannot_be_imported_is_said(light: World, bot: Bot) -> None:
    running = light.start_dispatcher(ALLOWED_CHATS=f"{CHAT}", CLAUDE_BIN=script(light, f"{SAY} fine"))
    assert "is not recognised by its content" in sent(light, bot, "/import", b"words")["output"]
    assert "If I need to know more" in sent(light, bot, "/import all of it", b"words")["output"]
    usage = bot.ask("/import", CHAT)
    assert "Send a file" in usage
    assert all(f"- {one.what}" in usage for one in formats().values()), "what the readers say of themselves"
    assert "Only an owner may import" in sent(light, bot, "/import", EXPORT, 77)["output"]
    ((yes, no),) = sent(light, bot, "/import as: Ann", EXPORT)["buttons"]
    assert bot.ask(no["command"], CHAT) == "I have removed the file."
    assert bot.ask(yes["command"], CHAT) == "The file is no longer there. Please send it again."
    assert sent(light, bot, "look at this", b"words")["output"].endswith("fine")
    assert not any((light.root / "state" / "web-uploads").iterdir())
    assert running.stop() == 0


def test_where_the_archive_is_elsewhere_it_waits_for_the_night_there(light: World, bot: Bot) -> None:
    light.say("t1", "good morning", chat_id=str(CHAT))
    light.night()
    elsewhere = str(light.root / "no-archive-here" / "night")
    running = light.start_dispatcher(ALLOWED_CHATS=f"{CHAT}", HMEM_NIGHT_DIR=elsewhere)
    shown = sent(light, bot, "/import", EXPORT)
    assert "2 turns found: 2 would be new" in shown["output"]
    ((yes, _),) = shown["buttons"]
    assert "I am importing it" in bot.ask(yes["command"], CHAT)
    wait_for(lambda: light.redis.hlen("hcli:mem:imports") == 1, "the import that waits", 120)
    listed = bot.ask("/import", CHAT)
    assert "; waits for the next night, since " in listed
    light.night()
    assert ": 2 new" in bot.ask("/import", CHAT)
    assert running.stop() == 0
