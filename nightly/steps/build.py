"""Build: `lexical/` and the vector indexes, in a new directory, closed and then verified. A crash discards all of it.

What is still valid in the parts of the last night's indexes is reused (nightly/index/previous.py), the rest is written; either way an index has
the same ids, texts and vectors. Only tonight's chats are looked at: in parts that are taken over, the rows of all others are as they were. What
is new is verified after closing; reused parts were verified before, and are as they were then.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nightly.index.build import PROOF, Build, indexed
from nightly.index.rows import read_rows
from nightly.index.servers import make_room
from nightly.night.folder import Night
from shared.release.integrity import refuse_leftovers
from shared.release.manifest import LEXICAL, NOTES
from shared.system.faults import crash_point
from shared.system.files import remove_tree
from shared.vectors.base import builder_of


def run(night: Night, out: Path) -> dict[str, Any]:
    names = night.settings.indexes if night.result("embed")["embedding"] else ()
    builders = {name: builder_of(name, night.settings, night.run) for name in names}
    for builder in builders.values():
        builder.refuse_unless_usable()
    tonight = Build(night, out)
    keywords = tonight.words(LEXICAL, tonight.chunks)
    if (notes := tonight.notes()) is not None:
        tonight.words(NOTES, notes)
    crash_point("build:lexical-built")
    if not builders:
        crash_point("build:closed")
        return {"indexes": [], "indexed": indexed(keywords, None, {}), **tonight.result()}
    rows = read_rows(night, tonight.chunks)
    make_room(night, names)
    indexes = [tonight.index(name, builder, rows) for name, builder in builders.items()]
    for one in indexes:
        one.builder.build(out / one.place, one.given, one.earlier)
    if notes is not None:
        tonight.note_vectors(notes)
    crash_point("build:closed")
    checked = [tonight.check(one, rows) for one in indexes]
    remove_tree(out / PROOF)
    refuse_leftovers(out)
    total = rows.total + tonight.carried_vectors
    copied = total - len(indexes[0].given) if indexes[0].plan else 0  # not written again
    return {
        "indexes": list(names),
        "copied_forward": copied,
        "added": total - copied,
        "unreached": sum(one.unreached for one in checked),
        "indexed": indexed(
            keywords, rows, {chat: min(one.vectors.get(chat, 0) for one in checked) for chat in rows.chats}
        ),
        **tonight.result(indexes),
    }
