"""The one line that `hmem admit` on the day host gives to `hmem-night join` on the night's: what the night must know, with Redis' password."""

from __future__ import annotations

import base64
import json
from typing import Any

from shared.errors import InvalidInput

#: The day host in the night's ssh configuration.
DAY = "hmem-day"


def line_of(answer: dict[str, Any]) -> str:
    """`account` and `host_keys` of the day host, `redis_url` (its host is DAY where ssh leads there), and `settings` of both."""
    return base64.urlsafe_b64encode(json.dumps(answer).encode()).decode()


def answer_in(line: str) -> dict[str, Any]:
    """InvalidInput for anything but a whole line of `line_of`."""
    try:
        return dict(json.loads(base64.urlsafe_b64decode(line.strip())))
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            "That is not the line that hmem admit prints on the day host, or not all of it. Copy the whole line."
        ) from error
