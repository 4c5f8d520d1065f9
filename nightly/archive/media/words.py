"""What a night says of the files of messages, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nightly.archive.media.bring import OUTCOMES
from shared.text.format import counted

#: Outcomes, as they are called.
_WORDS = {"already_archived": "already archived", "waiting": "waiting for their turns", "vanished": "gone from Redis"}
FILES = "file of messages", "files of messages"


def media_lines(counts: Mapping[str, Any]) -> Iterator[str]:
    """`counts`: the archive step's; nothing where there was none."""
    if counts.get("exported"):
        parts = [f"{counts[name]} {_WORDS.get(name, name)}" for name in OUTCOMES if counts[name]]
        yield f"{counted(counts['exported'], *FILES)} exported = {' + '.join(parts)}"
    if erased := counts.get("erased"):
        yield f"forgotten permanently: {counted(erased, *FILES)} removed from the archive"
    if lost := counts.get("lost_in_all"):
        verb = "is" if lost == 1 else "are"
        yield f"{counted(lost, *FILES)} {verb} lost: the turn says it is kept, and Redis did not have it (an import brings no files)"
    if not_kept := counts.get("not_kept"):
        yield f"not kept by day: {counted(not_kept, *FILES)}: no room for them, empty, or gone by then"
    if damaged := counts.get("damaged"):
        verb = "is" if len(damaged) == 1 else "are"
        yield f"{counted(len(damaged), *FILES)} {verb} damaged or missing in the archive, such as {damaged[0]}: run hmem-night verify"
    if refused := counts.get("refused"):
        yield f"refused: {refused} × what waits under hcli:mem:kept is not what its name says, and stays. Find out who wrote it, and delete it"
