"""All settings, read once: from the environment, or under the same names from TOML: the credentials, then the settings file. Nothing else reads them.

The file is the one `HMEM_CONFIG` names, or `/etc/hmem/hmem.toml` when that exists; what has secrets in it is read by credentials.py. The
environment wins over both. Loading ends in one frozen object that is passed down. Secrets are masked in every representation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, ValidationInfo, field_validator

from shared.config import sources, values
from shared.config.clock_time import ClockTime
from shared.config.listening import listen_address
from shared.errors import SettingsError

#: Vector indexes that this version knows, the preferred one first.
INDEXES = ("sqlite", "chroma", "lancedb", "qdrant", "redis")


class Settings(BaseModel):
    """One field a setting; the name in capitals is the one in the environment and in the file."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", hide_input_in_errors=True, validate_default=True, defer_build=True
    )

    redis_url: str = Field("redis://127.0.0.1:6379/0", description="the Redis that both hosts share", repr=False)
    redis_admin_url: str | None = Field(
        None,
        description="the same Redis as its administrator, only for hmem forget, which rewrites Redis' files and empties its logs",
        repr=False,
    )
    result_hmac_key: SecretStr | None = Field(
        None,
        description="signs results: the same as the bot's, 16 characters or more; without it hmem run and hmem ask refuse to work",
    )

    hmem_memory_dir: Path = Field(Path("/data/memory"), description="the releases; only the night writes here")
    hmem_state_dir: Path = Field(
        Path("/var/lib/hmem"),
        description="the dispatcher's own files: a directory for each chat, prompts, copies of the index, the store of the day",
    )
    hmem_night_dir: Path = Field(Path("/var/lib/hmem-night"), description="archive, nights and cache of the night host")

    owner_key_file: Path | None = Field(
        None,
        description="your private key, which hmem forget signs with; unset: ~/.config/hmem/owner.key",
    )
    owner_public_key: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{64}$",
        description="its public half, which the night goes by (hmem owner-key prints it); unset: owner.pub in HMEM_NIGHT_DIR",
    )

    memory_backend: Literal["auto", "none", "summary", "sqlite", "chroma", "lancedb", "qdrant", "redis"] = Field(
        "auto",
        description="lookup by meaning; auto: the first index of the release; none: by words alone; summary: no lookup, the whole summary",
    )
    qdrant_url: str | None = Field(None, description="the Qdrant server, such as http://127.0.0.1:6333", repr=False)
    qdrant_api_key: SecretStr | None = Field(None, description="its key, if it wants one")
    redis_stack_url: str | None = Field(
        None,
        description="the Redis with the search module (Redis 8, Redis Stack) that holds vectors; unset: REDIS_URL",
        repr=False,
    )
    index_name: str = Field(
        "hmem",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,40}$",
        description="prefix of our indexes on a server, and alias of the one in use; every installation on a server needs its own",
    )
    memory_summary: bool = Field(
        True,
        description="inject the chat's summary: 300 of 1,500 tokens beside recalled lines, all of it where nothing is recalled",
    )
    memory_tokens: int = Field(
        1500,
        ge=0,
        le=200_000,
        description="budget of all injected memory, in tokens of 4 characters; 0 switches memory off",
    )
    memory_deadline_ms: int = Field(
        300,
        ge=1,
        description="time limit of the lookup by meaning, in milliseconds; the whole lookup gets one second more",
    )

    embedder: Literal["local", "fastembed", "ollama", "none"] = Field(
        "local", description="what turns text into vectors; day and night must use the same weights"
    )
    embed_model: str = Field(
        "all-minilm",
        description="the model, by its name in Ollama (all-minilm, nomic-embed-text, mxbai-embed-large, bge-m3, paraphrase-multilingual)",
    )
    fastembed_cache_path: Path | None = Field(
        None,
        description="where the models of EMBEDDER=fastembed lie, fetched by python -m shared.embedding.fastembed; unset: ~/.cache/fastembed",
    )
    ollama_url: str = Field("http://127.0.0.1:11434", description="the Ollama server")
    ollama_timeout: float = Field(120.0, gt=0, description="limit of one request to Ollama, in seconds")
    summary_model: str | None = Field(
        None,
        description="an Ollama chat model that writes the summaries by night, such as llama3.2; none: lines picked word for word",
    )

    night_indexes: str = Field(
        "sqlite",
        description="vector indexes that the night builds beside the keyword index, with commas: sqlite, chroma, lancedb, qdrant, redis, or none",
    )
    night_cron: str = Field(
        "0 3 * * *",
        description="when hmem-night schedule runs, in CHAT_TIMEZONE; weekdays as names (mon), since numbers count from Monday = 0",
    )
    publish_target: str | None = Field(
        None,
        description="where releases go: a directory, or [user@]host:path by rsync over ssh (docs/two-hosts.md); unset: HMEM_MEMORY_DIR",
    )
    publish_ssh: str = Field(
        "ssh -o BatchMode=yes -o ControlPath=none -o ConnectTimeout=15 -o ServerAliveInterval=15",
        description="the ssh command that rsync uses, with the key for the transfer",
    )
    release_command: str | None = Field(
        None,
        description="the ssh command with the key for the verbs begin, verify, switch, rollback, prune; needed for another host",
    )
    publish_wait: float = Field(
        60.0,
        ge=0,
        description="seconds that running dispatchers have to take up a new release, or the switch is undone",
    )
    restart_command: str | None = Field(
        None, description="run after the night; not needed, since the dispatcher notices a new release by itself"
    )
    restart_timeout: float = Field(120.0, gt=0, description="limit of the restart command, in seconds")
    archive_mirror: str | None = Field(
        None,
        description="second copy of the archive, proven before anything is deleted: a path, or [user@]host:path for rsync over PUBLISH_SSH",
    )
    step_timeout: float = Field(
        14_400.0,
        gt=0,
        description="limit of one step of the night, in seconds; a step that hangs ends the night with code 25",
    )
    releases_kept: int = Field(
        5,
        ge=2,
        description="newest releases that stay; always kept are the current one, its parent, a pinned one and those in use",
    )

    claude_bin: str = Field("claude", description="the Claude CLI: looked for on PATH, then beside hmem")
    claude_mcp_config: Path | None = Field(
        None, description="passed on as --mcp-config; no other MCP servers are started"
    )
    claude_allowed_tools: str | None = Field(
        None,
        description="passed on as --allowedTools; none: no tools at all. Built-in tools must be named, and Read stays denied",
    )
    claude_base_prompt_file: Path | None = Field(
        None, description="rules ahead of the memory, in place of dispatcher/prompt/base.md; an empty file: none"
    )
    claude_env: str = Field("", description="further environment variables that the CLI may see, with commas")

    memory_mcp: bool = Field(False, description="give Claude this chat's memory as MCP tools (docs/mcp.md)")
    memory_mcp_add: bool = Field(
        False, description="with MEMORY_MCP: also memory_add, by which Claude writes facts, goals and preferences"
    )

    session_mode: Literal["resume", "replay"] = Field(
        "resume",
        description="resume: continue the Claude session; replay: start afresh each time, with the recent turns as text inside the budget",
    )
    recall_placement: Literal["system", "message"] = Field(
        "system",
        description="where recalled lines go: system prompt, or message (ahead of it: a resumed session keeps its prompt cache)",
    )
    session_ttl: int = Field(14_400, ge=1, description="life of a Claude session after its last answer, in seconds")
    task_timeout: float = Field(
        600.0, gt=0, description="limit of one answer, in seconds; with h-cli's bot 280, since it waits 300"
    )
    stop_timeout: float = Field(
        600.0, ge=0, description="seconds that running answers get after a stop, before they go back to the queue"
    )
    task_bytes: int = Field(
        262_144,
        ge=1_024,
        le=16_777_216,
        description="bytes of the largest task (a message with all about it) that is taken; a larger one is refused in a sentence",
    )
    max_concurrent_tasks: int = Field(
        3, ge=1, le=64, description="answers in the making at once; within a chat always one"
    )

    medium_url: str | None = Field(
        None,
        description="the SQL store of the day, postgresql://user:password@host/database; unset: SQLite in HMEM_STATE_DIR; none: nothing by day",
        repr=False,
    )
    medium_days: float = Field(
        7.0, gt=0, description="days for which turns stay in the store of the day; and until they are in the release"
    )
    dreamer_interval: float = Field(30.0, gt=0, description="seconds between two rounds of consolidation")
    session_summaries: Literal["extractive", "ollama", "claude"] = Field(
        "extractive",
        description="who sums up a session that has grown too long: extractive (its own sentences), ollama (SUMMARY_MODEL) or claude",
    )
    session_tokens: int = Field(
        50_000,
        ge=1,
        description="size of a conversation, in tokens of 4 characters, from which it is summed up and a new session begins",
    )

    telegram_bot_token: SecretStr | None = Field(
        None, description="the token that @BotFather gave you; hmem telegram needs it"
    )
    telegram_api_url: str = Field("https://api.telegram.org", description="the Bot API server")
    allowed_chats: str = Field(
        "", description="ids of the chats that the bot answers, with commas (groups are negative); empty: nobody"
    )
    owners: str = Field(
        "",
        description="user ids with an owner's rights in groups and /stats of all chats, with commas; the same for bot and dispatcher",
    )
    queue_limit: int = Field(
        100, ge=1, description="queued messages of all chats from which the bot takes no more, and says so"
    )
    chat_queue_limit: int = Field(10, ge=1, description="the same for the unanswered messages of one chat")

    metrics_listen: str = Field(
        "", description="address and port of the figures for Prometheus, such as 127.0.0.1:9464; empty: none"
    )

    chat_timezone: str = Field(
        "UTC", description="time zone of all times that people see or write, and of the days of /stats"
    )
    remind_at: ClockTime = Field(
        "18:00", description="when a chat is reminded of a goal on the day before its deadline, in CHAT_TIMEZONE"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least level that is logged")
    hmem_crash_at: str | None = Field(None, description="for tests: the point at which the process kills itself")
    log_json: bool = Field(False, description="log lines as JSON")

    @field_validator("chat_timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        return values.known_zone(value)

    @field_validator("medium_url")
    @classmethod
    def _known_store(cls, value: str | None) -> str | None:
        return values.store_url(value)

    @field_validator("result_hmac_key", "telegram_bot_token", "qdrant_api_key", mode="before")
    @classmethod
    def _blank_is_none(cls, value: Any) -> Any:
        return None if isinstance(value, str) and not value.strip() else value

    @field_validator("redis_url", "redis_admin_url", "redis_stack_url")
    @classmethod
    def _readable_url(cls, value: str | None) -> str | None:
        return None if value is None else values.redis_url(value)

    @field_validator("allowed_chats", "owners", mode="before")
    @classmethod
    def _ids_as_text(cls, value: Any) -> Any:
        """In the file also a number, or a list."""
        several = value if isinstance(value, list) else [value]
        return ",".join(str(one) for one in several) if not any(isinstance(one, bool) for one in several) else value

    @field_validator("allowed_chats")
    @classmethod
    def _chat_ids(cls, value: str) -> str:
        return values.chat_ids(value)

    @field_validator("owners")
    @classmethod
    def _user_ids(cls, value: str) -> str:
        return values.user_ids(value)

    @field_validator("metrics_listen")
    @classmethod
    def _listens(cls, value: str) -> str:
        if value.strip():
            listen_address(value)
        return value.strip()

    @field_validator("ollama_url", "telegram_api_url", "qdrant_url")
    @classmethod
    def _http_url(cls, value: str | None, info: ValidationInfo) -> str | None:
        example = cls.model_fields[str(info.field_name)].default or "http://127.0.0.1:6333"
        return None if value is None else values.http_url(value, example)

    @field_validator(
        "hmem_memory_dir",
        "hmem_state_dir",
        "hmem_night_dir",
        "owner_key_file",
        "fastembed_cache_path",
        "claude_mcp_config",
        "claude_base_prompt_file",
    )
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return value and value.expanduser().absolute()  # the CLI runs in another directory

    @property
    def timezone(self) -> ZoneInfo:
        return ZoneInfo(self.chat_timezone)

    @property
    def without_vectors(self) -> str | None:
        """The setting by which nothing is looked up by meaning, on purpose: no fault, and nobody is told of it."""
        chosen = self.memory_backend in ("none", "summary")
        return f"MEMORY_BACKEND={self.memory_backend}" if chosen else None

    @property
    def allowed(self) -> frozenset[int]:
        """Chats that the bot answers."""
        return frozenset(int(one) for one in self.allowed_chats.split(",") if one.strip())

    @property
    def owner_ids(self) -> frozenset[str]:
        """People with an owner's rights, as a task's user_id spells them."""
        return frozenset(filter(None, map(str.strip, self.owners.split(","))))

    @property
    def remote_target(self) -> str | None:
        """`[user@]host:path` if releases go to another host."""
        target = self.publish_target
        return target if target and values.names_a_host(target) else None

    @property
    def target_dir(self) -> Path:
        """Directory that holds `current` and `releases/`, where it is on this host."""
        return Path(self.publish_target) if self.publish_target and not self.remote_target else self.hmem_memory_dir

    @property
    def indexes(self) -> tuple[str, ...]:
        """Vector indexes that the night builds, the preferred one first, however they were written."""
        named = self.night_indexes.replace(" ", "").split(",")
        return tuple(name for name in INDEXES if name in named)

    @field_validator("night_indexes")
    @classmethod
    def _known_indexes(cls, value: str) -> str:
        unknown = set(value.replace(" ", "").split(",")) - {"", "none", *INDEXES}
        if unknown:
            raise ValueError(
                f"unknown index {', '.join(sorted(unknown))}; this version builds {', '.join(INDEXES)}, or none"
            )
        return value


def setting_names() -> list[str]:
    """The names as they stand in the environment."""
    return [name.upper() for name in Settings.model_fields]


def load_settings(**overrides: Any) -> Settings:
    """Read environment and file once; a wrong value is one sentence naming the setting, never a secret's text."""
    given = sources.given_values(setting_names(), sources.settings_file())
    try:
        return Settings.model_validate(given | overrides)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc'])).upper()}: {e['msg'].removeprefix('Value error, ')}" for e in error.errors()
        )
        raise SettingsError(
            f"A setting is wrong. {problems}. Change it in the environment, the credentials or the settings file."
        ) from error
