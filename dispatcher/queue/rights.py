"""Who may do what. In a private chat the person is the chat; in a group OWNERS lists who has an owner's rights, and all others are members.

A person who writes in the name of a group or a channel, or without a number, is a member: OWNERS can only list the numbers of people.
docs/telegram.md has the table. The bot checks the rights for its commands, the dispatcher those for forgetting, whichever bot queued the task.
"""

from __future__ import annotations

from shared.config.settings import Settings
from shared.config.values import is_person
from shared.text.translations import later, tr
from shared.turns.message_origin import is_group

#: How what only an owner may do in a group is refused to others.
FORGETTING = later("In a group only an owner may make me forget something.")
FORGETTING_OTHERS = later("In a group only an owner may make me forget what others have told me.")
EDITING = later("In a group only an owner may change an entry of my memory that others have told me.")
COMPLETING = later("In a group only an owner may mark a goal of others as done.")
CHANGING_ZONE = later("In a group only an owner may change the time zone.")
WITHOUT_NUMBER = later(
    "The setting OWNERS lists the owners by their personal numbers, and you are writing without one here. Please write as yourself."
)
YOUR_NUMBER = later(
    "Your number is {number}. The person who runs me can make you an owner by adding it to OWNERS in the settings of bot and dispatcher."
)


class Rights:
    """The rights that the settings give."""

    def __init__(self, settings: Settings) -> None:
        self._owners = settings.owner_ids
        self._private_chats = {chat for chat in settings.allowed if not is_group(chat)}

    def unlimited(self, in_group: bool, user: str | None) -> bool:
        """Whether this person may do anything that concerns this chat."""
        return not in_group or user in self._owners

    def refusal(self, sentence: str, in_group: bool, user: str | None) -> str:
        """The sentence, and how one becomes an owner, if this person may not do in this chat what only an owner may do in a group; else ""."""
        how = tr(YOUR_NUMBER).format(number=user) if user and is_person(user) else tr(WITHOUT_NUMBER)
        return "" if self.unlimited(in_group, user) else f"{tr(sentence)} {how}"

    def counts_all(self, chat_id: str, in_group: bool, user: str | None) -> bool:
        """Whether this person is shown the figures of all chats here: an owner in a private chat. Without OWNERS, the person of the only private
        chat is assumed to be the owner."""
        if in_group:
            return False
        return user in self._owners or (not self._owners and self._private_chats == {chat_id})
