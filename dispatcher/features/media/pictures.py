"""Pictures for Claude: what a file is, by its first bytes and not by its name, and whether it is whole. Pure functions."""

from __future__ import annotations

import base64
from typing import Any

from shared.text.translations import later, tr

#: The API takes 5 MB of base64 for a picture.
PICTURE_BYTES = 3_750_000

TOO_LARGE = later("This picture is too large for me to look at: {most:g} MB are the most. Please send it smaller.")
NO_PICTURE = later(
    "This is no picture that I can look at (JPEG, PNG, GIF or WebP), or it is damaged. Please send it again in one of these formats."
)


class PictureRefused(Exception):
    """The text is a sentence for the sender."""


def mime_of(content: bytes) -> str | None:
    """The type of a whole picture; None for anything else, and for one that is cut off."""
    if content.startswith(b"\xff\xd8\xff") and content.rstrip(b"\0\r\n").endswith(b"\xff\xd9"):
        return "image/jpeg"
    if content.startswith(b"\x89PNG\r\n\x1a\n") and b"IEND" in content[-16:]:
        return "image/png"
    if content[:6] in (b"GIF87a", b"GIF89a") and content.endswith(b"\x3b"):
        return "image/gif"
    if (
        content[:4] == b"RIFF"
        and content[8:12] == b"WEBP"
        and len(content) >= int.from_bytes(content[4:8], "little") + 8
    ):
        return "image/webp"
    return None


def block_of(content: bytes) -> dict[str, Any]:
    """A content block of the Messages API; PictureRefused for what the API would refuse."""
    if len(content) > PICTURE_BYTES:
        raise PictureRefused(tr(TOO_LARGE).format(most=PICTURE_BYTES / 1_000_000))
    mime = mime_of(content)
    if mime is None:
        raise PictureRefused(tr(NO_PICTURE))
    data = base64.b64encode(content).decode("ascii")
    return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}
