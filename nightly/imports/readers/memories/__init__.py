"""What other programs remember: facts and notes instead of a conversation. Each becomes a turn that says where it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from nightly.imports.formats import ImportFormat, file_by_file
from nightly.imports.readers.memories import mem0, notes, told
from shared.hooks import hook


@hook
def import_formats() -> Sequence[ImportFormat]:
    openclaw, basic_memory, of_mem0 = map(file_by_file, (notes.read_openclaw, notes.read_basic_memory, mem0.read))
    return [
        ImportFormat(
            "openclaw",
            "OpenClaw's or Claude Code's memory (directory or ZIP, or MEMORY.md)",
            openclaw,
            notes.is_openclaw,
        ),
        ImportFormat("basic-memory", "Basic Memory's notes (ZIP of them, or one)", basic_memory, notes.is_basic_memory),
        ImportFormat(
            told.LIST,
            "what an assistant says that it remembers (lines `[date] - memory`)",
            file_by_file(told.read_list),
            told.is_list,
        ),
        ImportFormat("mem0", "Mem0's memories (JSON, or OpenMemory's ZIP)", of_mem0, mem0.recognise, options=("only",)),
    ]
