"""A Redis that keeps what it is told, and the settings of an owner who is told something at eight."""

import pytest

from dispatcher.features.digest.tests.looking import OWNER
from shared.config.settings import Settings
from tests.dispatcher.health.conftest import durable
from tests.support.world import World

__all__ = ["durable"]


@pytest.fixture
def settings(light: World) -> Settings:
    (light.root / "state").mkdir()
    return light.settings(report_chat=OWNER, chat_timezone="Europe/Berlin", report_at="08:00")
