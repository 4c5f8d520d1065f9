"""The lease of a night whose Redis stops answering."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from nightly.night import lease


class Hanging:
    """A Redis that never answers a renewal."""

    def __init__(self) -> None:
        self.renewing, self.end, self.released = threading.Event(), threading.Event(), False

    def incr(self, key: str) -> int:
        return 1

    def set(self, *words: Any, **options: Any) -> bool:
        return True

    def eval(self, script: str, *words: Any) -> int:
        if "EXPIRE" in script:
            self.renewing.set()
            self.end.wait()
        self.released = self.released or "DEL" in script
        return 1


def test_a_renewal_that_hangs_does_not_hold_the_end_of_a_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(lease, "LAST_RENEWAL_SECONDS", 0.2)
    client: Any = Hanging()
    held = lease.Lease(client, tmp_path)
    held.take()
    assert client.renewing.wait(600)
    try:
        held.give_back()
        assert client.released
    finally:
        client.end.set()
