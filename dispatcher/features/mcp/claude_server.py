"""The memory server of one chat for one call of Claude: a socket, a file for `--mcp-config` that points to it, and the names of its tools.

The server is a child of the dispatcher, started when the CLI's child (mcp_relay.py) connects. It gets the dispatcher's current settings by name, and
reads no settings file: so it sees the same memory as the dispatcher, and neither RESULT_HMAC_KEY nor TELEGRAM_BOT_TOKEN. The addresses of Redis and
store are passed through a pipe: the CLI sees neither them nor any file of memory. Socket and file are removed after the call.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from uuid import uuid4

from dispatcher.answering.turn import ForClaude, TurnInProgress
from dispatcher.claude.environment import cli_environment
from dispatcher.claude.relay.relayed import config_of, listen
from dispatcher.features.mcp.settings import McpSettings
from shared.config.credentials import DESCRIPTOR, VARIABLE, by_pipe
from shared.config.settings import Settings
from shared.errors import HmemError
from shared.hooks import hook
from shared.system.files import write_atomic
from shared.text.logs import Logger
from shared.turns.records import chat_id_of

log = Logger()

#: The server's name: Claude knows its tools as mcp__memory__memory_search and so on.
SERVER = "memory"
#: The tools that read, and the one that writes (with MEMORY_MCP=add).
READING, WRITING = ("memory_search", "memory_history", "memory_recent", "memory_facts"), ("memory_add",)
#: The settings that the server needs. No secret of bot or results is among them, and none may be added.
HANDED_ON = (
    "hmem_memory_dir",
    "hmem_state_dir",
    "memory_backend",
    "index_name",
    "embedder",
    "embed_model",
    "fastembed_cache_path",
    "ollama_url",
    "ollama_timeout",
    "chat_timezone",
    "log_level",
    "log_json",
    "memory_mcp",
)
#: Settings that may contain a password: never in an environment.
BY_PIPE = ("redis_url", "day_store_url")
#: Variables that any program needs.
PASSED = ("HOME", "PATH", "LANG", "TZ", "TMPDIR")
#: How long a server may take to end after SIGTERM. Seconds.
END_SECONDS = 5.0


def tool_names(settings: Settings) -> tuple[str, ...]:
    """The names of the registered tools: only what the owner switched on."""
    return READING + WRITING if settings.of(McpSettings).memory_mcp == "add" else READING


def allowed_tools(settings: Settings) -> tuple[str, ...]:
    """The tools' names for `--allowedTools`."""
    return tuple(f"mcp__{SERVER}__{name}" for name in tool_names(settings))


class MemoryTools:
    """This feature's part of a dispatcher: Claude gets the tools in each call."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @hook
    @asynccontextmanager
    async def beside_claude(self, turn: TurnInProgress, folder: Path) -> AsyncIterator[ForClaude]:
        try:
            server = MemoryServer(self._settings, turn.asked.chat_id, folder)
        except (HmemError, OSError) as error:
            log.error("answering without memory tools", reason=str(error))
            yield ForClaude()
            return
        with closing(server):
            yield ForClaude((server.config,), allowed_tools(self._settings))
            turn.listed = server.listed.exists()


class MemoryServer:
    """Listens from now until `close`; `config` is the file for the CLI, `listed` is there once Claude has read the facts. All are in a private
    directory.

    InvalidInput for a path that the CLI would change by replacing a mark.
    """

    def __init__(self, settings: Settings, chat_id: str, directory: Path) -> None:
        self._settings, self._chat_id = settings, chat_id_of(chat_id)
        name = uuid4().hex
        self._path, self.config = directory / f"{name}.sock", directory / f"mcp-{name}.json"
        self.listed = directory / f"{name}.listed"
        content = config_of(SERVER, self._path, "Claude gets no memory tools")
        self._listener = listen(self._path)
        write_atomic(self.config, content)
        self._started: list[subprocess.Popen[bytes]] = []
        threading.Thread(target=self._serve, name="memory server", daemon=True).start()

    def _serve(self) -> None:
        """Start a server for each connection; when the listener is closed, end all of them."""
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection:
                    self._started.append(self._start(connection))
        for process in self._started:
            process.terminate()
        for process in self._started:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._listener.close()

    def _start(self, connection: socket.socket) -> subprocess.Popen[bytes]:
        hmem = str(
            Path(sys.executable).with_name("hmem")
        )  # not resolved: that would lead out of the virtual environment
        passed = {name: value for name, value in cli_environment(self._settings).items() if name in PASSED}
        with by_pipe(written(self._settings, BY_PIPE)) as reading:
            return subprocess.Popen(
                [hmem, "mcp", f"--mark={self.listed}", "--", self._chat_id],
                stdin=connection.fileno(),
                stdout=connection.fileno(),
                env=passed | environment(self._settings) | {VARIABLE: f"{DESCRIPTOR}{reading}"},
                pass_fds=(reading,),
                start_new_session=True,
            )

    def close(self) -> None:
        """End the call. Does not wait for the servers to end."""
        self._listener.shutdown(socket.SHUT_RDWR)
        for path in (self._path, self.config, self.listed):
            path.unlink(missing_ok=True)


def environment(settings: Settings) -> dict[str, str]:
    """The variables that give the server the same settings, with an empty settings file instead of ours."""
    return {"HMEM_CONFIG": os.devnull} | written(settings, HANDED_ON)


def written(settings: Settings, names: Sequence[str]) -> dict[str, str]:
    """Settings as environment variables."""
    return {
        name.upper(): str(value).lower() if isinstance(value, bool) else str(value)
        for name, _, value in settings.every()
        if name in names and value is not None
    }
