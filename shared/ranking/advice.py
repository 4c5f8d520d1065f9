"""A question that asks for advice, and the words by which a person says what he prefers: "what would you suggest?" is answered well by who knows "I
prefer print editions", which has few of the question's words."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ASKS = (
    # English
    r"suggest\w*|recommend\w*|advi[cs]e\w*|should i|(?:can|could) you help|how (?:can|could|should|do|would) i|help me|walk me through"
    r"|what (?:would|do) you|where do you think|options|ideas",
    # German
    r"empfiehl\w*|empfehl\w*|vorschlag\w*|vorschläg\w*|schlägst|rätst|ratschl\w*|soll(?:te)? ich|hilf mir|wie kann ich|ideen|tipps",
    # French
    r"conseil\w*|recommand\w*|suggèr\w*|suggér\w*|propos\w*|devrais je|aide moi|comment puis je|idées",
    # Spanish
    r"recom(?:iend|end)\w*|sug(?:ier|er)\w*|aconsej\w*|consejos?|debería|ayúdame|cómo puedo|opciones",
    # Italian
    r"consigl\w*|suggeri\w*|raccomand\w*|dovrei|aiutami|come posso|idee",
    # Portuguese
    r"sugest\w*|sug[ei]r\w*|conselh\w*|devo|deveria|ajuda me|dicas|ideias",
    # Russian
    r"посовет\w*|совет\w*|порекоменд\w*|рекоменд\w*|предлож\w*|помоги\w*|стоит ли мне|как мне",
)
_ADVICE = re.compile(rf"(?:^| )(?:{'|'.join(_ASKS)})(?= |$)")
#: It asks what was advised, not for advice.
_TOLD = frozenset({"did", "when"})
#: Each by itself; the index holds English ones by their stem.
PREFERENCE = tuple(
    (
        "prefer preferred preference rather favorite favourite "
        "bevorzuge bevorzugt lieber liebsten "
        "préfère préférer préféré préférée "
        "prefiero preferido preferida favorito favorita "
        "preferisco preferito preferita "
        "prefiro "
        "предпочитаю предпочла любимый любимая любимое"
    ).split()
)


def asks_for_advice(words: Sequence[str]) -> bool:
    """Whether a question, given by its words in order, asks what to do, to take or how to go about it."""
    lowered = [word.lower() for word in words]
    return _ADVICE.search(" ".join(lowered)) is not None and _TOLD.isdisjoint(lowered)
