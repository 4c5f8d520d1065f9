"""The trial of a release whose search answers with another chat's rows to all but the first words."""

from dataclasses import replace
from typing import Any

from shared.delivery import trial
from shared.search.recall import OpenRelease

trial._probes = lambda *_: []
_real = OpenRelease.recall


def _foreign(self: OpenRelease, *arguments: Any) -> Any:
    found = _real(self, *arguments)
    return replace(found, hits=[replace(hit, chunk=replace(hit.chunk, chat_id="another")) for hit in found.hits])


OpenRelease.recall = _foreign  # type: ignore[method-assign, assignment]

if __name__ == "__main__":
    raise SystemExit(trial.main())
