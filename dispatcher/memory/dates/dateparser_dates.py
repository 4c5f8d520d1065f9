"""dateparser, asked for single dates in English and Russian only: what it does not know or takes otherwise is read before it is asked."""

from __future__ import annotations

import threading
import warnings
from datetime import datetime
from typing import Any

_ASKING = threading.Lock()


def ask(words: str, **settings: Any) -> tuple[datetime | None, str]:
    """dateparser's answer (aware if the words name a zone) and its period; one thread at a time, for its warnings are turned off for the while."""
    settings |= {"PREFER_DATES_FROM": "future", "TIMEZONE": "UTC"}
    with _ASKING, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # strptime's of days without a year, from Python 3.13 on
        from dateparser.date import DateDataParser

        try:
            answer = DateDataParser(languages=["en", "ru"], settings=settings).get_date_data(words)
        except Exception:  # noqa: BLE001 - it raises anything on odd texts, and what it cannot read is no date
            return None, ""
    return answer.date_obj, answer.period
