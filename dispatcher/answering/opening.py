"""The parts of a dispatcher, and how they are made from the settings."""

from __future__ import annotations

from dataclasses import dataclass

from redis.asyncio import Redis

from dispatcher.answering.commands.again import EditedMessages, RetryCommand, WhyCommand
from dispatcher.answering.commands.command import CommandRegistry, Handler
from dispatcher.answering.commands.forget import ForgetCommands
from dispatcher.answering.commands.memory import MemoryCommands
from dispatcher.answering.commands.timezone import TimeZoneCommand
from dispatcher.answering.conversation.answerer import ConversationAnswerer
from dispatcher.answering.conversation.ask_claude import ClaudeCaller, ContextLookup
from dispatcher.answering.hooks import Core, chat_commands, dispatcher, dispatcher_stopped
from dispatcher.answering.results import ResultBuilder
from dispatcher.claude.client import ClaudeCli
from dispatcher.memory.cache_dropping import CacheDropper
from dispatcher.memory.day.memory import DayMemory
from dispatcher.queue.chats import ChatRecords, ChatZones
from dispatcher.queue.rights import Rights
from dispatcher.queue.tasks import TaskQueue
from dispatcher.releases.served import ServedRelease
from shared.config.settings import Settings
from shared.hooks import Hooks, features
from shared.wire.client import BACKGROUND, open_redis


@dataclass(frozen=True)
class Parts:
    """Everything that an answer requires; one of each per dispatcher. `hooks` are the features' parts."""

    core: Core
    cache_dropper: CacheDropper
    hooks: Hooks
    commands: CommandRegistry
    lookup: ContextLookup
    claude: ClaudeCaller
    conversation: ConversationAnswerer

    def close(self) -> None:
        self.claude.close()
        self.core.served.close()
        self.core.day.close()
        self.core.background.close()
        self.hooks.ask(dispatcher_stopped)


def open_parts(settings: Settings, client: Redis, claude: ClaudeCli, day: DayMemory, served: ServedRelease) -> Parts:
    """Make them; nothing is read yet. SettingsError for a setting that cannot be used here."""
    background, results, rights = open_redis(settings.redis_url, BACKGROUND), ResultBuilder(settings), Rights(settings)
    queue = TaskQueue(client, results.signed, settings)
    zones, records = ChatZones(background, settings.timezone), ChatRecords(client)
    cache_dropper = CacheDropper(served, day)
    day.zone_of = zones.of
    core = Core(settings, client, background, queue, day, served, rights, results, claude)
    hooks = features().parts(dispatcher, core=core)
    handlers: dict[str, Handler] = {
        "memory": MemoryCommands(core, hooks),
        "forget": ForgetCommands(core, records),
        "why": WhyCommand(records),
        "retry": RetryCommand(records, day),
        "timezone": TimeZoneCommand(zones, rights),
    }
    lookup = ContextLookup(core, cache_dropper, hooks)
    caller = ClaudeCaller(core, hooks)
    commands = CommandRegistry(EditedMessages(queue, records, day), handlers, *hooks.ask(chat_commands))
    conversation = ConversationAnswerer(core, caller, lookup, hooks)
    return Parts(core, cache_dropper, hooks, commands, lookup, caller, conversation)
