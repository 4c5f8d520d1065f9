"""Optional Python packages: which part provides them, and how to add a part. Nothing is imported to find out what is installed.

A part is an extra of pyproject.toml. In a checkout `scripts/setup --with PART` adds it; for containers, the image is rebuilt with it.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.config.settings import Settings

#: Part -> the packages that it provides, by import name.
PACKAGES: dict[str, tuple[str, ...]] = {
    "chroma": ("chromadb",),
    "dask": ("distributed",),
    "fastembed": ("fastembed",),
    "lancedb": ("lancedb",),
    "local": ("onnxruntime", "tokenizers"),
    "mcp": ("mcp",),
    "metrics": ("prometheus_client",),
    "ollama": ("ollama",),
    "pgvector": ("pgvector", "psycopg"),
    "plot": ("matplotlib",),
    "postgresql": ("psycopg",),
    "qdrant": ("qdrant_client",),
    "telegram": ("aiogram", "telegramify_markdown"),
    "web": ("python_multipart", "starlette", "uvicorn"),
}
#: Index (NIGHT_INDEXES) -> the part that it needs; an index that is not listed needs none.
INDEX_PARTS = {
    "chroma": "chroma",
    "lancedb": "lancedb",
    "qdrant": "qdrant",
    "pgvector": "pgvector",
}
#: Embedder (EMBEDDER) -> the part that it needs.
EMBEDDER_PARTS = {"local": "local", "fastembed": "fastembed", "ollama": "ollama"}

_CHECKOUT = Path(__file__).resolve().parent.parent.parent


def how_to_add(part: str, checkout: Path = _CHECKOUT) -> str:
    """What to do, without the full stop: "run scripts/setup --with chroma in /opt/hcli-memory"."""
    if (checkout / "scripts" / "setup").is_file():
        return f"run scripts/setup --with {part} in {checkout}"
    return (
        f"in containers add {part} to HMEM_PARTS in deploy/.env and rebuild the images, "
        f"elsewhere run scripts/setup --with {part} in the checkout"
    )


def part_of(module: str) -> str | None:
    """The part that provides a module, or None."""
    package = module.partition(".")[0]
    return next((part for part, packages in PACKAGES.items() if package in packages), None)


def missing_package(part: str) -> str | None:
    """The first of a part's packages that is not installed, or None."""
    return next((package for package in PACKAGES[part] if importlib.util.find_spec(package) is None), None)


def missing_for_night(settings: Settings) -> list[str]:
    """What a night with these settings lacks, one sentence each without the full stop: for its embedder and for its indexes."""
    if not settings.indexes or settings.embedder == "none":  # nothing is embedded, so no index is built
        return []
    wanted = [(f"EMBEDDER={settings.embedder}", EMBEDDER_PARTS.get(settings.embedder))]
    wanted += [(f"NIGHT_INDEXES={index}", INDEX_PARTS.get(index)) for index in settings.indexes]
    return [
        f"{named} needs the Python package {package}, which is not installed: {how_to_add(part)}"
        for named, part in wanted
        if part and (package := missing_package(part))
    ]
