"""An archive with a mirror."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.world import World


@pytest.fixture
def mirror(light: World) -> Path:
    """A second directory, which `light` mirrors its archive to."""
    path = light.root / "mirror"
    path.mkdir(mode=0o700)
    light.environment["ARCHIVE_MIRROR"] = str(path)
    return path
