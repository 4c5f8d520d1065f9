"""An open day store."""

from __future__ import annotations

import pytest

from dispatcher.memory.store.database import Database
from tests.support.stores import Stores


@pytest.fixture
def database(stores: Stores) -> Database:
    return stores.open()
