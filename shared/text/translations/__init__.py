"""The program's own words in the language of a chat, by gettext: `tr("…")` where a text is shown, `speaking(language)` around what shows it.

Texts are written in English in the code, with named gaps (`tr("Cancelled: {count}.").format(count=3)`); locale/<language>.po has their translations,
and `scripts/translations` takes new texts over and compiles them. A text without a translation is shown in English. The language is a context
variable: tasks and threads that asyncio starts have that of whoever started them.
"""

from __future__ import annotations

import gettext
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

#: The languages that there are, by their ISO 639-1 codes, as their speakers call them.
LANGUAGES = {
    "en": "English",
    "de": "Deutsch",
    "es": "Español",
    "fr": "Français",
    "pt": "Português",
    "ru": "Русский",
}
ENGLISH = "en"
FOLDER = Path(__file__).parent / "locale"

_language: ContextVar[str] = ContextVar("language", default=ENGLISH)


def language_of(code: str | None) -> str | None:
    """One of LANGUAGES for a code such as `pt-BR` or `de_AT`; None for any other."""
    known = (code or "").replace("_", "-").partition("-")[0].lower()
    return known if known in LANGUAGES else None


@contextmanager
def speaking(language: str | None) -> Iterator[None]:
    """Texts are shown in this language, or else in English, until the end of the block."""
    token = _language.set(language_of(language) or ENGLISH)
    try:
        yield
    finally:
        _language.reset(token)


def current_language() -> str:
    return _language.get()


def noted_language() -> str | None:
    """The same for a record that outlasts this block; None for English."""
    return None if _language.get() == ENGLISH else _language.get()


def tr(text: str) -> str:
    """The text in the language that is spoken now."""
    return _catalog(_language.get()).gettext(text) if text else ""  # gettext has a catalogue's header under ""


def tr_count(one: str, several: str, count: int) -> str:
    """One of two texts, by a number; in languages with more forms, the right one of those."""
    return _catalog(_language.get()).ngettext(one, several, count)


def in_every_language(text: str) -> set[str]:
    """A text and its translations, to recognise one that was shown."""
    return {_catalog(language).gettext(text) for language in LANGUAGES}


def later(text: str) -> str:
    """Marks a constant: it is collected for translation here, and translated by `tr` where it is shown."""
    return text


@cache
def _catalog(language: str) -> gettext.NullTranslations:
    path = FOLDER / f"{language}.mo"
    if language == ENGLISH or not path.exists():
        return gettext.NullTranslations()
    with path.open("rb") as file:
        return gettext.GNUTranslations(file)
