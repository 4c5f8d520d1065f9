"""Settings of the night: when it runs, which model writes, where its releases go, what it keeps, and how long it may take."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, Field

from shared.config.feature_settings import NIGHT, Touched
from shared.config.values import BlankIsUnset, CronExpression, accepted_by

#: What a writer may be asked for.
Work = Literal["facts", "sessions", "summaries", "notes"]
WORKS: tuple[Work, ...] = ("facts", "sessions", "summaries", "notes")


class Writer(NamedTuple):
    """A chat model of an Ollama server, or of the Claude CLI ("": its default)."""

    kind: str
    model: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.model}" if self.model else self.kind


def known_writer(value: str) -> None:
    """ValueError unless it names a model that can write."""
    kind, _, model = value.partition(":")
    if kind not in ("ollama", "claude") or (kind == "ollama" and not model) or any(map(str.isspace, value)):
        raise ValueError("write it like ollama:llama3.1, claude:haiku or claude")


def known_works(value: str) -> None:
    """ValueError for a work that this version does not know."""
    if unknown := sorted({*filter(None, value.replace(" ", "").split(","))} - {*WORKS}):
        raise ValueError(f"{', '.join(unknown)} is unknown; this version knows {', '.join(WORKS)}")


class NightSettings(BaseModel):
    """A part of `Settings`."""

    night_cron: Annotated[CronExpression, Touched(NIGHT)] = "0 3 * * *"
    """when hmem-night schedule runs a night (cron, in CHAT_TIMEZONE)"""

    publish_target: str | None = None
    """where releases go: a directory, or [user@]host:path (docs/two-hosts.md); unset: HMEM_MEMORY_DIR"""

    publish_ssh: str = "ssh -o BatchMode=yes -o ControlPath=none -o ConnectTimeout=15 -o ServerAliveInterval=15"
    """the ssh command for rsync"""

    release_command: str | None = None
    """the ssh command for everything else on the day host"""

    publish_wait: Annotated[float, Field(ge=0)] = 60.0
    """seconds that dispatchers have to load a new release, before the switch is undone"""

    restart_command: str | None = None
    """command to run after the night; the dispatcher needs none"""

    archive_mirror: Annotated[str | None, Touched(NIGHT, by_hand=True)] = None
    """second copy of the archive, verified before anything is deleted: a path, or [user@]host:path"""

    step_timeout: Annotated[float, Field(gt=0, le=604_800), Touched(NIGHT)] = 14_400.0
    """time limit of one step of the night, in seconds"""

    releases_kept: Annotated[int, Field(ge=2), Touched(NIGHT)] = 5
    """newest releases to keep, beside those in use"""

    writer: Annotated[BlankIsUnset[Annotated[str, accepted_by(known_writer)]], Touched(NIGHT, by_hand=True)] = None
    """the model that writes by night, such as ollama:llama3.1 or claude:haiku (docs/models.md); unset: none"""

    writes: Annotated[str, accepted_by(known_works), Touched(NIGHT)] = "facts"
    """what it writes, with commas: facts, sessions, summaries, notes"""

    dream: Annotated[Literal["apply", "propose"], Touched(NIGHT)] = "apply"
    """its changes of facts: apply them (each can be undone), or propose them"""

    writer_minutes: Annotated[float, Field(gt=0), Touched(NIGHT, by_hand=True)] = 60.0
    """minutes that each step of a night may ask it; the next night goes on"""

    def writer_of(self, work: Work) -> Writer | None:
        """Who writes this, if a model does."""
        if self.writer is None or work not in self.writes.replace(" ", "").split(","):
            return None
        kind, _, model = self.writer.partition(":")
        return Writer(kind, model)
