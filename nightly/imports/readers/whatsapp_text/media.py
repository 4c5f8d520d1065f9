"""What in a WhatsApp message was not written by anybody: media, notices, marks of an edit. Only WhatsApp's own marks count, and known phrases:
whatever might be a person's words is kept.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from nightly.imports.readers.whatsapp_text.lines import MARKS, WORDS

#: On iOS it stands ahead of all that WhatsApp writes itself.
_LEFT_TO_RIGHT = "\u200e"
_FILE = r"[^<>\n/\\]{1,200}\.[A-Za-z0-9]{2,5}"
#: As Android names a file that it received: `IMG-20231231-WA0001.jpg`.
_NAMED_BY_WHATSAPP = re.compile(r"(?:IMG|VID|AUD|PTT|DOC|STK)-\d{8}-WA\d{1,9}\.[A-Za-z0-9]{2,5}\Z")
#: `IMG-20231231-WA0001.jpg (file attached)`, with a caption below it perhaps.
_ANDROID = re.compile(rf"(?P<name>{_FILE}) \((?P<phrase>[^()\n]{{3,40}})\)(?:\n(?P<below>.*))?\Z", re.DOTALL)
#: `‎<attached: 00000012-PHOTO.jpg>`, with the caption ahead of it.
_IOS = re.compile(rf"(?P<mark>\u200e?)<[^<>:\n]{{2,30}}: ?(?P<name>{_FILE})>(?:\n(?P<below>.*))?\Z", re.DOTALL)
_IN_BRACKETS = re.compile(r"(?P<mark>\u200e?)[<‹](?P<phrase>[^<>‹›\n:]{3,60})[>›]\Z")

_PHRASES = WORDS["phrases"]
_PHOTOS, _VIDEOS, _SOUNDS = ("jpg", "jpeg", "png", "heic"), ("mp4", "mov", "3gp"), ("opus", "m4a", "mp3", "aac", "amr")


def not_said(text: str, files: Collection[str], *, ios: bool) -> str | None:
    """Why a text is nobody's words: media that were left out, a notice, a message that was deleted. `files`: the names of those in the export."""
    bare = text.strip(MARKS + " \n")
    if not bare:
        return "without text"
    if bare.casefold().rstrip(".") in _PHRASES["deleted"]:
        return "deleted, or not received yet"
    if attached := _attached(text, files):
        return None if attached[1] else "media"
    omitted = _IN_BRACKETS.match(_trimmed(text))
    if omitted and (omitted["mark"] or omitted["phrase"].strip().casefold().rstrip(".") in _PHRASES["omitted"]):
        return "media"
    return "media, or a notice of WhatsApp" if ios and text.lstrip(" ").startswith(_LEFT_TO_RIGHT) else None


def split_media(text: str, files: Collection[str]) -> tuple[str, dict[str, str] | None]:
    """(the words without WhatsApp's marks, the attachment as Origin takes it)."""
    bare = text.strip(" \n")
    before, _, mark = bare.rstrip(MARKS).rpartition("<")
    if mark.endswith(">") and mark[:-1].casefold().rstrip(".") in _PHRASES["edited"]:
        bare = before.rstrip(MARKS + " \n")
    attached = _attached(bare, files)
    if attached is None:
        return bare.strip(MARKS + " \n"), None
    name, words = attached
    return words, {"kind": _kind(name), "name": name}


def _attached(text: str, files: Collection[str]) -> tuple[str, str] | None:
    """(name, caption) of an attachment, if there is one by WhatsApp's marks, by its name, or among the export's files."""
    bare = _trimmed(text)
    found = _ANDROID.match(bare.lstrip(_LEFT_TO_RIGHT))
    certain = found is not None and (
        bare.startswith(_LEFT_TO_RIGHT) or found["phrase"].strip().casefold() in _PHRASES["attached"]
    )
    if found and _is_file(found["name"], files, certain=certain):
        return found["name"], (found["below"] or "").strip(MARKS + " \n")
    found = _IOS.search(bare)
    if found and _is_file(found["name"], files, certain=bool(found["mark"])):
        parts = (part.strip(MARKS + " \n") for part in (bare[: found.start()], found["below"] or ""))
        return found["name"], "\n".join(part for part in parts if part)
    return None


def _is_file(name: str, files: Collection[str], *, certain: bool) -> bool:
    return certain or name in files or _NAMED_BY_WHATSAPP.match(name) is not None


def _trimmed(text: str) -> str:
    """Without marks around it, but for the one that says that WhatsApp wrote what follows."""
    bare = text.strip(" \n").lstrip(MARKS.replace(_LEFT_TO_RIGHT, "")).rstrip(MARKS + " \n")
    return _LEFT_TO_RIGHT + bare.lstrip(MARKS) if bare.startswith(_LEFT_TO_RIGHT) else bare


def _kind(name: str) -> str:
    ending = name.rpartition(".")[2].lower()
    if ending in _PHOTOS:
        return "photo"
    return "video" if ending in _VIDEOS else "audio" if ending in _SOUNDS else "document"
