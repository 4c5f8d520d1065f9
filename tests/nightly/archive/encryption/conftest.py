"""An installation with encryption, and the search for words in its files."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from shared.system.keys import sealing
from shared.system.keys.encryption_key import EncryptionKey
from tests.support.world import World


def encrypt(world: World) -> World:
    """From now on, commands and nights of this installation encrypt."""
    path = world.root / "keys" / "encrypt.key"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if not path.exists():
        EncryptionKey.new().write(path)
    world.environment["ENCRYPT_KEY_FILE"] = str(path)
    os.environ["ENCRYPT_KEY_FILE"] = str(path)  # of the processes that test a release
    sealing.configure(world.settings(), "night")
    return world


@pytest.fixture(autouse=True)
def decrypted() -> Iterator[None]:
    """No other test encrypts."""
    yield
    os.environ.pop("ENCRYPT_KEY_FILE", None)
    sealing.use(None)


@pytest.fixture
def sealed(light: World) -> World:
    """With keywords alone."""
    return encrypt(light)


@pytest.fixture
def sealed_world(world: World) -> World:
    """With the shipped model's vectors."""
    return encrypt(world)
