"""The memory server of one chat for one call of Claude: a socket, a file for `--mcp-config` that leads there, and the names of its tools.

The server is the dispatcher's child, started when the CLI's own one (mcp_relay.py) connects. It is given the settings that are in force here, by
name, and reads no settings file of its own: so it sees the same memory as the dispatcher, and neither RESULT_HMAC_KEY nor TELEGRAM_BOT_TOKEN. The
addresses of Redis and store go to it by a pipe: the CLI sees neither them nor any file of memory. Socket and file are gone after the call.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import orjson

from dispatcher.claude import relay
from dispatcher.claude.client import cli_environment
from shared.config.credentials import DESCRIPTOR, VARIABLE, by_pipe
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.system.files import write_atomic
from shared.turns.records import chat_id_of

#: The server's name: Claude knows its tools as mcp__memory__memory_search and so on.
SERVER = "memory"
#: The tools that read, and the one that writes (with MEMORY_MCP_ADD).
READING, WRITING = ("memory_search", "memory_history", "memory_recent", "memory_facts"), ("memory_add",)
#: The settings that the server needs. No secret of bot or results is among them, and none may be added.
HANDED_ON = (
    "hmem_memory_dir",
    "hmem_state_dir",
    "memory_backend",
    "embedder",
    "embed_model",
    "fastembed_cache_path",
    "ollama_url",
    "ollama_timeout",
    "medium_days",
    "memory_mcp_add",
    "chat_timezone",
    "log_level",
    "log_json",
)
#: Those that may hold a password: never in an environment.
BY_PIPE = ("redis_url", "medium_url")
#: What any program needs of our environment.
PASSED = ("HOME", "PATH", "LANG", "TZ", "TMPDIR")
#: Seconds for a server to end when it is asked to.
END_SECONDS = 5.0
#: The Claude CLI puts a variable of its environment in the place of such a mark, wherever it stands in the file.
EXPANDED = "${"


def tool_names(settings: Settings) -> tuple[str, ...]:
    """The tools as they are registered: what the owner did not switch on is not there."""
    return READING + WRITING if settings.memory_mcp_add else READING


def allowed_tools(settings: Settings) -> tuple[str, ...]:
    """The same as Claude names them in `--allowedTools`."""
    return tuple(f"mcp__{SERVER}__{name}" for name in tool_names(settings))


class MemoryServer:
    """Listens from now until `close`; `config` is the file for the CLI. Both lie in a private directory.

    InvalidInput for a path in which the CLI would put something else.
    """

    def __init__(self, settings: Settings, chat_id: str, directory: Path) -> None:
        self._settings, self._chat_id = settings, chat_id_of(chat_id)
        name = uuid4().hex
        self._path, self.config = directory / f"{name}.sock", directory / f"mcp-{name}.json"
        command = [sys.executable, "-I", "-S", relay.__file__, str(self._path)]
        server = {"type": "stdio", "command": command[0], "args": command[1:]}
        content = orjson.dumps({"mcpServers": {SERVER: server}})
        if EXPANDED.encode() in content:
            raise InvalidInput(
                f"HMEM_STATE_DIR, or the path of this program, holds {EXPANDED}, which the Claude CLI would replace. "
                "Claude gets no memory tools here; rename it."
            )
        self._listener = self._listen(directory)
        write_atomic(self.config, content)
        self._started: list[subprocess.Popen[bytes]] = []
        threading.Thread(target=self._serve, name="memory server", daemon=True).start()

    def _listen(self, directory: Path) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        inside = os.open(directory, os.O_PATH)  # an address has room for some hundred characters only
        try:
            listener.bind(f"/proc/self/fd/{inside}/{self._path.name}")
            listener.listen()
        finally:
            os.close(inside)
        return listener

    def _serve(self) -> None:
        """A server for each connection; when the listener is closed, all of them end."""
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
                [hmem, "mcp", f"--chat={self._chat_id}"],
                stdin=connection.fileno(),
                stdout=connection.fileno(),
                env=passed | environment(self._settings) | {VARIABLE: f"{DESCRIPTOR}{reading}"},
                pass_fds=(reading,),
                start_new_session=True,
            )

    def close(self) -> None:
        """The call is over. Does not wait for the server's end."""
        self._listener.shutdown(socket.SHUT_RDWR)
        for path in (self._path, self.config):
            path.unlink(missing_ok=True)


def environment(settings: Settings) -> dict[str, str]:
    """The variables from which the server makes the same settings; an empty settings file in the place of ours."""
    return {"HMEM_CONFIG": os.devnull} | written(settings, HANDED_ON)


def written(settings: Settings, names: Sequence[str]) -> dict[str, str]:
    """Settings as they stand in the environment."""
    values = {name.upper(): getattr(settings, name) for name in names}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value is not None
    }
