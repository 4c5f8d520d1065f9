"""Which second copy of the day this set-up has, and how far behind it is: for `hmem status`, the doctor, the metrics and the owner's page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis import RedisError

from shared.config.settings import Settings
from shared.wire import keys
from shared.wire.json import RecordRefused, loads_object

#: A report of a dispatcher that is older than this many looks, and than so many seconds, says nothing about now.
OLD_LOOKS, OLD_SECONDS = 5, 60.0


@dataclass(frozen=True)
class CopyReport:
    """`journal`: JOURNAL, "" for none. `entries` are not yet durable at the second place, the oldest for `seconds`; None if no dispatcher has said it
    lately. `aside`: copies of day stores that are kept and not used. `replicas`: connected ones, of `wanted`; None if Redis does not say."""

    journal: str = ""
    entries: int | None = None
    seconds: float | None = None
    error: str | None = None
    wanted: int = 0
    replicas: int | None = None
    aside: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """`none`, `journal`, `replicas` or `journal and replicas`."""
        return (
            " and ".join(filter(None, ("journal" if self.journal else "", "replicas" if self.wanted else ""))) or "none"
        )

    @property
    def sentence(self) -> str:
        parts = []
        if self.journal:
            parts.append(f"journal to {self.journal}: {self._behind}")
        if self.aside:
            parts.append(
                f"copies of a day store are kept there and not used ({', '.join(self.aside)}): look at them, then remove them"
            )
        if self.wanted:
            parts.append(f"replicas of Redis: {'unknown' if self.replicas is None else self.replicas} of {self.wanted}")
        return "; ".join(parts) or "none: until the next night a day's turns are only in Redis"

    @property
    def _behind(self) -> str:
        if self.error:
            return f"not kept ({self.error.rstrip('.')})"
        if self.entries is None:
            return "unknown, since no dispatcher reports it"
        return f"{self.entries} entries behind, {self.seconds or 0.0:.1f} s" if self.entries else "up to date"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **vars(self)}


def read_report(settings: Settings, client: Any, now: float) -> CopyReport:
    """RedisError if Redis does not answer."""
    found = _states(client.hgetall(keys.JOURNAL)) if settings.journal else []
    mine = [one for one in found if one.get("place") == settings.journal]
    state = max(mine, key=lambda one: float(one.get("at", 0.0)), default={})
    old = now - float(state.get("at", 0.0)) > max(OLD_SECONDS, OLD_LOOKS * settings.journal_seconds)
    entries, since = state.get("entries"), state.get("since")
    known = not old and isinstance(entries, int)
    return CopyReport(
        settings.journal,
        int(entries) if known and isinstance(entries, int) else None,
        (max(0.0, now - float(since)) if since is not None else 0.0) if known else None,
        state.get("error") if known else None,
        settings.redis_wait,
        _replicas(client) if settings.redis_wait else None,
        tuple(str(one) for one in state.get("aside") or ()),
    )


def _states(fields: dict[bytes, bytes]) -> list[dict[str, Any]]:
    found = []
    for name, raw in fields.items():
        if name.endswith(keys.journal_state("").encode()):
            try:
                found.append(loads_object(raw))
            except RecordRefused:
                continue
    return found


def _replicas(client: Any) -> int | None:
    try:
        return int(client.info("replication")["connected_slaves"])
    except (RedisError, KeyError, ValueError):
        return None
