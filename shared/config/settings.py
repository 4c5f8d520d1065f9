"""All settings, read once: from the environment, or under the same names from TOML: the credentials, then the settings file. Nothing else reads them.

The file is the one `HMEM_CONFIG` names, or `/etc/hmem/hmem.toml` when that exists; what has secrets in it is read by credentials.py. The
environment wins over both. Loading ends in one frozen object that is passed down. Secrets are masked in every representation.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from shared.config.sources import CredentialsSource, FileSource
from shared.config.values import ClockTime, is_person, known_zone, listen_address, names_a_host
from shared.errors import SettingsError

#: Vector indexes that this version knows, the preferred one first.
INDEXES = ("sqlite", "chroma", "lancedb", "qdrant", "redis")


class Settings(BaseSettings):
    """One field a setting; the name in capitals is the one in the environment and in the file."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True)

    redis_url: str = Field(
        "redis://127.0.0.1:6379/0",
        description="Redis of both hosts: the queue, and the turns until the night has archived them.",
        repr=False,
    )
    redis_admin_url: str | None = Field(
        None,
        description="The same Redis as its administrator, for hmem forget to have its files rewritten; unset: that is left to be done by hand.",
        repr=False,
    )
    result_hmac_key: SecretStr | None = Field(
        None, description="Secret that signs results; the bot verifies them with the same one."
    )

    hmem_memory_dir: Path = Field(
        Path("/data/memory"), description="Directory of the releases; the dispatcher only reads it."
    )
    hmem_state_dir: Path = Field(
        Path("/var/lib/hmem"), description="Directory of the dispatcher's own files, among them the day's SQLite store."
    )
    hmem_night_dir: Path = Field(
        Path("/var/lib/hmem-night"), description="Directory of the night host: archive, nights and cache."
    )

    owner_key_file: Path | None = Field(
        None,
        description="The owner's private key, which hmem forget signs with; unset: ~/.config/hmem/owner.key.",
    )
    owner_public_key: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{64}$",
        description="The owner's public key in 64 hex digits (hmem owner-key prints it), which the night trusts; unset: the one in HMEM_NIGHT_DIR.",
    )

    memory_backend: Literal["auto", "none", "summary", "sqlite", "chroma", "lancedb", "qdrant", "redis"] = Field(
        "auto",
        description="How memory is looked up. auto: by words and vectors; an index: by words and that one; none: by words; summary: not at all.",
    )
    qdrant_url: str | None = Field(
        None, description="URL of the Qdrant server; only the index qdrant needs it.", repr=False
    )
    qdrant_api_key: SecretStr | None = Field(None, description="API key of the Qdrant server; unset: none is sent.")
    redis_stack_url: str | None = Field(
        None,
        description="Redis with the search module (Redis 8 or Redis Stack), for the index redis; unset: REDIS_URL.",
        repr=False,
    )
    index_name: str = Field(
        "hmem",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,40}$",
        description="Prefix of our indexes on a server and name of the alias of the one in use; each installation needs its own.",
    )
    memory_summary: bool = Field(True, description="Whether the chat's summary is injected.")
    memory_tokens: int = Field(
        1500,
        ge=0,
        le=200_000,
        description="Budget of injected memory, in tokens of 4 characters; 0: none.",
    )
    memory_deadline_ms: int = Field(
        300,
        ge=1,
        description="Time limit of one memory lookup, in milliseconds.",
    )

    embedder: Literal["local", "fastembed", "ollama", "none"] = Field(
        "local",
        description="What turns text into vectors. local: the shipped model; fastembed: a hub's model; ollama: an Ollama server; none: no vectors.",
    )
    embed_model: str = Field(
        "all-minilm",
        description="Embedding model, by its name in Ollama or, with fastembed, by either name; local has only the default.",
    )
    fastembed_cache_path: Path | None = Field(
        None, description="Directory of fastembed's models; unset: ~/.cache/fastembed."
    )
    ollama_url: str = Field("http://127.0.0.1:11434", description="URL of the Ollama server.")
    ollama_timeout: float = Field(120.0, gt=0, description="Time limit of one request to Ollama, in seconds.")
    summary_model: str | None = Field(
        None, description="Ollama chat model that writes summaries; unset: summaries are extracts."
    )

    night_indexes: str = Field(
        "sqlite",
        description="Vector indexes that the night builds, comma-separated: sqlite, chroma, lancedb, qdrant, redis; none: keywords only.",
    )
    night_cron: str = Field(
        "0 3 * * *",
        description="When hmem-night schedule runs a night, as a cron expression of five fields in CHAT_TIMEZONE.",
    )
    publish_target: str | None = Field(
        None,
        description="Where releases go: a directory, or [user@]host:path for rsync over PUBLISH_SSH; unset: HMEM_MEMORY_DIR.",
    )
    publish_ssh: str = Field(
        "ssh -o BatchMode=yes -o ControlPath=none -o ConnectTimeout=15 -o ServerAliveInterval=15",
        description="The ssh command that rsync uses.",
    )
    release_command: str | None = Field(
        None,
        description="The ssh command for the verbs begin, verify, switch, rollback and prune; needed where PUBLISH_TARGET is on another host.",
    )
    publish_wait: float = Field(
        60.0,
        ge=0,
        description="Seconds that dispatchers have to take up a new release before it is undone.",
    )
    restart_command: str | None = Field(
        None,
        description="Command that the night runs after the flush; unset: none, since the dispatcher notices a new release by itself.",
    )
    restart_timeout: float = Field(120.0, gt=0, description="Time limit of RESTART_COMMAND, in seconds.")
    archive_mirror: str | None = Field(
        None,
        description="Second copy of the archive: a directory, or [user@]host:path for rsync over PUBLISH_SSH; unset: none.",
    )
    step_timeout: float = Field(14_400.0, gt=0, description="Time limit of one step of the night, in seconds.")
    releases_kept: int = Field(5, ge=2, description="Number of releases that stay on the day host for a rollback.")

    claude_bin: str = Field("claude", description="The Claude CLI: a name on PATH or a path.")
    claude_mcp_config: Path | None = Field(
        None, description="File that is passed to the CLI as --mcp-config; unset: none."
    )
    claude_allowed_tools: str | None = Field(
        None, description="Passed to the CLI as --allowedTools; unset: no built-in tools at all."
    )
    claude_base_prompt_file: Path | None = Field(
        None,
        description="File with the rules ahead of the memory in the system prompt; unset: the built-in ones; an empty file: none.",
    )
    claude_env: str = Field(
        "", description="Names of further environment variables that the CLI may see, comma-separated; empty: none."
    )

    memory_mcp: bool = Field(False, description="Whether Claude gets this chat's memory as MCP tools.")
    memory_mcp_add: bool = Field(False, description="Whether these tools include memory_add, which writes.")

    session_mode: Literal["resume", "replay"] = Field(
        "resume",
        description="resume: continue the Claude session; replay: start afresh each time, with the recent turns as text.",
    )
    recall_placement: Literal["system", "message"] = Field(
        "system", description="Where recalled lines go. system: into the system prompt; message: ahead of the message."
    )
    session_ttl: int = Field(14_400, ge=1, description="Seconds without a message after which a Claude session ends.")
    task_timeout: float = Field(600.0, gt=0, description="Time limit of one answer, in seconds.")
    stop_timeout: float = Field(
        600.0, ge=0, description="Seconds that running tasks get after a stop signal before they go back to the queue."
    )
    task_bytes: int = Field(
        262_144,
        ge=1_024,
        le=16_777_216,
        description="Size of the largest task (a message with everything about it) that is accepted, in bytes.",
    )
    max_concurrent_tasks: int = Field(
        3, ge=1, le=64, description="Number of answers that one dispatcher works on at once."
    )

    medium_url: str | None = Field(
        None,
        description="The day's SQL store, as an SQLAlchemy URL of SQLite or PostgreSQL; unset: SQLite in HMEM_STATE_DIR; none: no memory of the day.",
        repr=False,
    )
    medium_days: float = Field(
        7.0, gt=0, description="Days that turns stay in the day's store; one that is in no release yet stays longer."
    )
    dreamer_interval: float = Field(30.0, gt=0, description="Seconds between two rounds of consolidation.")
    session_summaries: Literal["extractive", "ollama", "claude"] = Field(
        "extractive",
        description="What summarises a session that is too long. extractive: its own sentences; ollama: SUMMARY_MODEL; claude: the Claude CLI.",
    )
    session_tokens: int = Field(
        50_000, ge=1, description="Size of a conversation, in tokens of 4 characters, from which a new session begins."
    )

    telegram_bot_token: SecretStr | None = Field(None, description="Bot token from @BotFather; hmem telegram needs it.")
    telegram_api_url: str = Field("https://api.telegram.org", description="URL of the Telegram Bot API server.")
    allowed_chats: str = Field("", description="Ids of the chats that the bot answers, comma-separated; empty: none.")
    owners: str = Field(
        "",
        description="User ids with an owner's rights in groups and /stats of all chats, comma-separated; empty: nobody.",
    )
    queue_limit: int = Field(
        100, ge=1, description="Number of queued tasks from which the bot accepts no more messages."
    )
    chat_queue_limit: int = Field(
        10, ge=1, description="Number of unanswered messages of one chat from which the bot accepts no more of it."
    )

    metrics_listen: str = Field(
        "", description="Address and port of the Prometheus endpoint, like 127.0.0.1:9464; empty: no endpoint."
    )

    chat_timezone: str = Field("UTC", description="Time zone of dates in text, like Europe/Berlin.")
    remind_at: ClockTime = Field(
        "18:00", description="Time of day (HH:MM in CHAT_TIMEZONE) of reminders, on the day before a deadline."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Lowest level that is logged.")
    hmem_crash_at: str | None = Field(
        None, description="For tests only: the point at which the process kills itself; unset: none."
    )
    log_json: bool = Field(False, description="Whether log lines are JSON.")

    @field_validator("chat_timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        return known_zone(value)

    @field_validator("medium_url")
    @classmethod
    def _known_store(cls, value: str | None) -> str | None:
        scheme = (value or "").partition("://")[0].partition("+")[0].strip().lower()
        if scheme not in ("", "none", "sqlite", "postgresql", "postgres"):
            raise ValueError("write it like postgresql://user:password@host/database, or none")
        return value

    @field_validator("result_hmac_key", "telegram_bot_token", "qdrant_api_key", mode="before")
    @classmethod
    def _blank_is_none(cls, value: Any) -> Any:
        return None if isinstance(value, str) and not value.strip() else value

    @field_validator("redis_url", "redis_admin_url", "redis_stack_url")
    @classmethod
    def _readable_url(cls, value: str | None) -> str | None:
        from redis.connection import parse_url

        try:
            if value is None:
                return None
            parse_url(value)  # type: ignore[no-untyped-call]
        except ValueError as error:
            raise ValueError("write it like redis://127.0.0.1:6379/0") from error
        return value

    @field_validator("allowed_chats", "owners", mode="before")
    @classmethod
    def _ids_as_text(cls, value: Any) -> Any:
        """In the file also a number, or a list."""
        several = value if isinstance(value, list) else [value]
        return ",".join(str(one) for one in several) if not any(isinstance(one, bool) for one in several) else value

    @field_validator("allowed_chats")
    @classmethod
    def _chat_ids(cls, value: str) -> str:
        wrong = [
            one.strip() for one in value.split(",") if one.strip() and not re.fullmatch(r"-?[0-9]{1,19}", one.strip())
        ]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no chat id; write numbers with commas, such as 9912,-1001234")
        return value

    @field_validator("owners")
    @classmethod
    def _user_ids(cls, value: str) -> str:
        for one in filter(None, map(str.strip, value.split(","))):
            if not is_person(one):
                raise ValueError(f"{one!r} is no person's number; write user ids with commas, such as 9912,31337")
        return value

    @field_validator("metrics_listen")
    @classmethod
    def _listens(cls, value: str) -> str:
        if value.strip():
            listen_address(value)
        return value.strip()

    @field_validator("ollama_url", "telegram_api_url", "qdrant_url")
    @classmethod
    def _http_url(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)  # a wrong port raises here or in the next line
        if parts.scheme not in ("http", "https") or not parts.hostname or (parts.port or 1) < 1:
            raise ValueError(
                f"write it like {cls.model_fields[str(info.field_name)].default or 'http://127.0.0.1:6333'}"
            )
        return value

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
        return target if target and names_a_host(target) else None

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

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the library's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, CredentialsSource(settings_cls), FileSource(settings_cls)


def setting_names() -> list[str]:
    """The names as they stand in the environment."""
    return [name.upper() for name in Settings.model_fields]


def load_settings(**overrides: Any) -> Settings:
    """Read environment and file once; a wrong value is one sentence naming the setting, never a secret's text."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc'])).upper()}: {e['msg'].removeprefix('Value error, ')}" for e in error.errors()
        )
        raise SettingsError(
            f"A setting is wrong. {problems}. Change it in the environment, the credentials or the settings file."
        ) from error
