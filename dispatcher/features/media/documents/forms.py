"""What a file is, by its bytes and never by its name. Pure functions; only the standard library, as the child process reads here, too."""

from __future__ import annotations

import re
from enum import StrEnum


class FileForm(StrEnum):
    """What a file can be. The value is what it is called in a sentence."""

    PDF = "PDF"
    ZIPPED = "ZIP"  # an office file, or an archive: the child process looks inside
    OLE = "old office file"
    RTF = "RTF document"
    TEXT = "text"  # perhaps: the bytes do not say otherwise
    SOUND = "recording"
    HTML = "web page"


_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
#: How a file begins → what it is.
_BEGINNINGS: tuple[tuple[bytes, FileForm], ...] = (
    *((one, FileForm.ZIPPED) for one in _ZIP),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", FileForm.OLE),
    (b"{\\rtf", FileForm.RTF),
    *((one, FileForm.SOUND) for one in (b"OggS", b"ID3", b"fLaC", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"\xff\xf1", b"\xff\xf9", b"#!AMR")),
)  # fmt: skip
_LOOKED_AT = 4_096
_HTML = re.compile(rb"\s*(?:<!--.*?-->\s*)?(?:<!doctype html|<html\b)", re.IGNORECASE | re.DOTALL)
#: Viewers find a PDF's mark within so many bytes.
_PDF_WITHIN = 1_024


def form_of(content: bytes) -> FileForm:
    """What the beginning says; TEXT where it says nothing."""
    if b"%PDF-" in content[:_PDF_WITHIN] and (content.startswith(b"%PDF-") or not _words(content[:_PDF_WITHIN])):
        return FileForm.PDF
    for beginning, form in _BEGINNINGS:
        if content.startswith(beginning) and (len(beginning) > 3 or not _words(content[:_LOOKED_AT])):
            return form
    if content[4:11] in (b"ftypM4A", b"ftypM4B") or (content[:4], content[8:12]) == (b"RIFF", b"WAVE"):
        return FileForm.SOUND
    return FileForm.HTML if _HTML.match(content[:_LOOKED_AT]) else FileForm.TEXT


def _words(beginning: bytes) -> bool:
    """Whether it could be text: no control characters but those of lines."""
    return not any(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in beginning)


def plain_text(content: bytes) -> str | None:
    """The text of UTF-8 without control characters that no text has; None for anything else."""
    if b"\0" in content:
        return None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return text if looks_written(text) else None


#: More control characters than one in so many are no text.
_CONTROL_IN = 500


def looks_written(text: str) -> bool:
    """Whether a decoded text is one: hardly any control characters, and no code that stands for none."""
    odd = sum(
        1 for one in text if (one < " " and one not in "\t\n\r\f\v\x1b\b") or "\x7f" <= one <= "\x9f" or one == "\ufffd"
    )
    return odd * _CONTROL_IN <= len(text)
