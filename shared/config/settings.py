"""All settings, read once: from the environment, or under the same names from TOML (the credentials, then the settings file).

No other code reads them. sources.py finds the settings file, credentials.py reads the secrets; the environment takes precedence over both. The
result is one frozen object that is passed down. Secrets are masked in every representation.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, cast
from zoneinfo import ZoneInfo

from pydantic import (
    BaseModel,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo

from shared.config import sources, tools
from shared.config.feature_settings import (
    BOT,
    CONFIG,
    FILES,
    NIGHT,
    RECALL,
    SESSIONS,
    FeatureSettings,
    Part,
    Touched,
    feature_settings,
)
from shared.config.kinds import EmbedderKind, embedders, indexes, memory_backends
from shared.config.night_settings import NightSettings
from shared.config.tools import ChatTools
from shared.config.values import (
    AbsolutePath,
    BlankIsUnset,
    ChatIds,
    DatabaseUrl,
    HttpUrl,
    RedisUrl,
    TimeZone,
    UserIds,
    accepted_by,
    names_a_host,
)
from shared.errors import SettingsError, plain_words


class Settings(NightSettings):
    """One field a setting; the name in capitals is the one in the environment and in the file."""

    model_config = CONFIG
    _parts: dict[type[FeatureSettings], FeatureSettings] = PrivateAttr(default_factory=dict)

    stream: Annotated[bool, Touched(BOT)] = Field(
        True,
        description="show answers while they are written; false: only when complete",
    )
    media_bytes: Annotated[int, Touched(FILES)] = Field(
        20_000_000,
        ge=1_000,
        le=256_000_000,
        description="largest file that the bot fetches, in bytes; Telegram's own server allows 20 MB",
    )

    claude_allowed_tools: Annotated[str | None, Touched(FILES, by_hand=True)] = Field(
        None,
        description="tools that Claude may use without asking, as for --allowedTools; unset: none. Read is always denied",
    )
    chat_tools: Annotated[str, accepted_by(tools.chat_tools), Touched(FILES, by_hand=True)] = Field(
        "",
        description="the same for single chats: 9912=WebFetch,Bash(git *); -1001234= (that chat: none)",
    )
    approve_tools: Annotated[str, accepted_by(tools.approved_tools), Touched(FILES, by_hand=True)] = Field(
        "",
        description="tools that ask in the chat before each use, such as Bash,WebFetch",
    )

    redis_url: RedisUrl = Field("redis://127.0.0.1:6379/0", description="the Redis that both hosts share", repr=False)
    redis_admin_url: RedisUrl | None = Field(
        None,
        description="the same Redis with its administrator's login, for hmem forget",
        repr=False,
    )
    result_hmac_key: BlankIsUnset[SecretStr] = Field(
        None,
        description="key that signs answers, the same for bot and dispatcher; at least 16 characters",
    )

    hmem_memory_dir: AbsolutePath = Field(Path("/data/memory"), description="the releases; only the night writes here")
    hmem_state_dir: AbsolutePath = Field(
        Path("/var/lib/hmem"),
        description="the dispatcher's files, and the day store",
    )
    hmem_night_dir: AbsolutePath = Field(
        Path("/var/lib/hmem-night"), description="archive, nights and cache of the night host"
    )

    owner_key_file: AbsolutePath | None = Field(
        None, description="your private key, for hmem forget; unset: ~/.config/hmem/owner.key"
    )
    owner_public_key: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{64}$",
        description="its public key, for the night (from: hmem owner-key); unset: owner.pub in HMEM_NIGHT_DIR",
    )

    memory_backend: Annotated[str, Touched(RECALL)] = Field(
        "auto",
        description="vector search: the name of an index, auto (the first of the release), none (keywords only) or summary (no search)",
    )
    index_name: str = Field(
        "hmem",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,40}$",
        description="prefix of the indexes on a server, different for each installation there",
    )
    memory_summary: Annotated[bool, Touched(RECALL)] = Field(
        True,
        description="inject the chat's summary",
    )
    memory_tokens: Annotated[int, Touched(RECALL)] = Field(
        1500,
        ge=0,
        le=200_000,
        description="most tokens (of 4 characters) of injected memory; 0: none",
    )
    memory_deadline_ms: Annotated[int, Touched(RECALL)] = Field(
        300,
        ge=1,
        description="time limit of the vector search, in milliseconds",
    )

    embedder: str = Field(
        "local",
        description="what turns text into vectors: local, fastembed, ollama or none",
    )
    embed_model: str | None = Field(
        None,
        description="its model (docs/models.md); unset: multilingual-e5-small (local), all-minilm (others)",
    )
    night_indexes: Annotated[str, Touched(NIGHT, by_hand=True)] = Field(
        "sqlite",
        description="vector indexes to build, with commas: sqlite, chroma, lancedb, qdrant, redis, or none",
    )
    claude_bin: str = Field("claude", description="the Claude CLI")
    claude_mcp_config: AbsolutePath | None = Field(
        None,
        description="MCP servers for Claude, as for --mcp-config; no others are started",
    )
    claude_base_prompt_file: AbsolutePath | None = Field(
        None,
        description="rules for Claude, instead of dispatcher/prompt/base.md",
    )
    claude_env: str = Field("", description="more environment variables that the CLI may see, with commas")

    session_mode: Annotated[Literal["resume", "replay"], Touched(SESSIONS)] = Field(
        "resume",
        description="resume: continue the Claude session; replay: start a new one each time, with recent turns as text",
    )
    recall_placement: Annotated[Literal["system", "message"], Touched(RECALL)] = Field(
        "system",
        description="where recalled lines go: into the system prompt, or before the message (keeps the prompt cache, sends more)",
    )
    session_ttl: Annotated[int, Touched(SESSIONS)] = Field(
        14_400, ge=1, le=31_536_000, description="seconds that a Claude session lives after its last answer"
    )
    task_timeout: Annotated[float, Touched(BOT)] = Field(
        600.0,
        gt=0,
        description="time limit of one answer, in seconds; with h-cli's bot: 280",
    )
    max_concurrent_tasks: Annotated[int, Touched(BOT)] = Field(
        3, ge=1, le=64, description="answers written at the same time; in one chat always one"
    )

    day_store_url: DatabaseUrl = Field(
        None,
        description="the day store: postgresql://user:password@host/database, or none; unset: SQLite",
        repr=False,
    )
    consolidation_interval: float = Field(30.0, gt=0, description="seconds between rounds of consolidation")
    session_tokens: Annotated[int, Touched(SESSIONS)] = Field(
        50_000,
        ge=1,
        description="tokens (of 4 characters) after which a conversation is summarised and a new session begins",
    )

    telegram_bot_token: Annotated[BlankIsUnset[SecretStr], Touched(BOT, by_hand=True)] = Field(
        None, description="the token from @BotFather"
    )
    telegram_api_url: HttpUrl = Field("https://api.telegram.org", description="the Bot API server")
    allowed_chats: Annotated[ChatIds, Touched(BOT, by_hand=True)] = Field(
        "", description="ids of the chats that the bot answers, with commas (groups are negative)"
    )
    owners: Annotated[UserIds, Touched(BOT, by_hand=True)] = Field(
        "",
        description="ids of the users with an owner's rights, with commas; the same for bot and dispatcher",
    )

    chat_timezone: Annotated[TimeZone, Touched(BOT)] = Field(
        "UTC", description="time zone of all times that users see or write"
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Touched(BOT)] = Field(
        "info", description="lowest level that is logged"
    )
    log_json: Annotated[bool, Touched(BOT)] = Field(False, description="log lines as JSON")

    def of(self, part: type[Part]) -> Part:
        """The settings of a feature."""
        return cast(Part, self._parts[part]) if part in self._parts else part()

    def changed(self, **values: Any) -> Settings:
        """A copy with other values, of features' settings, too; they are not checked again."""
        copy = self.model_copy(update={name: value for name, value in values.items() if name in Settings.model_fields})
        copy._parts = {  # a dictionary of its own: model_copy shares that of the original
            part: self.of(part).model_copy(
                update={name: one for name, one in values.items() if name in part.model_fields}
            )
            for part in feature_settings()
        }
        return copy

    def every(self) -> Iterator[tuple[str, FieldInfo, Any]]:
        """Field name, field and value of each setting."""
        for model in (self, *(self.of(part) for part in feature_settings())):
            for name, field in type(model).model_fields.items():
                yield name, field, getattr(model, name)

    def tools_of(self, chat_id: str) -> ChatTools:
        """What Claude may use in this chat, and what it asks for."""
        own = tools.chat_tools(self.chat_tools).get(chat_id)
        return tools.tools_of((self.claude_allowed_tools or "") if own is None else own, self.approve_tools)

    def own_tools_of(self, chat_id: str) -> ChatTools:
        """Only what CHAT_TOOLS names for this chat."""
        return ChatTools(tools.chat_tools(self.chat_tools).get(chat_id, ""))

    @property
    def has_day_store(self) -> bool:
        """Whether the day stores turns and memories: always, unless DAY_STORE_URL is none."""
        return (self.day_store_url or "").strip().lower() != "none"

    @property
    def timezone(self) -> ZoneInfo:
        return ZoneInfo(self.chat_timezone)

    @property
    def without_vectors(self) -> str | None:
        """The setting that switches vector search off; then its absence is intended, and is not reported."""
        chosen = self.memory_backend in ("none", "summary")
        return f"MEMORY_BACKEND={self.memory_backend}" if chosen else None

    @property
    def model_name(self) -> str:
        """EMBED_MODEL, or the default of this EMBEDDER."""
        known = embedders().get(self.embedder)
        return self.embed_model or (known.model if known else EmbedderKind.model)

    @property
    def allowed(self) -> frozenset[str]:
        """Chats that the bot answers."""
        return frozenset(str(int(one)) for one in self.allowed_chats.split(",") if one.strip())

    @property
    def owner_ids(self) -> frozenset[str]:
        """User ids with an owner's rights, spelled as in a task's user_id."""
        return frozenset(filter(None, map(str.strip, self.owners.split(","))))

    @property
    def remote_target(self) -> str | None:
        """`[user@]host:path` if releases go to another host."""
        target = self.publish_target
        return target if target and names_a_host(target) else None

    @property
    def target_dir(self) -> Path:
        """Directory of `current` and `releases/`, if it is on this host."""
        return Path(self.publish_target) if self.publish_target and not self.remote_target else self.hmem_memory_dir

    @property
    def indexes(self) -> tuple[str, ...]:
        """Vector indexes that the night builds, the preferred one first, whatever their order in the setting."""
        named = self.night_indexes.replace(" ", "").split(",")
        return tuple(name for name in indexes() if name in named)

    @field_validator("night_indexes", "memory_backend", "embedder")
    @classmethod
    def _known_names(cls, value: str, info: ValidationInfo) -> str:
        field = str(info.field_name)
        of_field = {
            "night_indexes": indexes(),
            "memory_backend": memory_backends(),
            "embedder": embedders(),
        }
        known = [*of_field[field], "none"]
        named = filter(None, value.replace(" ", "").split(",")) if field == "night_indexes" else [value]
        if unknown := sorted({*named} - {*known}):
            raise ValueError(f"{', '.join(unknown) or 'nothing'} is unknown; this version knows {', '.join(known)}")
        return value


def _models() -> list[type[BaseModel]]:
    return [Settings, *feature_settings()]


def setting_fields() -> dict[str, FieldInfo]:
    """Field name → field of each setting: those of the core, then those of each feature."""
    return {name: field for model in _models() for name, field in model.model_fields.items()}


def setting_names() -> list[str]:
    """The names as in the environment."""
    return [name.upper() for name in setting_fields()]


def load_settings(**overrides: Any) -> Settings:
    """Read environment and files once; SettingsError names the invalid setting and never quotes a secret."""
    return settings_from(sources.given_values(setting_names(), sources.settings_file()) | overrides)


def problems_of(given: dict[str, Any]) -> str:
    """What is wrong with these values, by the settings' own sentences; "" if nothing is."""
    return _checked(given)[1]


def _checked(given: dict[str, Any]) -> tuple[list[BaseModel], str]:
    made, errors = list[BaseModel](), list[Any]()
    for model in _models():
        try:
            made.append(model.model_validate(given))
        except ValidationError as error:
            errors += error.errors()
    said = (f"{'.'.join(map(str, e['loc'])).upper()}: {plain_words(e['msg'])}" for e in errors)
    return made, "; ".join(said)


def settings_from(given: dict[str, Any]) -> Settings:
    """Settings of these values (field → value). SettingsError as load_settings."""
    made, problems = _checked(given)
    if problems:
        raise SettingsError(
            f"A setting is invalid. {problems}. Change it in the environment, the credentials or the settings file."
        )
    settings, *parts = made
    settings._parts.update({type(part): part for part in parts})  # type: ignore[attr-defined]
    return cast(Settings, settings)
