"""Who may do what. In a private chat the person is the chat; in a group OWNERS says who has an owner's rights, and all others are members.

Whoever writes in the name of a group or a channel, or without a number, is a member: only a person's own number can stand in OWNERS.
The README has the table. The bot asks for its own commands, the dispatcher for what a task wants forgotten, whichever bot brought it.
"""

from __future__ import annotations

from shared.config.settings import Settings
from shared.config.values import is_person


def in_group(chat_id: str) -> bool:
    """Whether a chat is a group: Telegram numbers them below zero."""
    return chat_id.startswith("-")


class Rights:
    """As the settings give them."""

    def __init__(self, settings: Settings) -> None:
        self._owners = settings.owner_ids
        self._private_chats = {str(chat) for chat in settings.allowed if chat > 0}

    def unlimited(self, chat_id: str, user: str | None) -> bool:
        """Whether this person may do in this chat whatever concerns it."""
        return not in_group(chat_id) or user in self._owners

    def refusal(self, what: str, chat_id: str, user: str | None) -> str:
        """Why this person may not do in this chat what only an owner may do in a group; "" for who may."""
        return "" if self.unlimited(chat_id, user) else f"In a group only an owner may {what}. {_how(user)}"

    def counts_all(self, chat_id: str, user: str | None) -> bool:
        """Whether this person is shown here what was done in all chats: an owner in private. Without OWNERS the person of the only private
        chat is taken for the owner."""
        if in_group(chat_id):
            return False
        return user in self._owners or (not self._owners and self._private_chats == {chat_id})


def _how(user: str | None) -> str:
    if user is None or not is_person(user):
        return "OWNERS in the settings names the owners by their own numbers, and you write without one here: write as yourself."
    return f"Your number is {user}: whoever runs me makes you an owner by adding it to OWNERS in the settings of bot and dispatcher."
