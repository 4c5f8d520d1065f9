"""All settings, read once: from the environment, or under the same names from TOML: the credentials, then the settings file. Nothing else reads them.

The file is the one `HMEM_CONFIG` names, or `/etc/hmem/hmem.toml` when that exists; what has secrets in it is read by credentials.py. The
environment wins over both. Loading ends in one frozen object that is passed down. Secrets are masked in every representation.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, ValidationInfo, field_validator

from shared.config import sources
from shared.config.clock_time import ClockTime
from shared.config.listening import listen_address
from shared.errors import SettingsError

DEFAULT_CONFIG = Path("/etc/hmem/hmem.toml")

#: Vector indexes that this version knows, the preferred one first.
INDEXES = ("sqlite", "chroma", "lancedb", "qdrant", "redis")


#: Accounts of Telegram's under which many people write: an anonymous administrator, a channel, Telegram's own notices.
SHARED_ACCOUNTS = frozenset({"1087968824", "136817688", "777000"})


def known_zone(value: str) -> str:
    """The name of a time zone as it was given; ValueError if this host knows none of that name."""
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{value!r} is no time zone; write one like Europe/Berlin") from error
    return value


class Settings(BaseModel):
    """One field a setting; the name in capitals is the one in the environment and in the file."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", hide_input_in_errors=True, validate_default=True, defer_build=True
    )

    redis_url: str = Field("redis://127.0.0.1:6379/0", description="Redis of both hosts", repr=False)
    redis_admin_url: str | None = Field(
        None, description="the same Redis as its administrator, for hmem forget alone", repr=False
    )
    result_hmac_key: SecretStr | None = Field(None, description="signs results; shared with the bot")

    hmem_memory_dir: Path = Field(Path("/data/memory"), description="releases; read-only for the dispatcher")
    hmem_state_dir: Path = Field(Path("/var/lib/hmem"), description="the dispatcher's own writable files")
    hmem_night_dir: Path = Field(Path("/var/lib/hmem-night"), description="archive, nights and cache of the night host")

    owner_key_file: Path | None = Field(
        None,
        description="the owner's private key, which hmem forget signs with; ~/.config/hmem/owner.key if unset",
    )
    owner_public_key: str | None = Field(
        None, pattern=r"^[0-9a-f]{64}$", description="the other half, which the night goes by; hmem owner-key prints it"
    )

    memory_backend: Literal["auto", "none", "summary", "sqlite", "chroma", "lancedb", "qdrant", "redis"] = Field(
        "auto",
        description="lookups by day; auto: by words, and by what vectors the release has; none: by words; summary: no lookup",
    )
    qdrant_url: str | None = Field(None, description="the Qdrant server", repr=False)
    qdrant_api_key: SecretStr | None = Field(None, description="its key, if it wants one")
    redis_stack_url: str | None = Field(
        None, description="Redis with the search module (Redis 8, Redis Stack); REDIS_URL if unset", repr=False
    )
    index_name: str = Field(
        "hmem",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,40}$",
        description="what our indexes on a server begin with, and the alias of the one in use; one for each installation",
    )
    memory_summary: bool = Field(True, description="inject the chat's summary file if there is one")
    memory_tokens: int = Field(
        1500, ge=0, le=200_000, description="budget of injected memory, in tokens of 4 characters"
    )
    memory_deadline_ms: int = Field(300, ge=1, description="time limit of the lookup, in milliseconds")

    embedder: Literal["local", "fastembed", "ollama", "none"] = Field(
        "local", description="what turns text into vectors"
    )
    embed_model: str = Field(
        "all-minilm", description="one of the known models, by its name in Ollama or, with fastembed, by either name"
    )
    fastembed_cache_path: Path | None = Field(
        None, description="where fastembed's models lie; ~/.cache/fastembed if unset"
    )
    ollama_url: str = Field("http://127.0.0.1:11434", description="the Ollama server")
    ollama_timeout: float = Field(120.0, gt=0, description="limit of one request to Ollama, in seconds")
    summary_model: str | None = Field(None, description="Ollama chat model that writes summaries; none: extractive")

    night_indexes: str = Field(
        "sqlite",
        description="what the night builds beside the keyword index: of sqlite, chroma, lancedb, qdrant, redis one or more (with commas), or none",
    )
    night_cron: str = Field("0 3 * * *", description="when `hmem-night schedule` runs, as a cron expression")
    publish_target: str | None = Field(
        None, description="where releases go: a path, or [user@]host:path; HMEM_MEMORY_DIR if unset"
    )
    publish_ssh: str = Field(
        "ssh -o BatchMode=yes -o ControlPath=none -o ConnectTimeout=15 -o ServerAliveInterval=15",
        description="the ssh that rsync uses",
    )
    release_command: str | None = Field(
        None, description="the ssh command whose forced verbs are begin, verify, switch, rollback"
    )
    publish_wait: float = Field(60.0, ge=0, description="seconds a running dispatcher has to take up a new release")
    restart_command: str | None = Field(None, description="run after the flush; none: the dispatcher notices by itself")
    restart_timeout: float = Field(120.0, gt=0, description="limit of the restart command, in seconds")
    archive_mirror: str | None = Field(
        None, description="second place of the archive: a path, or [user@]host:path for rsync over PUBLISH_SSH"
    )
    step_timeout: float = Field(14_400.0, gt=0, description="limit of one step of the night, in seconds")
    releases_kept: int = Field(5, ge=2, description="releases that stay on the day host for rollback")

    claude_bin: str = Field("claude", description="the Claude CLI")
    claude_mcp_config: Path | None = Field(None, description="passed on as --mcp-config")
    claude_allowed_tools: str | None = Field(
        None, description="passed on as --allowedTools; none: no built-in tools at all"
    )
    claude_base_prompt_file: Path | None = Field(
        None, description="rules ahead of the memory, in place of ours (an empty file: none)"
    )
    claude_env: str = Field("", description="further environment variables that the CLI may see, comma-separated")

    memory_mcp: bool = Field(False, description="Claude gets this chat's memory as MCP tools")
    memory_mcp_add: bool = Field(False, description="among them memory_add, which writes")

    session_mode: Literal["resume", "replay"] = Field(
        "resume", description="continue the Claude session, or start afresh each time with the recent turns as text"
    )
    recall_placement: Literal["system", "message"] = Field(
        "system", description="where recalled lines go: into the system prompt, or ahead of the message"
    )
    session_ttl: int = Field(14_400, ge=1, description="life of a Claude session between two messages, in seconds")
    task_timeout: float = Field(600.0, gt=0, description="limit of one answer, in seconds")
    stop_timeout: float = Field(
        600.0, ge=0, description="seconds that running tasks get after a stop, before they go back to the queue"
    )
    task_bytes: int = Field(
        262_144,
        ge=1_024,
        le=16_777_216,
        description="bytes of the largest task (a message with all about it) that is taken",
    )
    max_concurrent_tasks: int = Field(3, ge=1, le=64, description="answers in the making at once")

    medium_url: str | None = Field(
        None,
        description="SQL store of the day, as an SQLAlchemy URL; unset: SQLite in HMEM_STATE_DIR; none: no memory by day",
        repr=False,
    )
    medium_days: float = Field(
        7.0, gt=0, description="days for which turns stay in the medium store, and until they are in a release"
    )
    dreamer_interval: float = Field(30.0, gt=0, description="seconds between two rounds of consolidation")
    session_summaries: Literal["extractive", "ollama", "claude"] = Field(
        "extractive", description="who sums up a session that has grown too long; ollama takes SUMMARY_MODEL"
    )
    session_tokens: int = Field(
        50_000, ge=1, description="size of a conversation, in tokens of 4 characters, from which a new session begins"
    )

    telegram_bot_token: SecretStr | None = Field(None, description="of @BotFather; hmem telegram needs it")
    telegram_api_url: str = Field("https://api.telegram.org", description="the Bot API server")
    allowed_chats: str = Field("", description="chat ids that the bot answers, comma-separated; empty: nobody")
    owners: str = Field(
        "",
        description="user ids with an owner's rights in groups and /stats of all chats, comma-separated; empty: nobody",
    )
    queue_limit: int = Field(100, ge=1, description="queued tasks from which the bot takes no more")
    chat_queue_limit: int = Field(
        10, ge=1, description="unanswered messages of one chat from which the bot takes no more"
    )

    metrics_listen: str = Field("", description="address and port of the Prometheus endpoint; empty: none")

    chat_timezone: str = Field("UTC", description="time zone of dates in text")
    remind_at: ClockTime = Field("18:00", description="time of day of reminders, the day before a deadline")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least level that is logged")
    hmem_crash_at: str | None = Field(None, description="for tests: the point at which the process kills itself")
    log_json: bool = Field(False, description="log lines as JSON")

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
        try:
            if value is not None:
                _check_redis_url(value)
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


def settings_file() -> Path | None:
    """The file that settings are read from, if there is one."""
    return sources.named_file() or (DEFAULT_CONFIG if DEFAULT_CONFIG.exists() else None)


def is_person(user: str) -> bool:
    """Whether a user id is that of one person: a number above zero, and none of Telegram's shared accounts."""
    return bool(re.fullmatch(r"[1-9][0-9]{0,18}", user)) and user not in SHARED_ACCOUNTS


def secrets_in_file(settings: Settings) -> list[str]:
    """Which of them the settings file holds."""
    path = settings_file()
    there = tomllib.loads(path.read_text(encoding="utf-8")) if path else {}
    return [name for name in sources.secrets_of(settings) if name in there]


def _check_redis_url(url: str) -> None:
    """ValueError for what redis-py would refuse. The library itself is loaded only for a URL with options: it takes long."""
    parts = urlsplit(url)
    if not url.startswith(("redis://", "rediss://", "unix://")) or parts.port == 0:
        raise ValueError(url)
    if parts.query:
        from redis.connection import parse_url

        parse_url(url)  # type: ignore[no-untyped-call]


def names_a_host(place: str) -> bool:
    """Whether a place is `[user@]host:path`, as rsync reads it: a colon before the first slash."""
    return ":" in place.split("/")[0]


def setting_names() -> list[str]:
    """The names as they stand in the environment."""
    return [name.upper() for name in Settings.model_fields]


def load_settings(**overrides: Any) -> Settings:
    """Read environment and file once; a wrong value is one sentence naming the setting, never a secret's text."""
    given = sources.given_values(setting_names(), settings_file())
    try:
        return Settings.model_validate(given | overrides)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc'])).upper()}: {e['msg'].removeprefix('Value error, ')}" for e in error.errors()
        )
        raise SettingsError(
            f"A setting is wrong. {problems}. Change it in the environment, the credentials or the settings file."
        ) from error
