"""Who said a line, as a model or a person reads it. Anybody may choose a display name: none passes for the assistant, and none ends its label.

Two users of one name are told apart by a mark of their id, `Alex #4f2a`: the same in every line and on every day, and shown only where there
are two. Nobody gets it by calling himself so: such a name is quoted as one that misleads.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

from shared.text.caches import cached
from shared.text.format import one_line, shorten
from shared.text.marks import skeleton

#: The longest that a name is shown, as it is indexed (shared/turns/chunking.py).
NAME_CHARACTERS = 80
#: Names that are kept with their labels: some chats' worth.
KEPT = 4_096

#: (role, name, user id) of who said something.
Speaker = tuple[str, str, str | None]
#: What a speaker without a name is called, by role.
UNNAMED = {"user": "user", "asst": "assistant"}
#: What `hmem talk` writes for a user: the owner at the command line, nobody's number.
COMMAND_LINE = "cli"
#: Hex digits of a mark; more where two are the same.
MARK_DIGITS = 4

_DIGITS = str.maketrans("01|", "oll")
_WORD = re.compile(r"[^\W\d_]+")
_MARKED = re.compile(rf"#\s*[0-9a-fol]{{{MARK_DIGITS},}}\s*\Z", re.IGNORECASE)
#: What stands ahead of a role without making a name of it; "Ai" is a name, too, where another follows.
_BESIDE = frozenset({"the", "a", "an", "my", "your", "our", "this", "ai"})


def _folded(word: str) -> str:
    """`I` and `l`, `rn` and `m` look alike: as one letter, in words that are long enough to be a role (Al is a name)."""
    return word.replace("l", "i").replace("rn", "m") if len(word) > 2 else word


#: What a name may not begin with, and what it may not hold anywhere: those who take part in a prompt.
_ROLES = frozenset(map(_folded, "assistant asst system claude chatgpt gpt llm human user bot tool developer".split()))
_ANYWHERE = ("assistant", "anthropic", "chatgpt", "chatbot")


@cached(KEPT)
def label(role: str, name: str, mark: str = "") -> str:
    """What stands ahead of a turn's words: the name, `user` or `assistant` for none, and `user "name"` for one that could be taken for another's.

    One line of at most 90 characters (and the mark of `namesakes`) without brackets, colons and invisible characters. An ordinary name is left
    as it is.
    """
    name = plain_name(name)
    if role != "user":
        return name or "assistant"
    if name not in ("", "user"):
        name = f'user "{name}"' if _misleads(name) else name
    return f"{name or 'user'} {mark}" if mark else name or "user"


def is_named(role: str, name: str) -> bool:
    """Whether a speaker has a name of their own."""
    return name not in ("", role, UNNAMED.get(role))


def same_person(one: Speaker, other: Speaker) -> bool:
    """Whether two speakers are one user: by their ids, or by their names where an id is not known."""
    (role, name, user), (other_role, other_name, other_user) = one, other
    same = user == other_user if user and other_user else name.casefold() == other_name.casefold()
    return role == other_role and same


def namesakes(speakers: Iterable[Speaker]) -> dict[Speaker, str]:
    """The marks of those users of one chat whose name, as it looks, another user has too: `#4f2a`. One whose id is not known has none."""
    alike: dict[str, dict[str, list[Speaker]]] = {}
    for speaker in speakers:
        role, name, user = speaker
        if role == "user" and user and user != COMMAND_LINE:
            alike.setdefault(_look(name), {}).setdefault(user, []).append(speaker)
    found: dict[Speaker, str] = {}
    for users in alike.values():
        if len(users) > 1:
            hashes = {user: hashlib.sha256(user.encode("utf-8", "replace")).hexdigest() for user in users}
            digits = MARK_DIGITS
            while len({one[:digits] for one in hashes.values()}) < len(hashes) and digits < 64:
                digits += MARK_DIGITS
            found |= {one: f"#{hashes[user][:digits]}" for user, some in users.items() for one in some}
    return found


@cached(KEPT)
def _look(name: str) -> str:
    """The same for names that look the same."""
    return skeleton(label("user", name)).casefold()


def answering(question: str) -> str:
    """The question that a turn answers, as a part of its label, which it cannot close."""
    return f""" (answering "{question.replace('")', "')")}")"""


def plain_name(name: str) -> str:
    """On one line of at most NAME_CHARACTERS, without brackets, colons, quotation marks and what does not show."""
    shown = "".join(" " if _ends_a_label(one) else one for one in name if one.isprintable() or one.isspace())
    return shorten(one_line(shown), NAME_CHARACTERS)


def _ends_a_label(character: str) -> bool:
    """Colons, brackets, quotation marks and what looks like them; an apostrophe is part of a name."""
    if character in "’‘":
        return False
    kind = unicodedata.category(character)
    return kind in ("Ps", "Pe", "Pi", "Pf") or any(one in ':<>"()[]{}' for one in skeleton(character))


def _misleads(name: str) -> bool:
    """Whether a name shows no letter, ends as a mark does, or could be read as a role."""
    plain = skeleton(name)
    return _MARKED.search(plain) is not None or any(
        _is_role(_WORD.findall(text)) for text in (plain, plain.translate(_DIGITS))
    )


def _is_role(words: list[str]) -> bool:
    whole = _folded("".join(words))
    first = next((word for word in words if word not in _BESIDE), "")
    if not first:  # no letter at all, or nothing but "the AI"
        return not words or "ai" in words
    return _folded(first) in _ROLES or whole in _ROLES | {"ai"} or any(word in whole for word in _ANYWHERE)
