"""Optional Python packages: which part provides them, and how to add a part. Nothing is imported to find out what is installed.

A part is an extra of pyproject.toml. In a checkout `scripts/setup --with PART` adds it; for containers, the image is rebuilt with it;
elsewhere the wheel is installed again with one more extra.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from shared.config.installation import IMAGE_MARKER, ROOT, checkout
from shared.config.kinds import embedders, indexes

if TYPE_CHECKING:
    from shared.config.settings import Settings

#: Part -> the packages that it provides, by import name.
PACKAGES: dict[str, tuple[str, ...]] = {
    "chroma": ("chromadb",),
    "documents": ("magika", "markitdown", "soupsieve", "striprtf"),
    "fastembed": ("fastembed",),
    "lancedb": ("lancedb",),
    "local": ("marisa_trie", "onnxruntime", "tokenizers"),
    "mcp": ("mcp",),
    "metrics": ("prometheus_client",),
    "ollama": ("ollama",),
    "pdf": ("pypdf",),
    "postgresql": ("psycopg",),
    "qdrant": ("qdrant_client",),
    "telegram": ("aiogram", "telegramify_markdown"),
    "transcribe": ("av", "faster_whisper"),
    "web": ("argon2", "python_multipart", "starlette", "uvicorn"),
}

#: The Claude CLI that the tests run with, which scripts/setup and the images install.
TESTED_CLAUDE = "2.1.330"


def how_to_add(part: str, root: Path = ROOT, prefix: Path | None = None) -> str:
    """What to do, without the full stop: "run scripts/setup --with chroma in /opt/hcli-memory"."""
    if place := checkout(root):
        return f"run scripts/setup --with {part} in {place}"
    if ((prefix or Path(sys.prefix)) / IMAGE_MARKER).is_file():
        return f"add {part} to HMEM_PARTS in deploy/.env and build the images again"
    return f"install the program again as before (docs/install.md), with {part} as one more extra"


def how_to_get_claude(root: Path = ROOT) -> str:
    """The command that installs the tested Claude CLI."""
    if checkout(root):
        return "scripts/setup --with-claude"
    return f"npm install -g @anthropic-ai/claude-code@{TESTED_CLAUDE}"


def part_of(module: str) -> str | None:
    """The part that provides a module, or None."""
    package = module.partition(".")[0]
    return next((part for part, packages in PACKAGES.items() if package in packages), None)


def missing_package(part: str) -> str | None:
    """The first of a part's packages that is not installed, or None."""
    return next((package for package in PACKAGES[part] if importlib.util.find_spec(package) is None), None)


def missing_for_night(settings: Settings) -> list[str]:
    """What a night with these settings lacks, one sentence each without the full stop: for its embedder and its indexes."""
    if not settings.indexes or settings.embedder == "none":  # nothing is embedded, and no index is built
        return []
    wanted: list[tuple[str, str | None]] = [(f"EMBEDDER={settings.embedder}", embedders()[settings.embedder].part)]
    wanted += [(f"NIGHT_INDEXES={index}", indexes()[index].part) for index in settings.indexes]
    return [
        f"{named} needs the Python package {package}, which is not installed: {how_to_add(part)}"
        for named, part in wanted
        if part and (package := missing_package(part))
    ]
