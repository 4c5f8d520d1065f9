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
from dispatcher.answering.conversation.partial import PartialAnswers
from dispatcher.answering.conversation.tag_actions import TagActions
from dispatcher.answering.hooks import Core, chat_commands, dispatcher, dispatcher_stopped
from dispatcher.answering.results import ResultBuilder
from dispatcher.claude.client import ClaudeCli
from dispatcher.memory.cache_dropping import CacheDropper
from dispatcher.memory.day.memory import DayMemory
from dispatcher.queue.chats import ChatRecords, ChatZones, ToolAccess
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
    zones: ChatZones
    hooks: Hooks
    commands: CommandRegistry
    lookup: ContextLookup
    claude: ClaudeCaller
    conversation: ConversationAnswerer

    def close(self) -> None:
        self.claude.close()
        self.core.served.close()
        self.core.day.close()
        self.zones.close()
        self.hooks.ask(dispatcher_stopped)


def open_parts(settings: Settings, client: Redis, claude: ClaudeCli, day: DayMemory, served: ServedRelease) -> Parts:
    """Make them; nothing is read yet. SettingsError for a setting that cannot be used here."""
    background, results, rights = open_redis(settings.redis_url, BACKGROUND), ResultBuilder(settings), Rights(settings)
    queue = TaskQueue(client, results.signed)
    zones, records = ChatZones(background, settings.timezone), ChatRecords(client)
    cache_dropper = CacheDropper(served, day)
    day.zone_of = zones.of
    tags = TagActions(settings, queue, day, rights)
    core = Core(settings, client, background, queue, day, served, rights, results, claude)
    hooks = features().parts(dispatcher, core=core)
    handlers: dict[str, Handler] = {
        "memory": MemoryCommands(queue, day, rights, hooks, enabled=tags.enabled),
        "forget": ForgetCommands(settings, queue, records, day, rights),
        "why": WhyCommand(records),
        "retry": RetryCommand(records, day),
        "timezone": TimeZoneCommand(zones, rights),
    }
    lookup = ContextLookup(settings, day, served, cache_dropper, hooks)
    shown = PartialAnswers(settings, client, remembers=tags.enabled) if settings.stream else None
    caller = ClaudeCaller(
        settings, claude, hooks, shown, ToolAccess(settings, client).tools_of, remembers=tags.enabled, zone_of=zones.of
    )
    commands = CommandRegistry(EditedMessages(queue, records, day), handlers, *hooks.ask(chat_commands))
    replays = settings.session_mode == "replay"
    conversation = ConversationAnswerer(queue, caller, lookup, tags, results, hooks, replays=replays)
    return Parts(core, cache_dropper, zones, hooks, commands, lookup, caller, conversation)
