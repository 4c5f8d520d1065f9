"""Which index a release is searched with, and that nobody needs the library of another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shared.config.kinds import served
from shared.config.settings import load_settings
from shared.errors import SettingsError
from shared.release.manifest import Manifest
from shared.vectors.base import NullBackend, backend_of, builder_of
from shared.vectors.on_server import builder_on
from shared.vectors.searching import AskingBackend
from tests.support.night.index_world import IDENTITY, MadeUp, make_release, notes, opened, settings_for
from tests.support.world import World


@pytest.mark.parametrize(
    ("setting", "built", "chosen"),
    [
        ("auto", ["sqlite", "chroma"], "sqlite"),
        ("auto", ["chroma"], "chroma"),
        ("auto", ["redis", "lancedb"], "lancedb"),
        ("chroma", ["sqlite", "chroma"], "chroma"),
        ("qdrant", ["sqlite", "qdrant"], "qdrant"),
        ("sqlite", ["sqlite", "chroma"], "sqlite"),
        ("chroma", ["sqlite"], "MEMORY_BACKEND=chroma requires another index"),
        ("sqlite", ["chroma"], "MEMORY_BACKEND=sqlite requires another index"),
        ("auto", ["pinecone"], "MEMORY_BACKEND=auto requires another index"),
        ("auto", [], "without a vector index"),
        ("none", ["sqlite"], "MEMORY_BACKEND=none"),
    ],
)
def test_the_setting_and_the_release_choose_the_backend(
    tmp_path: Path, setting: str, built: list[str], chosen: str
) -> None:
    manifest = Manifest(1, None, {}, 1, 1, "UTC", built, IDENTITY, 0, 0, 0, 0, {})
    found = backend_of(load_settings(memory_backend=setting), tmp_path, manifest)
    if isinstance(found, AskingBackend):
        assert found.name == chosen
    else:
        assert chosen in (found.why_not or "")
        assert isinstance(found, NullBackend)
        assert np.isnan(found.similarities("a question", "1", ["a", "b"])).all()


LIBRARIES = {"chroma": "chromadb", "lancedb": "lancedb", "qdrant": "qdrant_client"}


@pytest.mark.slow
def test_nobody_imports_the_library_of_an_index_that_the_settings_do_not_name(world: World) -> None:
    """Chroma's is installed with the day, and takes 50 MB. Here a process that imports one of them ends."""
    for library in LIBRARIES.values():
        (folder := world.root / "library" / library).mkdir(parents=True)
        (folder / "__init__.py").write_text("import os\nos._exit(99)\n")
    world.environment |= {"PYTHONPATH": str(world.root / "library")}
    world.say("t1", "the boiler code is 4711")
    world.command("hmem-night", "run")
    dispatcher = world.start_dispatcher()
    assert world.command("hmem", "talk", "9912", "--say", "what opens the boiler?").returncode == 0
    dispatcher.stop()
    done = world.command("hmem", "search", "9912", "what opens the boiler?", "--json")
    assert '"vector": null' not in done.stdout
    assert "t1:user" in done.stdout
    world.say("t2", "the wifi is called heron")
    for named in LIBRARIES:
        wanted = {"NIGHT_INDEXES": named, "QDRANT_URL": "http://127.0.0.1:1"}
        assert world.command("hmem-night", "run", check=False, **wanted).returncode == 99, named


@pytest.mark.parametrize("index", LIBRARIES)
def test_a_host_without_the_library_says_what_to_install(
    tmp_path: Path, index: str, embedder: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    with settings_for([index], tmp_path) as settings:
        path = make_release(settings, tmp_path, [index], {"1": notes("1", 3)})
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(SettingsError, match=rf"NIGHT_INDEXES names {index}.*--with {index} in "):
            builder_of(index, settings, 1).refuse_unless_usable()
        found = opened(settings, path, index)
        assert f"scripts/setup --with {index}" in (found.why_not or "")
        if index in served():
            monkeypatch.undo()
            builder_on(settings, index).sweep([])
