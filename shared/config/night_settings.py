"""Settings of the night: when it runs, which model writes, where its releases go, what it keeps, and how long it may take."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, Field, field_validator

from shared.config.feature_settings import NIGHT, Touched
from shared.config.values import BlankIsUnset, CronExpression

#: What a writer may be asked for.
Work = Literal["facts", "sessions", "summaries", "notes"]
WORKS: tuple[Work, ...] = ("facts", "sessions", "summaries", "notes")


class Writer(NamedTuple):
    """A chat model of an Ollama server, or of the Claude CLI ("": its default)."""

    kind: str
    model: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.model}" if self.model else self.kind


class NightSettings(BaseModel):
    """A part of `Settings`."""

    night_cron: Annotated[CronExpression, Touched(NIGHT)] = Field(
        "0 3 * * *", description="when hmem-night schedule runs a night (cron, in CHAT_TIMEZONE)"
    )
    publish_target: str | None = Field(
        None,
        description="where releases go: a directory, or [user@]host:path (docs/two-hosts.md); unset: HMEM_MEMORY_DIR",
    )
    publish_ssh: str = Field(
        "ssh -o BatchMode=yes -o ControlPath=none -o ConnectTimeout=15 -o ServerAliveInterval=15",
        description="the ssh command for rsync",
    )
    release_command: str | None = Field(
        None,
        description="the ssh command for everything else on the day host",
    )
    publish_wait: float = Field(
        60.0,
        ge=0,
        description="seconds that dispatchers have to load a new release, before the switch is undone",
    )
    restart_command: str | None = Field(
        None,
        description="command to run after the night; the dispatcher needs none",
    )
    archive_mirror: Annotated[str | None, Touched(NIGHT, by_hand=True)] = Field(
        None,
        description="second copy of the archive, verified before anything is deleted: a path, or [user@]host:path",
    )
    step_timeout: Annotated[float, Touched(NIGHT)] = Field(
        14_400.0,
        gt=0,
        le=604_800,
        description="time limit of one step of the night, in seconds",
    )
    releases_kept: Annotated[int, Touched(NIGHT)] = Field(
        5,
        ge=2,
        description="newest releases to keep, beside those in use",
    )
    writer: Annotated[BlankIsUnset[str], Touched(NIGHT, by_hand=True)] = Field(
        None,
        description="the model that writes by night, such as ollama:llama3.1 or claude:haiku (docs/models.md); unset: none",
    )
    writes: Annotated[str, Touched(NIGHT)] = Field(
        "facts",
        description="what it writes, with commas: facts, sessions, summaries, notes",
    )
    dream: Annotated[Literal["apply", "propose"], Touched(NIGHT)] = Field(
        "apply",
        description="its changes of facts: apply them (each can be undone), or propose them",
    )
    writer_minutes: Annotated[float, Touched(NIGHT, by_hand=True)] = Field(
        60.0, gt=0, description="minutes that each step of a night may ask it; the next night goes on"
    )

    @field_validator("writer")
    @classmethod
    def _known_writer(cls, value: str | None) -> str | None:
        kind, _, model = (value or "claude").partition(":")
        if kind not in ("ollama", "claude") or (kind == "ollama" and not model) or any(map(str.isspace, value or "")):
            raise ValueError("write it like ollama:llama3.1, claude:haiku or claude")
        return value

    @field_validator("writes")
    @classmethod
    def _known_works(cls, value: str) -> str:
        if unknown := sorted({*filter(None, value.replace(" ", "").split(","))} - {*WORKS}):
            raise ValueError(f"{', '.join(unknown)} is unknown; this version knows {', '.join(WORKS)}")
        return value

    def writer_of(self, work: Work) -> Writer | None:
        """Who writes this, if a model does."""
        if self.writer is None or work not in self.writes.replace(" ", "").split(","):
            return None
        kind, _, model = self.writer.partition(":")
        return Writer(kind, model)
