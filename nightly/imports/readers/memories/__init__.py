"""What other programs remember: facts and notes instead of a conversation. Each becomes a turn that says where it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from nightly.imports.hooks import ImportFormat, Reader, Source
from nightly.imports.readers.memories import mem0, notes
from shared.hooks import hook


@hook
def import_formats() -> Sequence[ImportFormat]:
    def openclaw(source: Source) -> Reader:
        return lambda path, unit: notes.read_openclaw(path, unit, source.wanted, source.zone)

    def basic_memory(source: Source) -> Reader:
        return lambda path, unit: notes.read_basic_memory(path, unit, source.wanted, source.zone)

    def of_mem0(source: Source) -> Reader:
        return lambda path, unit: mem0.read(path, unit, source.wanted, source.zone, source.options.get("only"))

    return [
        ImportFormat("openclaw", "OpenClaw's memory (ZIP of the workspace, or MEMORY.md)", openclaw),
        ImportFormat("basic-memory", "Basic Memory's notes (ZIP of them, or one)", basic_memory),
        ImportFormat("mem0", "Mem0's memories (JSON, or OpenMemory's ZIP)", of_mem0, options=("only",)),
    ]
