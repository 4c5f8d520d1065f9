"""Which service manager this host has."""

from __future__ import annotations

from collections.abc import Sequence

from dispatcher.installation.layout import Layout
from dispatcher.installation.services.base import Program, ServiceManager, programs_of
from dispatcher.installation.services.supervisor import SupervisorServices
from dispatcher.installation.services.systemd import SystemdServices, user_manager_runs
from shared.config.settings import Settings
from shared.system.archive_folder import moved_to


def services_of(layout: Layout, settings: Settings) -> ServiceManager:
    """systemd where it runs, else supervisor. No night if that was moved to another host."""
    own_redis = (layout.redis / "redis.conf").exists()
    bot = settings.telegram_bot_token is not None or (layout.secrets / "bot.toml").exists()
    night, backup = moved_to(layout.night) is None, settings.backup_to is not None
    programs = programs_of(layout, own_redis=own_redis, bot=bot, night=night, backup=backup)
    return manager_of(layout, settings, programs)


def manager_of(layout: Layout, settings: Settings, programs: Sequence[Program]) -> ServiceManager:
    if layout.kind == "three-users" or (layout.kind == "own-user" and user_manager_runs()):
        return SystemdServices(layout, programs, settings)
    return SupervisorServices(layout, programs)
