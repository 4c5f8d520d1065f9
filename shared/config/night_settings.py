"""Settings of the night: when it runs, which model writes, where its releases go, what it keeps, and how long it may take."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import BaseModel, Field, field_validator

from shared.config.values import BlankIsUnset, NightWorkers

#: What a writer may be asked for.
Work = Literal["facts", "sessions", "summaries", "notes"]
WORKS: tuple[Work, ...] = ("facts", "sessions", "summaries", "notes")


class Writer(NamedTuple):
    """A chat model of an Ollama server, or of the Claude CLI ("": its default)."""

    kind: str
    model: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.model}" if self.model else self.kind


def named(writer: Writer | None) -> str | None:
    """By which a release says who wrote its texts."""
    return None if writer is None else str(writer)


class NightSettings(BaseModel):
    """A part of `Settings`."""

    night_cron: str = Field(
        "0 3 * * *", description="when hmem-night schedule runs a night (cron expression, in CHAT_TIMEZONE)"
    )
    night_workers: NightWorkers = Field(
        "auto",
        description="who cuts and indexes many texts: auto (a process a core), a number of processes, or a Dask scheduler (docs/workers.md)",
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
        description="the ssh command for the verbs begin, verify, switch, rollback, prune; needed for another host",
    )
    publish_wait: float = Field(
        60.0,
        ge=0,
        description="seconds that running dispatchers have to load a new release; after that the switch is undone",
    )
    restart_command: str | None = Field(
        None,
        description="command to run after the night; not needed, since the dispatcher notices a new release by itself",
    )
    archive_mirror: str | None = Field(
        None,
        description="second copy of the archive, verified before anything is deleted: a path, or [user@]host:path for rsync over PUBLISH_SSH",
    )
    step_timeout: float = Field(
        14_400.0,
        gt=0,
        description="time limit of one step of the night, in seconds; a step that takes longer ends the night with exit code 25",
    )
    releases_kept: int = Field(
        5,
        ge=2,
        description="number of newest releases to keep; the current one, its parent, a pinned one and those in use are always kept",
    )
    writer: BlankIsUnset[str] = Field(
        None,
        description="the model that writes by night, such as ollama:llama3.1, or claude:haiku by the login of the day; unset: none",
    )
    writes: str = Field(
        "facts",
        description="what WRITER writes, with commas: facts (puts them in order), sessions, summaries, notes (by which turns are found, too)",
    )
    dream: Literal["apply", "propose"] = Field(
        "apply",
        description="what becomes of WRITER's changes of facts: apply (each can be undone), or propose (nothing changes before you say yes)",
    )
    writer_minutes: float = Field(
        60.0, gt=0, description="minutes for which each step of a night asks WRITER; the next night asks for the rest"
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
