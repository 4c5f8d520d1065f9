"""What the bot says to a command."""

from __future__ import annotations

from dataclasses import dataclass

from shared.turns.signed.results import Keyboard


@dataclass(frozen=True)
class BotAnswer:
    """With buttons for who sent the command. `secret`: it is sent at once and never stored in Redis, not even until it is delivered. `brief`: where
    a button was pressed, it is shown for a moment."""

    text: str
    buttons: Keyboard = ()
    secret: bool = False
    brief: bool = False
