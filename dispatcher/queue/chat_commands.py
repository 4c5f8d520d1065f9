"""The commands that the dispatcher answers: the bot queues them as messages, and lists them in its menu."""

from __future__ import annotations

from collections.abc import Mapping

from shared.hooks import features, specification
from shared.text.translations import later

CORE = {
    "memory": later("what I remember about you"),
    "forget": later("forget messages of this chat"),
    "why": later("what my last answer was based on"),
    "retry": later("answer your last message again"),
    "timezone": later("the time zone of this chat"),
}
#: Bot and dispatcher say it.
EDITED_TOO_LATE = later(
    "I had already taken the earlier text, so I did not read the change. Please send the new text as a message."
)


@specification(fails="open")
def menu() -> Mapping[str, str] | None:
    """Name of a chat command without its slash → what it does, for the bot's menu. `chat_commands` has what carries it out."""


def answered_at_once() -> list[str]:
    """Names of the commands that do not need Claude."""
    return [name for name in dispatcher_commands() if name != "retry"]


def dispatcher_commands() -> dict[str, str]:
    """Name → what it does, in the order of the menu."""
    return {name: text for listed in (CORE, *features().ask(menu)) for name, text in listed.items()}
