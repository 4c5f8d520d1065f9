"""Record the loopback Telegram's traffic with pictures, recordings and documents: writes docs/recordings/telegram-media.txt.

.venv/bin/python scripts/record_media.py     (it needs redis-server, and the Claude CLI)
"""

from __future__ import annotations

import shlex
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from scripts.record_buttons import Recorder, record  # noqa: E402
from tests.servers.messages_api import Reply, ToolCall  # noqa: E402
from tests.support.talk import CHAT, OGG, Talk, png, talking  # noqa: E402

TARGET = ROOT / "docs" / "recordings" / "telegram-media.txt"
HEAD = """\
What people, the bot and the loopback Bot API of the tests say to each other about pictures, recordings and documents, made
by scripts/record_media.py: the real Claude CLI, whose model is a script, and a loopback server that transcribes. Below each
part: what reached the model, without our headers, and what is stored of the message. Seconds are from the first line of a
part; answers are shown when they are complete (STREAM=false).
"""


class Recording:
    def __init__(self, talk: Talk) -> None:
        self.talk, self.files = talk, talk.stage.api.files
        self.record = Recorder(talk.stage, CHAT)

    def sends(self, what: str, answer: str | Any, **fields: Any) -> None:
        self.talk.answer = answer
        self.record.note(what)
        self.talk.send(**fields)

    def part(self, title: str, *, asked: bool = True) -> str:
        found = self.record.part(title)
        kinds = [str(one["type"]) for one in self.talk.asked()["content"] if isinstance(one, dict)] if asked else []
        words = (
            [line for line in self.talk.words().splitlines() if line and not line.startswith("[Image: ")]
            if asked
            else []
        )
        reached = [f"       model ← {', '.join(kinds)}: {words[-1]}"] if words else ["       model ← nothing"]
        turns = sorted(self.talk.turns(), key=lambda one: float(one["timestamp"]))
        media = [
            f"{one['kind']} of {one['size']} bytes: {str(one.get('text', ''))[:60]!r}"
            for one in turns[-1].get("media", [])
        ]
        stored = f"       stored: {turns[-1]['content']!r}{''.join(f' + {one}' for one in media)}"
        return "\n".join([found, "", *reached, stored])


def record_all(url: str, root: Path) -> str:
    settings = {"SEND_FILES": "true", "CLAUDE_ALLOWED_TOOLS": "Bash", "BUTTONS": "false", "STREAM": "false"}
    with talking(url, root, **settings) as talk:
        return record_talk(talk)


def record_talk(talk: Talk) -> str:
    here, files = Recording(talk), talk.stage.api.files
    parts = []
    talk.spoken = "The boiler shows F28."
    here.sends("sends a voice message", "F28 is the pressure.", **files.voice(OGG))
    parts.append(here.part("A voice message: what was heard stands above the answer"))
    talk.answer, known = "Then it is the flame sensor.", len(talk.stage.api.texts(CHAT))
    here.record.note("replies to the voice message: The boiler shows F29, not F28.")
    talk.stage.api.reply(CHAT, talk.stage.api.newest(CHAT), "The boiler shows F29, not F28.")
    talk.answered(known)
    parts.append(here.part("It is corrected by a reply"))
    here.sends(
        "sends a picture: what do you think?", "A nice bike.\n[PICTURE CODE: 1 | A red bicycle on a wall]",
        caption="what do you think?", **files.photo(png(1)),
    )  # fmt: skip
    parts.append(here.part("A picture with a caption"))
    album = [files.photo(png(number)) | {"media_group_id": "a"} for number in (2, 3, 4)]
    talk.answer = "Lovely.\n[PICTURE CODE: 1 | A lake] [PICTURE CODE: 2 | A boat] [PICTURE CODE: 3 | Ada in the boat]"
    here.record.note("sends three pictures at once: our holiday")
    known = len(talk.stage.api.texts(CHAT))
    talk.stage.api.album(CHAT, [album[0] | {"caption": "our holiday"}, *album[1:]])
    talk.answered(known)
    parts.append(here.part("An album is one message"))
    contract = b"Contract\n\nEither side may end it with three months' notice to the end of a quarter.\n"
    here.sends(
        "sends contract.txt: keep this",
        "Noted: three months.",
        caption="keep this",
        **files.document(contract, "contract.txt", "text/plain"),
    )
    parts.append(here.part("A document"))
    before = len(talk.model.requests)
    here.sends("sends old.zip", "?", **files.document(archive(), "old.zip", "application/zip"))
    assert len(talk.model.requests) == before
    parts.append(here.part("An archive is refused in a sentence", asked=False))
    talk.answer = writes(talk, "rents.csv", "room,rent\nattic,555\n")
    here.record.note("writes: make a table of rents")
    talk.send("make a table of rents")
    parts.append(here.record.part("Claude's own file comes back (SEND_FILES)"))
    return "\n\n".join([HEAD.rstrip(), *parts]) + "\n"


def archive() -> bytes:
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as made:
        made.writestr("letter.txt", "Dear Ada")
    return content.getvalue()


def writes(talk: Talk, name: str, content: str) -> Any:
    """The model writes a file by a shell, and then answers."""
    path = talk.stage.world.root / "state" / "chats" / str(CHAT) / name
    calls = iter([f"printf %s {shlex.quote(content)} > {shlex.quote(str(path))}"])

    def reply(_: dict[str, Any]) -> Reply:
        command = next(calls, None)
        return ToolCall("Bash", {"command": command, "description": "Write"}, "toolu_1") if command else "Here it is."

    return reply


if __name__ == "__main__":
    record(TARGET, record_all)
