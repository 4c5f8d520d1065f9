"""What in a WhatsApp message was not written by anybody: media, notices, marks of an edit. Known by WhatsApp's own marks, by known phrases, and in
any other language by the form: a phrase that stands where a mark does, in several messages, if no mark of its kind is known of the chat. Such phrases
are reported, and so is any other that stands there: whatever might be a person's words is kept.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from nightly.imports.containers.opening import printable
from nightly.imports.readers.conversations import plain
from nightly.imports.readers.whatsapp_text.lines import MARKS, QUOTE, WORDS, Head
from shared.text.format import one_line, shorten

#: On iOS it stands ahead of all that WhatsApp writes itself.
_LEFT_TO_RIGHT = "\u200e"
_FILE = r"[^<>\n/\\]{1,200}\.[A-Za-z0-9]{2,5}"
#: As WhatsApp names a file that it received: `IMG-20231231-WA0001.jpg`, `00000012-PHOTO-2023-12-31.jpg`.
_NAMED_BY_WHATSAPP = re.compile(r"(?:(?:IMG|VID|AUD|PTT|DOC|STK)-\d{4}|\d{8}-[A-Z]{4})[\w-]{0,40}\.[A-Za-z0-9]{2,5}\Z")
#: `IMG-20231231-WA0001.jpg (file attached)`, with a caption below it perhaps.
_ANDROID = re.compile(rf"(?P<name>{_FILE}) \((?P<phrase>[^()\n]{{3,40}})\)(?:\n(?P<below>.*))?\Z", re.DOTALL)
#: `‎<attached: 00000012-PHOTO.jpg>`, with the caption ahead of it.
_IOS = re.compile(
    rf"(?P<mark>\u200e?)<(?P<phrase>[^<>:\n]{{2,30}}): ?(?P<name>{_FILE})>(?:\n(?P<below>.*))?\Z", re.DOTALL
)
#: `<Media omitted>` alone, or `<This message was edited>` behind the words.
_IN_BRACKETS = re.compile(r"(?P<mark>\u200e?)[<‹](?P<phrase>[^<>‹›\n:]{3,60})[>›]\Z")

_PHRASES = WORDS["phrases"]
_PHOTOS, _VIDEOS, _SOUNDS = ("jpg", "jpeg", "png", "heic"), ("mp4", "mov", "3gp"), ("opus", "m4a", "mp3", "aac", "amr")
#: Different phrases, senders and sentences that are kept; phrases that are shown.
_MOST_PHRASES, _SHOWN = 1_000, 3
#: The longest message that may be all WhatsApp's, and how often it stands in a chat before it is reported.
_LONGEST_SENTENCE, _OFTEN = 80, 3


@dataclass
class Marks:
    """What WhatsApp writes itself into one chat, told all of its lines before any is read. `files`: the names of those in the export. `titles`: how
    the export is called."""

    files: Collection[str]
    titles: tuple[str, ...] = ()
    _found: Counter[tuple[str, str]] = field(
        default_factory=Counter
    )  # (kind, phrase), as often as only its form speaks for it
    _sure: set[tuple[str, str]] = field(default_factory=set)
    _settled: set[str] = field(default_factory=set)  # the kinds of which a mark is known
    _senders: Counter[str] = field(default_factory=Counter)
    _named: set[str] = field(default_factory=set)  # in quotes, in a notice
    _sentences: Counter[str] = field(default_factory=Counter)
    _lines: list[str] = field(default_factory=list)  # the first and the last one of the message that is being told
    _ios: bool = False
    _begins: Head | None = None

    def add(self, head: Head | None, line: str) -> None:
        """The next line; `head`: of the message that it begins."""
        if head is None:
            self._lines[1:] = [line] if self._lines else []
            return
        self._end()
        if self._begins is None:
            self._begins = head
        self._lines, self._ios = [head.text], head.ios
        if head.sender is None or head.text.startswith(("\u200e", "\u200f")):
            self._named.update(plain(name) for name in QUOTE.split(head.text, 2 * _SHOWN)[1::2])
        elif not head.cut and (head.sender in self._senders or len(self._senders) < _MOST_PHRASES):
            self._senders[head.sender] += 1

    def _end(self) -> None:
        if not self._lines:
            return
        first, last = _trimmed(self._lines[0]), _trimmed(self._lines[-1])
        if found := _ANDROID.match(first.lstrip(_LEFT_TO_RIGHT)):
            self._count("attached", found["phrase"], self._is_file(found["name"], first.startswith(_LEFT_TO_RIGHT)))
        if found := _IOS.search(last):
            self._count("attached", found["phrase"], self._is_file(found["name"], bool(found["mark"])))
        if found := _IN_BRACKETS.search(last):
            whole = len(self._lines) == 1 and not found.start()
            self._count("omitted" if whole else "edited", found["phrase"], bool(found["mark"]))
        elif not self._ios and len(self._lines) == 1 and len(first) <= _LONGEST_SENTENCE and _may_be_a_mark(first):
            self._sentences[first] += 1
            if len(self._sentences) > _MOST_PHRASES:
                self._sentences = Counter(dict(self._sentences.most_common(_MOST_PHRASES // 2)))
        self._lines = []

    def _count(self, kind: str, phrase: str, sure: bool) -> None:
        one = (kind, _known_as(phrase))
        if sure or one[1] in _PHRASES[kind]:
            self._settled |= _PHRASES.keys() if one[1] in WORDS["complete"] else {kind}
        if one[1] in _PHRASES[kind] or len(self._found) + len(self._sure) >= _MOST_PHRASES:
            return
        if sure:
            self._sure.add(one)
        elif _may_be_a_mark(phrase):
            self._found[one] += 1

    def _is_mark(self, kind: str, phrase: str) -> bool:
        one = (kind, _known_as(phrase))
        return one[1] in _PHRASES[kind] or one in self._sure or (self._found[one] > 1 and kind not in self._settled)

    def _is_file(self, name: str, certain: bool) -> bool:
        return certain or name in self.files or _NAMED_BY_WHATSAPP.match(name) is not None

    @cached_property
    def own_name(self) -> str | None:
        """The sender that is nobody, but the group itself: an iPhone's chat begins with a notice by it, the export or a notice calls the chat so, and
        two others write as much at least."""
        name = self._begins.sender if self._begins and self._begins.ios else None
        called = self._named | {plain(re.sub(r" \(\d+\)\Z", "", title.partition(" - ")[2])) for title in self.titles}
        others = [
            count for sender, count in self._senders.items() if sender != name and count >= self._senders[str(name)]
        ]
        return name if name is not None and plain(name) in called and len(others) > 1 else None

    def is_nobody(self, head: Head) -> bool:
        """Whether its sender is the group, or a part of a notice: no person whose other messages have nothing of one."""
        return head.sender == self.own_name or (head.cut and head.sender not in self._senders)

    def notes(self) -> Iterator[str]:
        """What is to be said of the chat, once all of its lines were told."""
        self._end()
        again, words = Counter[str](), Counter[str]()
        for (kind, phrase), count in self._found.items():
            (again if self._is_mark(kind, phrase) else words)[phrase] += count
        often = {one: count for one, count in self._sentences.most_common() if count >= _OFTEN}
        if again:
            yield f"{_listed(again)} is read as WhatsApp's own mark of media, a file or an edit, by where it stands"
        if words:
            yield f"{_listed(words)} stands where WhatsApp's own marks do, but only once, or beside known ones: it came in as words"
        if often and (again or self._sure):  # its phrases for deleted messages are not known, either
            yield f"{_listed(often)} came in as words; perhaps WhatsApp wrote that in the place of deleted messages"
        if name := self.own_name:
            yield f"{shown(name)} is the chat's own name: {self._senders[name]} messages by it are read as notices"

    def not_said(self, text: str, *, ios: bool) -> str | None:
        """Why a text is nobody's words: media that were left out, a notice, a message that was deleted."""
        bare = text.strip(MARKS + " \n")
        if not bare:
            return "without text"
        if _known_as(bare) in _PHRASES["deleted"]:
            return "deleted, or not received yet"
        if attached := self._attached(text):
            return None if attached[1] else "media"
        omitted = _IN_BRACKETS.match(_trimmed(text))
        if omitted and (omitted["mark"] or self._is_mark("omitted", omitted["phrase"])):
            return "media"
        return "media, or a notice of WhatsApp" if ios and text.lstrip(" ").startswith(_LEFT_TO_RIGHT) else None

    def split_media(self, text: str) -> tuple[str, dict[str, str] | None]:
        """(the words without WhatsApp's marks, the attachment as Origin takes it)."""
        bare = text.strip(" \n").rstrip(MARKS + " \n")
        edited = _IN_BRACKETS.search(bare)
        said = bare[: edited.start()].rstrip(MARKS + " \n") if edited else ""
        if edited and said and (edited["mark"] or self._is_mark("edited", edited["phrase"])):
            bare = said
        attached = self._attached(bare)
        if attached is None:
            return bare.strip(MARKS + " \n"), None
        name, words = attached
        return words, {"kind": _kind(name), "name": name}

    def _attached(self, text: str) -> tuple[str, str] | None:
        """(name, caption) of an attachment, if there is one by WhatsApp's marks or phrases, by its name, or among the export's files."""
        bare = _trimmed(text)
        found = _ANDROID.match(bare.lstrip(_LEFT_TO_RIGHT))
        certain = found is not None and (bare.startswith(_LEFT_TO_RIGHT) or self._is_mark("attached", found["phrase"]))
        if found and self._is_file(found["name"], certain):
            return found["name"], (found["below"] or "").strip(MARKS + " \n")
        found = _IOS.search(bare)
        if found and self._is_file(found["name"], bool(found["mark"]) or self._is_mark("attached", found["phrase"])):
            parts = (part.strip(MARKS + " \n") for part in (bare[: found.start()], found["below"] or ""))
            return found["name"], "\n".join(part for part in parts if part)
        return None


def is_notice(line: str | None, head: Head) -> bool:
    """Whether a line below the first one of a message is a notice without a date of its own, and not the message's attachment or edit."""
    marked = line is not None and line.startswith(_LEFT_TO_RIGHT) and not line.rstrip(MARKS + " ").endswith(">")
    return marked and head.ios and not head.text.startswith(_LEFT_TO_RIGHT)


def shown(words: str) -> str:
    """As a terminal may show it."""
    return repr(shorten(printable(one_line(words)), 40))


def _listed(phrases: dict[str, int]) -> str:
    some = ", ".join(f"{shown(one)} ({count} ×)" for one, count in [*phrases.items()][:_SHOWN])
    return f"{some}{', …' if len(phrases) > _SHOWN else ''}"


def _known_as(phrase: str) -> str:
    return phrase.strip().casefold().rstrip(".")


def _may_be_a_mark(phrase: str) -> bool:
    """Words in a language, with no sign that only people write; of ASCII alone several, because one is as often a tag in a text about programs."""
    letters = all(unicodedata.category(letter)[0] in "LM" or letter in " .,'’-" for letter in phrase)
    return letters and (" " in phrase.strip() or not phrase.isascii())


def _trimmed(text: str) -> str:
    """Without marks around it, but for the one that says that WhatsApp wrote what follows."""
    bare = text.strip(" \n").lstrip(MARKS.replace(_LEFT_TO_RIGHT, "")).rstrip(MARKS + " \n")
    return _LEFT_TO_RIGHT + bare.lstrip(MARKS) if bare.startswith(_LEFT_TO_RIGHT) else bare


def _kind(name: str) -> str:
    ending = name.rpartition(".")[2].lower()
    if ending in _PHOTOS:
        return "photo"
    return "video" if ending in _VIDEOS else "audio" if ending in _SOUNDS else "document"
