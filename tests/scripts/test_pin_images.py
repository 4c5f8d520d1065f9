"""deploy/pin-images, which writes the digests of the images into deploy/.env."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.redis.users import DEPLOY


@pytest.fixture
def pinning(tmp_path: Path) -> Path:
    """A copy of what pin-images reads and writes, and a `docker` that answers with a digest for each image."""
    for name in ("pin-images", "compose.yaml"):
        shutil.copy(DEPLOY / name, tmp_path / name)
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(
        '#!/bin/sh\nimage=$6\n[ "$*" = "buildx imagetools inspect --format {{.Manifest.Digest}} $image" ] || exit 9\n'
        'case $image in "$BROKEN") echo "no such tag" >&2; exit 1;; "$ODD") echo latest;;\n'
        '*) echo "sha256:$(printf %s "$image" | sha256sum | cut -c1-64)";; esac\n'
    )
    docker.chmod(0o755)
    return tmp_path


def pin(place: Path, **more: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": f"{place / 'bin'}:/usr/bin:/bin", "BROKEN": "-", "ODD": "-"} | more
    return subprocess.run([place / "pin-images"], env=variables, capture_output=True, text=True, check=False)


def test_images_are_pinned_by_what_docker_says_they_are_and_the_rest_stays_secret(pinning: Path) -> None:
    (pinning / ".env").write_text("TELEGRAM_BOT_TOKEN=123456789:AAE_secret\nREDIS_IMAGE=redis:6\n")
    for _ in range(2):
        done = pin(pinning)
        assert done.returncode == 0
        assert "AAE_secret" not in done.stdout + done.stderr
        said = [line.split("=")[0] for line in done.stderr.splitlines()]
        assert said == ["NODE_IMAGE", "PYTHON_IMAGE", "REDIS_IMAGE"]
        pinned = dict(line.split("=", 1) for line in (pinning / ".env").read_text().splitlines())
        assert set(pinned) == {*said, "TELEGRAM_BOT_TOKEN"}
        assert pinned["TELEGRAM_BOT_TOKEN"] == "123456789:AAE_secret"
        for name, tag in (("REDIS_IMAGE", "redis:7"), ("PYTHON_IMAGE", "python:3.11-slim-bookworm")):
            assert re.fullmatch(rf"{re.escape(tag)}@sha256:[0-9a-f]{{64}}", pinned[name])
    assert ".env" in (DEPLOY / ".gitignore").read_text().split()
    compose = (DEPLOY / "compose.yaml").read_text()
    assert all(f"${{{name}:-" in compose for name in said)
    assert (pinning / ".env").stat().st_mode & 0o777 == 0o600
    for name in ("README.md", "compose.yaml", "env.example"):
        text = (DEPLOY / name).read_text(encoding="utf-8")
        assert "install -m 600 deploy/env.example deploy/.env" in text
        assert "cp deploy/env.example" not in text, "anyone could read the token"


@pytest.mark.parametrize("trouble", ["BROKEN", "ODD"])
def test_an_image_that_docker_cannot_name_changes_nothing(pinning: Path, trouble: str) -> None:
    (pinning / ".env").write_text("REDIS_IMAGE=redis:7@sha256:before\n")
    done = pin(pinning, **{trouble: "python:3.11-slim-bookworm"})
    assert (done.returncode, "pin-images: docker" in done.stderr) == (1, True)
    assert (pinning / ".env").read_text() == "REDIS_IMAGE=redis:7@sha256:before\n"
    assert not list(pinning.glob(".env.*"))
