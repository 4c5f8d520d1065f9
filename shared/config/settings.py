"""All settings, read once: from the environment, or under the same names from TOML (the credentials, then the settings file).

No other code reads them. sources.py finds the settings file, credentials.py reads the secrets; the environment takes precedence over both. The
result is one frozen object that is passed down. Secrets are masked in every representation.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
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
    """One field a setting, and below it what it means; the name in capitals is the one in the environment and in the file."""

    model_config = CONFIG
    _parts: dict[type[FeatureSettings], FeatureSettings] = PrivateAttr(default_factory=dict)

    stream: Annotated[bool, Touched(BOT)] = True
    """show answers while they are written; false: only when complete"""

    media_bytes: Annotated[int, Field(ge=1_000, le=256_000_000), Touched(FILES)] = 20_000_000
    """largest file that the bot fetches, in bytes; Telegram's own server allows 20 MB"""

    claude_allowed_tools: Annotated[str | None, Touched(FILES, by_hand=True)] = None
    """tools that Claude may use without asking, as for --allowedTools; unset: none. Read is always denied"""

    chat_tools: Annotated[str, accepted_by(tools.chat_tools), Touched(FILES, by_hand=True)] = ""
    """the same for single chats: 9912=WebFetch,Bash(git *); -1001234= (that chat: none)"""

    approve_tools: Annotated[str, accepted_by(tools.approved_tools), Touched(FILES, by_hand=True)] = ""
    """tools that ask in the chat before each use, such as Bash,WebFetch"""

    redis_url: Annotated[RedisUrl, Field(repr=False)] = "redis://127.0.0.1:6379/0"
    """the Redis that both hosts share"""

    redis_admin_url: Annotated[RedisUrl | None, Field(repr=False)] = None
    """the same Redis with its administrator's login, for hmem forget"""

    result_hmac_key: BlankIsUnset[SecretStr] = None
    """key that signs answers, the same for bot and dispatcher; at least 16 characters"""

    hmem_memory_dir: AbsolutePath = Path("/data/memory")
    """the releases; only the night writes here"""

    hmem_state_dir: AbsolutePath = Path("/var/lib/hmem")
    """the dispatcher's files, and the day store"""

    hmem_night_dir: AbsolutePath = Path("/var/lib/hmem-night")
    """archive, nights and cache of the night host"""

    owner_key_file: AbsolutePath | None = None
    """your private key, for hmem forget; unset: ~/.config/hmem/owner.key"""

    owner_public_key: Annotated[str | None, Field(pattern=r"^[0-9a-f]{64}$")] = None
    """its public key, for the night (from: hmem owner-key); unset: owner.pub in HMEM_NIGHT_DIR"""

    memory_backend: Annotated[str, Touched(RECALL)] = "auto"
    """vector search: the name of an index, auto (the first of the release), none (keywords only) or summary (no search)"""

    index_name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,40}$")] = "hmem"
    """prefix of the indexes on a server, different for each installation there"""

    memory_summary: Annotated[bool, Touched(RECALL)] = True
    """inject the chat's summary"""

    memory_tokens: Annotated[int, Field(ge=0, le=200_000), Touched(RECALL)] = 1500
    """most tokens (of 4 characters) of injected memory; 0: none"""

    memory_deadline_ms: Annotated[int, Field(ge=1), Touched(RECALL)] = 300
    """time limit of the vector search, in milliseconds"""

    embedder: str = "local"
    """what turns text into vectors: local, fastembed, ollama or none"""

    embed_model: str | None = None
    """its model (docs/models.md); unset: multilingual-e5-small (local), all-minilm (others)"""

    night_indexes: Annotated[str, Touched(NIGHT, by_hand=True)] = "sqlite"
    """vector indexes to build, with commas: sqlite, chroma, lancedb, qdrant, redis, or none"""

    claude_bin: str = "claude"
    """the Claude CLI"""

    claude_mcp_config: AbsolutePath | None = None
    """MCP servers for Claude, as for --mcp-config; no others are started"""

    claude_base_prompt_file: AbsolutePath | None = None
    """rules for Claude, instead of dispatcher/prompt/base.md"""

    claude_env: str = ""
    """more environment variables that the CLI may see, with commas"""

    session_mode: Annotated[Literal["resume", "replay"], Touched(SESSIONS)] = "resume"
    """resume: continue the Claude session; replay: start a new one each time, with recent turns as text"""

    recall_placement: Annotated[Literal["system", "message"], Touched(RECALL)] = "system"
    """where recalled lines go: into the system prompt, or before the message (keeps the prompt cache, sends more)"""

    session_ttl: Annotated[int, Field(ge=1, le=31_536_000), Touched(SESSIONS)] = 14_400
    """seconds that a Claude session lives after its last answer"""

    task_timeout: Annotated[float, Field(gt=0), Touched(BOT)] = 600.0
    """time limit of one answer, in seconds; with h-cli's bot: 280"""

    max_concurrent_tasks: Annotated[int, Field(ge=1, le=64), Touched(BOT)] = 3
    """answers written at the same time; in one chat always one"""

    day_store_url: Annotated[DatabaseUrl, Field(repr=False)] = None
    """the day store: postgresql://user:password@host/database, or none; unset: SQLite"""

    consolidation_interval: Annotated[float, Field(gt=0)] = 30.0
    """seconds between rounds of consolidation"""

    session_tokens: Annotated[int, Field(ge=1), Touched(SESSIONS)] = 50_000
    """tokens (of 4 characters) after which a conversation is summarised and a new session begins"""

    telegram_bot_token: Annotated[BlankIsUnset[SecretStr], Touched(BOT, by_hand=True)] = None
    """the token from @BotFather"""

    telegram_api_url: HttpUrl = "https://api.telegram.org"
    """the Bot API server"""

    allowed_chats: Annotated[ChatIds, Touched(BOT, by_hand=True)] = ""
    """ids of the chats that the bot answers, with commas (groups are negative)"""

    owners: Annotated[UserIds, Touched(BOT, by_hand=True)] = ""
    """ids of the users with an owner's rights, with commas; the same for bot and dispatcher"""

    chat_timezone: Annotated[TimeZone, Touched(BOT)] = "UTC"
    """time zone of all times that users see or write"""

    log_level: Annotated[Literal["debug", "info", "warning", "error"], Touched(BOT)] = "info"
    """lowest level that is logged"""

    log_json: Annotated[bool, Touched(BOT)] = False
    """log lines as JSON"""

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


@cache
def setting_meanings() -> dict[str, str]:
    """Field name → the text below the field. Read from the source when it is asked for: pydantic would do so at every start."""
    found = dict[str, str]()
    for model in list[type[BaseModel]]((NightSettings, *_models())):
        for field_and_text in pairwise(ast.walk(ast.parse(inspect.getsource(model)))):
            match field_and_text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = text
    return found


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
