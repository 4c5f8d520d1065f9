"""What surrounds each call of the Claude CLI: no process but its own, and of our directories only what belongs to this question (confine.py)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from dispatcher import confine
from shared.settings import Settings


class Walls:
    """`open_because` says why our directories cannot be hidden from the CLI, None if they are."""

    def __init__(self, settings: Settings, environment: Mapping[str, str], binary: str) -> None:
        ours = (settings.hmem_state_dir, settings.hmem_memory_dir, settings.hmem_night_dir)
        writes = [Path(environment.get("HOME", "/")), Path(environment.get("TMPDIR", "/tmp"))]  # noqa: S108 - the CLI's
        self.open_because = _why_open(
            [path.resolve() for path in ours], [path.resolve() for path in writes], [Path(binary), Path(sys.prefix)]
        )
        self._shown = [settings.claude_mcp_config] if settings.claude_mcp_config else []
        self._hidden = [] if self.open_because else [str(path) for path in ours]

    def around(self, shown: Iterable[Path]) -> list[str]:
        """What stands before the command; of the hidden directories it may use what is `shown`."""
        told = json.dumps({"hidden": self._hidden, "shown": [str(path) for path in (*self._shown, *shown)]})
        return [sys.executable, "-I", "-S", confine.__file__, told]


def _why_open(ours: list[Path], writes: list[Path], runs: list[Path]) -> str | None:
    """Landlock gives rights to whole trees: one that the CLI needs cannot have a hole, and may not lie in a hidden one."""
    if confine.version() < 2:
        return "this kernel has no Landlock, or it is forbidden here (Linux 5.19 or newer has it)"
    for path in ours:
        if around := next((one for one in writes if path.is_relative_to(one)), None):
            return f"{path} lies in {around}, where the CLI writes"
        if inside := next(
            (one for one in [*writes, *(run.resolve() for run in runs), *runs] if one.is_relative_to(path)), None
        ):
            return f"{inside}, which the CLI needs, lies in {path}"
    return None
