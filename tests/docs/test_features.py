"""What the seeds and the card ask for, each shown in the cheapest way, so that no cut takes it along unnoticed."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from importlib import import_module
from typing import Any, get_args
from zoneinfo import ZoneInfo

import pytest

from dispatcher.bots.telegram.commands import MENU
from dispatcher.health.doctor import CHECKS
from dispatcher.memory.dates.user_dates import deadline_of
from dispatcher.memory.relevance import relevance
from dispatcher.memory.typed.tags import TagKind
from nightly.imports.formats import formats
from nightly.pipeline import step_names
from scripts.generate_docs import all_commands
from shared.config.kinds import embedders, indexes, memory_backends
from shared.config.settings import Settings, load_settings
from shared.embedding.known_models import KNOWN_MODELS
from shared.wire import keys
from tests.support.day.store_rows import DAY, NOW, fact
from tests.support.world import REPOSITORY

COMMANDS = dict(one for listed in all_commands().values() for one in listed)


def has(module: str, *names: str) -> bool:
    found: Any = import_module(module)
    for name in names:
        inside = found
        for part in name.split("."):
            inside = getattr(inside, part)
    return True


def default(setting: str) -> Any:
    return Settings.model_fields[setting].default


def options(command: str) -> set[str]:
    return {option for one in COMMANDS[command].params for option in one.opts}


def score(**more: Any) -> float:
    return relevance(fact("x", **{"created": NOW, **more}), 0.8, NOW)


def files(*names: str) -> bool:
    return all((REPOSITORY / name).exists() for name in names)


def depends(*packages: str) -> bool:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = json.dumps([project["dependencies"], project["optional-dependencies"]]).lower()
    return all(one in wanted for one in packages)


FEATURES: dict[str, Callable[[], bool]] = {
    "backends by one variable": lambda: {"none", "summary", "chroma", "redis", "qdrant", "lancedb", "sqlite"} <= {*memory_backends()},
    "each backend has an index": lambda: {"chroma", "redis", "qdrant", "lancedb", "sqlite"} == set(indexes()),
    "embedders": lambda: {"local", "fastembed", "ollama"} == set(embedders()),
    "embedders by day": lambda: has("dispatcher.memory.embedder", "DayEmbedder.query") and has("shared.embedding.open", "open_embedder"),
    "named models": lambda: {one.family for one in KNOWN_MODELS}
    >= {"all-MiniLM-L6-v2", "nomic-embed-text-v1.5", "paraphrase-multilingual-MiniLM-L12-v2"},
    "prefixes and identity of a model": lambda: any(one.query_prefix and one.document_prefix for one in KNOWN_MODELS)
    and has("shared.embedding.models", "EmbeddingIdentity"),
    "one Ollama client": lambda: has("shared.embedding.ollama.server", *(f"OllamaServer.{name}" for name in ("chat", "embed", "pull"))),
    "PostgreSQL day store": lambda: depends("psycopg") and load_settings(day_store_url="postgresql://h/d").has_day_store,
    "day store by days and range": lambda: has("dispatcher.memory.store.turns", "Turns.newest", "Turns.back"),
    "day store by keyword": lambda: has("shared.search.day_items", "DayItems"),
    "consolidation by day": lambda: (default("session_tokens"), default("consolidation_interval")) == (50_000, 30.0),
    "APScheduler": lambda: depends("apscheduler") and has("dispatcher.queue.consolidation.rounds", "scheduled"),
    "decay": lambda: score(created=NOW - 30 * DAY) < score(),
    "importance": lambda: score(importance=5) > score(importance=1),
    "access count": lambda: score(access_count=9) > score(),
    "duplicates": lambda: has("dispatcher.memory.typed.memories", "Remembering.add", "Addition"),
    "re-embedding": lambda: {"--reembed", "--model"} <= options("hmem-night backfill"),
    "tags": lambda: {"REMEMBER", "GOAL", "DONE", "FORGET", "PREFERENCE"} <= set(TagKind),
    "free words in DEADLINE": lambda: NOW < deadline_of("next friday", NOW, ZoneInfo("UTC")) < NOW + 9 * DAY,
    "free words in DONE and FORGET": lambda: has("dispatcher.memory.typed.memories", "Remembering.match"),
    "the night": lambda: [name for name in step_names() if name not in ("note", "dream")]
    == ["export", "archive", "chunk", "embed", "build", "summarise", "publish", "flush", "restart"],
    "nightly.sh, rsync, restart": lambda: files("scripts/nightly.sh")
    and has("nightly.night.target", "transfer")
    and "restart_command" in Settings.model_fields,
    "deployment": lambda: files(
        "deploy/compose.yaml", "deploy/Dockerfile.day", "deploy/Dockerfile.night", "deploy/hmem-receive",
        "systemd/hmem-dispatcher.service", "systemd/hmem-night.timer",
    ),
    "/new and resume": lambda: "new" in MENU and {"resume", "replay"} <= set(get_args(Settings.model_fields["session_mode"].annotation)),
    "import of memories": lambda: "hmem memory import" in COMMANDS,
    "backfills": lambda: "hmem-night backfill" in COMMANDS and {"chunks", "audit", "telegram", "jsonl"} <= set(formats()),
    "hcli:stats": lambda: keys.stats("2026-11-28") == "hcli:stats:2026-11-28",
    "warning of turns that expire": lambda: "expiry" in {one.name for one in CHECKS},
    "two keys an exchange": lambda: [keys.turn("t", role) for role in ("user", "asst")] == ["hcli:memory:t:user", "hcli:memory:t:asst"],
    "events elsewhere": lambda: keys.event("memory", "1").startswith("hcli:mem:"),
}  # fmt: skip


@pytest.mark.parametrize("feature", FEATURES)
def test_it_is_there(feature: str) -> None:
    assert FEATURES[feature]()
