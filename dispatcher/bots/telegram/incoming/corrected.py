"""Whether a reply corrects what was heard in a recording. Pure functions.

A reply to one's own recording does. A reply to the answer below which it is shown is mostly a part of the conversation (in groups people talk to the
bot like that); so it corrects only if it repeats much of what is shown there.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from aiogram.types import Message, User

from shared.turns.media import HEARD, HEARD_MARK

#: How much of the words a correction has in common with what was heard, from 0 to 1.
ALIKE = 0.5
_SHOWN = re.compile(rf"{HEARD_MARK} \"(?P<heard>.*)\"$", re.MULTILINE)


def corrected_label(message: Message, text: str, me: User) -> str:
    """The label of the message that is corrected, or ""."""
    replied = message.reply_to_message
    if replied is None or message.text is None or not text.strip() or message.forward_origin is not None:
        return ""
    author = replied.from_user.id if replied.from_user else None
    label = f"{message.chat.id}-{replied.message_id}"
    if author is not None and message.from_user and author == message.from_user.id:
        return label if str(getattr(replied.content_type, "value", replied.content_type)) in HEARD else ""
    shown = _SHOWN.match(replied.text or "") if author == me.id else None
    return label if shown and is_alike(shown["heard"], text) else ""


def is_alike(heard: str, text: str) -> bool:
    first, second = ([word.lower() for word in re.findall(r"\w+", one)] for one in (heard, text))
    return SequenceMatcher(None, first, second, autojunk=False).ratio() >= ALIKE
