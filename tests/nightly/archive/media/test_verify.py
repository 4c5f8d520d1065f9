"""`hmem-night verify` and its repair: damaged, missing and extra files of messages, here and in the mirror."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.errors import ArchiveDamaged, MirrorFailed
from tests.nightly.archive.media.kept_media import PHOTO, entry, file_of, media_files, send
from tests.support.night.archives import stone
from tests.support.night.mirrors import repair, verify
from tests.support.world import World


def test_damaged_and_missing_files_are_named_and_come_back_from_the_other_side(light: World, mirror: Path) -> None:
    light.say("t0", "Redis had lost it", extra={"media": [entry(PHOTO)]})
    send(light, "t1", PHOTO)
    send(light, "t2", b"another")
    light.night()
    counts = verify(light)
    assert (counts["media"], counts["media_mirrored"]) == (2, 2)
    assert counts["media_lost"] == 1, "what no night ever had is no damage"
    whole = media_files(light.night_dir / "archive")
    file_of(light, "t1", PHOTO).write_bytes(b"x" * len(PHOTO))
    file_of(light, "t2", b"another").unlink()
    with pytest.raises(ArchiveDamaged) as caught:
        verify(light)
    assert f"{file_of(light, 't1', PHOTO).name} is not what its name says" in str(caught.value)
    assert f"{file_of(light, 't2', b'another').name} is missing" in str(caught.value)
    assert len(repair(light)) == 2
    assert media_files(light.night_dir / "archive") == media_files(mirror) == whole
    file_of(light, "t1", PHOTO, base=mirror).write_bytes(b"x" * len(PHOTO))
    with pytest.raises(MirrorFailed, match="differ"):
        verify(light)
    file_of(light, "t2", b"another", base=mirror).unlink()
    assert len(repair(light)) == 2
    assert media_files(light.night_dir / "archive") == media_files(mirror) == whole


def test_a_file_of_no_turn_is_named_and_one_that_was_forgotten_is_removed(light: World, mirror: Path) -> None:
    send(light, "t1", PHOTO)
    light.night()
    copy = file_of(light, "t1", PHOTO)
    stone(light, turn_ids=frozenset({"t1:user"}))
    light.say("t2", "something remains")
    light.night()
    assert media_files(light.night_dir / "archive") == media_files(mirror) == {}
    for base in (None, mirror):  # an old copy brought it back
        copy = file_of(light, "t1", PHOTO, base=base)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(PHOTO)
    with pytest.raises(ArchiveDamaged, match="of no turn"):
        verify(light)
    assert [line.partition(": ")[0] for line in repair(light)] == [str(copy.relative_to(mirror))]
    assert media_files(light.night_dir / "archive") == media_files(mirror) == {}
