"""*Forget*: what would be erased, then erased for ever, and the receipts. The work is `hmem forget`; its words never lie in a file of this page."""

from __future__ import annotations

import subprocess
import threading
from typing import Any

import orjson
from starlette.responses import Response

from dispatcher.chat_data.forget.journal import unfinished_names
from dispatcher.chat_data.forget.receipt import receipts
from dispatcher.features.web.reading.chats import name_of
from dispatcher.features.web.requests.asked import Asked, NotShown, go_to, one_at_a_time
from dispatcher.releases.night_command import as_ourselves
from shared.errors import InvalidInput
from shared.system.processes import day_command, last_line

#: What has to be typed before anything is erased.
CONFIRMATION = "forget"
#: Seconds that a preview may take: it reads the archive.
PREVIEW_SECONDS = 900.0
RECEIPTS = 100
#: Of what is to be forgotten, so many facts are shown.
FACTS = 50
#: Held while a preview is made: it reads the whole archive.
_PREVIEWING = threading.Lock()


def page(asked: Asked) -> Response:
    grant = asked.session.grant
    every = receipts(asked.settings.hmem_state_dir)
    done = [one for one in every if grant.whole_host or (one["chats"] and all(map(grant.sees, one["chats"])))]
    return asked.page(
        "forget.html",
        "Forget",
        receipts=done[: -RECEIPTS - 1 : -1],
        unfinished=unfinished_names(asked.settings.hmem_state_dir) if grant.whole_host else [],
    )


def preview(asked: Asked) -> Response:
    arguments, words = _selection(asked)
    try:
        with one_at_a_time(_PREVIEWING, "preview"), as_ourselves() as child:
            command = day_command("forget", *arguments, "--json")
            done = subprocess.run(
                command, input=words, capture_output=True, encoding="utf-8", errors="replace",
                timeout=PREVIEW_SECONDS, check=False, **child,
            )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise InvalidInput(
            "The preview took too long: there is too much to read. Choose one chat; or run hmem forget in a terminal."
        ) from None
    if done.returncode:
        raise InvalidInput(last_line(done))
    shown: dict[str, Any] = orjson.loads(done.stdout)["preview"]
    given = {name: asked.value(name) for name in ("what", "chat", "before", "turn", "text")}
    given["chat"] = shown["asked"].get("chat_id", "")  # a name could be another chat's by then
    facts = shown["memories"][:FACTS]
    mentioned = [*shown["chats"][:1], *(one["chat_id"] for one in [*shown["texts"], *facts])]
    with asked.memory() as memory:
        names = {chat_id: name_of(memory, chat_id) for chat_id in dict.fromkeys(mentioned)}
    return asked.page(
        "forget_preview.html",
        "What would be forgotten",
        shown=shown,
        facts=facts,
        names=names,
        given=given,
        confirmation=CONFIRMATION,
    )


def carry_out(asked: Asked) -> Response:
    if asked.value("confirmation").strip().lower() != CONFIRMATION:
        raise InvalidInput(f"Nothing was erased: the word {CONFIRMATION} was not typed. Go back and type it.")
    if asked.value("what") == "resume":
        if not asked.session.grant.whole_host:
            raise NotShown
        job = asked.jobs.day("Finish what is to be forgotten", "forget", "forget", "--resume", "--yes")
        return go_to(f"/jobs/{job}")
    arguments, words = _selection(asked)
    chats = [asked.value("chat")] if asked.value("chat") else None
    job = asked.jobs.day("Forget", "forget", "forget", *arguments, "--yes", chats=chats, stdin=words)
    return go_to(f"/jobs/{job}")


def _selection(asked: Asked) -> tuple[list[str], str]:
    """(arguments of `hmem forget`, the words for its standard input). A session that sees some chats names one of them."""
    what, chat = asked.value("what"), asked.value("chat").strip()
    narrowed = bool(chat) or not asked.session.grant.whole_host
    arguments = [f"--chat={asked.chat()}"] if narrowed else []
    if what == "chat":
        asked.wanted("chat", "No chat is named. Go back and name one.")
        before = asked.value("before").strip()
        return [*arguments, *([f"--before={before}"] if before else [])], ""
    if what == "turn":
        turn = asked.wanted("turn", "No message is named. Go back and name one: Talk shows its id, under Details.")
        return [*arguments, f"--turn={turn}"], ""
    if what == "matching":
        text = asked.wanted("text", "The text is empty. Go back and write what is to be forgotten.")
        return [*arguments, "--matching=-"], text
    raise InvalidInput("Choose what to forget: a chat, a message or a text.")
