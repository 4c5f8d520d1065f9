"""`hmem`: the dispatcher, and the owner's commands for memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.cli.hooks import commands
from shared.hooks import features
from shared.system.command import CommandEntry, CommandGroup, application, run_command, start
from shared.text.logs import Logger

if TYPE_CHECKING:
    from pathlib import Path

    from shared.config.settings import Settings

#: The commands of the core, with what `hmem --help` says of each; the docstrings say more.
COMMANDS = (
    CommandEntry("init", "dispatcher.installation.command", "Set everything up and start it; again: go on, or check."),
    CommandEntry("run", "dispatcher.cli.main", "The dispatcher, in the foreground."),
    CommandEntry("telegram", "dispatcher.cli.main", "The Telegram bot, in the foreground."),
    CommandEntry("talk", "dispatcher.cli.talk", "Talk to Claude in the terminal, with the memory of a chat."),
    CommandEntry("chats", "dispatcher.cli.history", "Every chat: id, names, when something was last said, turns."),
    CommandEntry("search", "dispatcher.cli.search", "The best hits in one chat, or in the only one."),
    CommandEntry("context", "dispatcher.cli.context", "What would be injected for a message: texts, tokens, sources."),
    CommandEntry("history", "dispatcher.cli.history", "The turns of one chat in the order of time."),
    CommandEntry("memory", "dispatcher.cli.memory", "The typed memories of a chat: facts, goals, preferences."),
    CommandEntry("status", "dispatcher.cli.health", "Queue, dispatchers, release, pin, last night and last failure."),
    CommandEntry("doctor", "dispatcher.cli.health", "What is wrong on this host, why, and what to do."),
    CommandEntry("release", "dispatcher.cli.copies.release", "Releases on this host: list, verify, rollback, prune."),
    CommandEntry("dead", "dispatcher.cli.dead", "Tasks that the dispatcher could not process: list, retry, drop."),
    CommandEntry("export", "dispatcher.cli.copies.chat_data", "All that is stored of one chat, as readable files."),
    CommandEntry("import", "dispatcher.cli.copies.imports", "Bring another program's conversations, or undo that."),
    CommandEntry("forget", "dispatcher.cli.copies.chat_data", "Erase a chat, turns or a text permanently."),
    CommandEntry("restore", "dispatcher.cli.restore", "Bring everything back from a copy of the archive."),
    CommandEntry("admit", "dispatcher.installation.admit", "Let the nights of another host deliver here."),
    CommandEntry("owner-key", "dispatcher.cli.copies.chat_data", "The owner's key, with which hmem forget signs."),
)
hmem = CommandGroup("hmem", __doc__, [*COMMANDS, *(one for some in features().ask(commands) for one in some)])

#: The two that run until they are stopped.
app = application()


def main() -> None:
    run_command(hmem)


@app.command()
def run(
    check: Annotated[
        bool, typer.Option("--check", help="Only check whether a dispatcher runs: exit code 42 if not.")
    ] = False,
) -> None:
    """The dispatcher, in the foreground."""
    if check:
        from dispatcher.cli.arguments import connect
        from dispatcher.queue.state import running_dispatchers

        alive = running_dispatchers(connect(start("dispatcher", logs=False)))
        typer.echo(f"The dispatcher runs: {', '.join(alive)}.")
        return
    import asyncio

    from shared.config.ownership import OURS
    from shared.system.files import own_root

    settings = start("dispatcher")
    _claim_format(own_root(settings.hmem_state_dir, OURS["hmem_state_dir"]))
    asyncio.run(_serve(settings))


def _claim_format(state: Path) -> None:
    """FormatNewer if a newer program wrote the directory. On a full disk people get answers all the same."""
    from shared.system.formats import claim

    try:
        claim(state, "hmem_state_dir")
    except OSError as error:
        Logger().warning("the format of HMEM_STATE_DIR cannot be recorded", error=str(error))


async def _serve(settings: Settings) -> None:
    import asyncio
    import signal
    import time
    from functools import partial

    from shared.wire.client import DISPATCHER, open_async_redis

    client = open_async_redis(settings.redis_url, DISPATCHER)
    from dispatcher.answering.opening import open_parts
    from dispatcher.answering.task_handler import TaskHandler
    from dispatcher.answering.worker import Worker
    from dispatcher.claude.client import ClaudeCli
    from dispatcher.claude.environment import cli_environment, note_token
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.memory.session_summary import SummaryWriter, in_thread
    from dispatcher.releases.served import ServedRelease

    served = ServedRelease(settings)
    claude = ClaudeCli(settings)
    note_token(settings.hmem_state_dir, cli_environment(settings), time.time())
    loop = asyncio.get_running_loop()
    writer = SummaryWriter(settings, partial(in_thread, claude, settings, loop))
    day = DayMemory(settings, served.reading, writer)
    handler = TaskHandler(open_parts(settings, client, claude, day, served))
    worker = Worker(settings, client, handler)
    probing = asyncio.create_task(claude.flags())  # while the rest starts; the first question waits for it
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, worker.stop)
    try:
        await worker.run()
    finally:
        probing.cancel()
        await client.aclose()


@app.command()
def telegram(
    check: Annotated[bool, typer.Option("--check", help="Only check whether a bot runs: exit code 41 if not.")] = False,
) -> None:
    """The Telegram bot, in the foreground."""
    import asyncio

    if check:
        from dispatcher.cli.arguments import connect
        from dispatcher.health.findings import Fault
        from shared.wire import keys
        from shared.wire.ids import MAIN_BOT
        from shared.wire.values import shown

        holder = connect(start("bot", logs=False)).get(keys.bot_owner(MAIN_BOT))
        if not isinstance(holder, bytes):
            typer.echo(
                "No bot holds the lease in Redis, so no messages are received. Start hmem telegram and check its log.",
                err=True,
            )
            raise typer.Exit(int(Fault.BOT_NOT_RUNNING))
        typer.echo(f"The bot runs: {shown(holder)}.")
        return
    settings = start("bot")
    from dispatcher.bots.telegram.bot import serve

    asyncio.run(serve(settings))
