"""Which tombstones a night applies: any that hide, and the ones that erase with the owner's signature. Others are refused and reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from shared.config.settings import Settings
from shared.system.owner_key import is_signed, trusted_key
from shared.turns.records import RecordRefused, Tombstone

UNSIGNED = "it would erase, but it is not signed with the owner's key"


@dataclass
class Judged:
    """`refused`: reason → how many; `only_hide`: how many would erase, but this night has no owner key."""

    obeyed: list[Tombstone] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    only_hide: int = 0


def judge(values: Iterable[bytes], settings: Settings, archived: Mapping[str, Tombstone]) -> Judged:
    """Judge tombstones as they are in Redis. Another program may have written them, so none of them may stop a night.

    `archived`: by id. A tombstone that an earlier night has applied is not judged again: the owner may have a new key since then.
    """
    judged, trusted = Judged(), trusted_key(settings)
    for value in values:
        try:
            tombstone = Tombstone.parse(value)
        except RecordRefused as error:
            judged.refused[f"it cannot be read: {error}"] += 1
            continue
        known = archived.get(tombstone.tombstone_id)
        if known is not None and known.erase:
            judged.obeyed.append(known)
        elif not tombstone.erase:
            judged.obeyed.append(tombstone)
        elif trusted is None:
            judged.obeyed.append(only_hiding(tombstone))
            judged.only_hide += 1
        elif is_signed(tombstone, trusted):
            judged.obeyed.append(tombstone)
        else:
            judged.refused[UNSIGNED] += 1
    return judged


def only_hiding(tombstone: Tombstone) -> Tombstone:
    return replace(tombstone, erase=False, undo=False, signature=None)
