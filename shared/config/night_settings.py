"""Settings of the night: when it runs, where its releases go, what it keeps, and how long it may take."""

from __future__ import annotations

from pydantic import BaseModel, Field

from shared.config.values import NightWorkers


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
