"""How Claude is told of the memory server of one chat: a file for `--mcp-config`, and the names of its tools for `--allowedTools`.

The server is given the settings that are in force here, by name, and reads no settings file of its own: so it sees the same memory as the
dispatcher, and neither RESULT_HMAC_KEY nor TELEGRAM_BOT_TOKEN. The file holds the URLs of Redis and of the store: 0600, gone after the call.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson

from shared.errors import InvalidInput
from shared.files import write_atomic
from shared.records import chat_id_of
from shared.settings import Settings

#: The server's name: Claude knows its tools as mcp__memory__memory_search and so on.
SERVER = "memory"
#: The tools that read, and the one that writes (with MEMORY_MCP_ADD).
READING, WRITING = ("memory_search", "memory_recent", "memory_facts"), ("memory_add",)
#: The settings that the server needs. No secret of bot or results is among them, and none may be added.
HANDED_ON = (
    "redis_url",
    "hmem_memory_dir",
    "hmem_state_dir",
    "memory_backend",
    "embedder",
    "embed_model",
    "fastembed_cache_path",
    "ollama_url",
    "ollama_timeout",
    "medium_url",
    "medium_days",
    "memory_mcp_add",
    "chat_timezone",
    "log_level",
    "log_json",
)
#: The Claude CLI puts a variable of its environment in the place of such a mark, wherever it stands in the file.
EXPANDED = "${"


def tool_names(settings: Settings) -> tuple[str, ...]:
    """The tools as they are registered: what the owner did not switch on is not there."""
    return READING + WRITING if settings.memory_mcp_add else READING


def allowed_tools(settings: Settings) -> tuple[str, ...]:
    """The same as Claude names them in `--allowedTools`."""
    return tuple(f"mcp__{SERVER}__{name}" for name in tool_names(settings))


def write_config(settings: Settings, chat_id: str, directory: Path) -> Path:
    """The file for one call, in a private directory; the caller removes it afterwards.

    InvalidInput for a chat id or a setting in which the CLI would put something else: the server would open another chat's memory.
    """
    hmem = str(Path(sys.executable).with_name("hmem"))  # not resolved: that would lead out of the virtual environment
    server = {
        "type": "stdio",
        "command": hmem,
        "args": ["mcp", f"--chat={chat_id_of(chat_id)}"],
        "env": environment(settings),
    }
    content = orjson.dumps({"mcpServers": {SERVER: server}})
    if EXPANDED.encode() in content:
        raise InvalidInput(
            f"The chat's id, a path or a URL in the settings holds {EXPANDED}, which the Claude CLI would replace. "
            "Claude gets no memory tools here; rename it, or write %24 for the dollar sign of a password."
        )
    path = directory / f"mcp-{uuid4().hex}.json"
    write_atomic(path, content)
    return path


def environment(settings: Settings) -> dict[str, str]:
    """The variables from which the server makes the same settings; an empty settings file in the place of ours."""
    values = {name.upper(): getattr(settings, name) for name in HANDED_ON}
    return {"HMEM_CONFIG": os.devnull} | {name: _written(value) for name, value in values.items() if value is not None}


def _written(value: Any) -> str:
    """A setting as it stands in the environment."""
    return str(value).lower() if isinstance(value, bool) else str(value)
