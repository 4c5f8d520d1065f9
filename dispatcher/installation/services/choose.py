"""Which service manager this host has."""

from __future__ import annotations

from dispatcher.installation.layout import Layout, programs_of
from dispatcher.installation.services.by_hand import ByHand
from dispatcher.installation.services.systemd import SystemdServices, user_manager_runs
from shared.config.settings import Settings

#: What starts the programs of an installation, now and after a restart of the host.
ServiceManager = SystemdServices | ByHand


def services_of(layout: Layout, settings: Settings) -> ServiceManager:
    """systemd where it runs, else their owner."""
    own_redis = (layout.redis / "redis.conf").exists()
    bot = settings.telegram_bot_token is not None or (layout.secrets / "bot.toml").exists()
    programs = programs_of(layout, own_redis=own_redis, bot=bot)
    if layout.kind == "three-users" or user_manager_runs():
        return SystemdServices(layout, programs, settings)
    return ByHand(layout, programs, settings)
