"""Settings of the second copy by day: the journal, and the replicas of Redis (docs/second-copy.md)."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field, field_validator

from shared.config.values import names_a_host


class CopySettings(BaseModel):
    """A part of `Settings`."""

    journal: str = Field(
        "",
        description="second copy of the day: a directory on another disk, or [user@]host:path by rsync (docs/second-copy.md); empty: none",
    )
    journal_seconds: float = Field(
        2.0,
        gt=0,
        le=3600,
        description="seconds between two looks of the journal at queue and conversations, and between two transfers to another host",
    )
    journal_ssh: str = Field(
        "ssh -o BatchMode=yes -o ControlPath=none -o ConnectTimeout=15 -o ServerAliveInterval=15",
        description="the ssh command that rsync uses for the journal",
    )
    redis_wait: int = Field(
        0,
        ge=0,
        le=10,
        description="replicas of Redis that shall confirm each answer (WAIT); a missing one is counted and logged, and delays no answer; 0: none",
    )
    redis_wait_ms: int = Field(1000, ge=1, le=60_000, description="how long REDIS_WAIT waits for them, in milliseconds")

    @field_validator("journal")
    @classmethod
    def _journal_place(cls, value: str) -> str:
        place = value.strip()
        if place and not names_a_host(place) and not Path(place).is_absolute():
            raise ValueError("write an absolute path, or [user@]host:path")
        return place

    @property
    def journal_host(self) -> str | None:
        """`[user@]host:path` if the journal goes to another host."""
        return self.journal if self.journal and names_a_host(self.journal) else None
