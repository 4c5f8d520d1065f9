"""Day and nights on two hosts, which back up into one repository: what one removes, the other may still need."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.backups.hosts import BackedUp, backed_up, empty_host, lived_in
from tests.end_to_end.backups.test_forgotten import WORDS, holding
from tests.support.night.archives import texts
from tests.support.world import World


@pytest.fixture
def kept(light: World, tmp_path: Path) -> BackedUp:
    """With a backup of each host."""
    light.say("c1", WORDS, chat_id="77", timestamp=1_707_400_000.0)
    lived_in(light)
    made = backed_up(light, tmp_path)
    made.backup("--init", check=True, **away(tmp_path))
    archived(made)
    return made


def away(folder: Path) -> dict[str, str]:
    """What the day host sees: no archive."""
    return {"HMEM_NIGHT_DIR": str(folder / "not-here")}


def archived(kept: BackedUp) -> None:
    kept.world.command("hmem-night", "backup", str(kept.to), check=True, **kept.variables())


def tags(kept: BackedUp) -> list[str]:
    return sorted(tag for one in json.loads(kept.restic("snapshots", "--json")) for tag in one["tags"])


def test_nothing_is_removed_before_the_archive_has_a_backup_from_after_the_forgetting(
    kept: BackedUp, tmp_path: Path
) -> None:
    world = kept.world
    (first, *_) = json.loads(kept.restic("snapshots", "--json"))
    world.command("hmem", "forget", "--chat=77", "--yes", check=False)
    made = kept.made("--forget-older", **away(tmp_path))
    assert made["forgotten_snapshots"] == []
    assert ["hmem-night backup" in why for why in made["not_forgotten"]] == [True]
    assert tags(kept) == ["hmem", "hmem", "hmem-archive"]
    known = json.loads((world.root / "state" / "backups" / "known.json").read_bytes())
    assert "after the last forgetting" in known["repositories"][str(kept.to)]["lacks"][0], "hmem doctor says it"
    with empty_host(world, tmp_path / "old") as other:
        kept.restore(other, "--snapshot", first["id"])  # both parts are from before it, and go together
        assert len(texts(other)) == 3
    archived(kept)
    made = kept.made("--forget-older", **away(tmp_path))
    assert (len(made["forgotten_snapshots"]), made["not_forgotten"]) == (2, [])
    assert tags(kept) == ["hmem", "hmem", "hmem-archive"]
    assert holding(kept, tmp_path / "after") == []
    assert world.command("hmem", "forget", "--resume", "--yes", check=False).returncode == 0
    with empty_host(world, tmp_path / "new") as other:
        kept.restore(other)
        assert texts(other) == texts(world)
