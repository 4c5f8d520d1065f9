"""Recordings to text: by a server that speaks OpenAI's endpoint, or by faster-whisper; every fault is a sentence."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.features.media import NotRead, transcription, whisper_child
from dispatcher.features.media.settings import MediaSettings
from dispatcher.features.media.transcription import Spoken, Transcriber
from shared.errors import SettingsError
from shared.turns.media import Media
from tests.servers.files.transcription_api import TranscriptionApi
from tests.support.machine import script
from tests.support.world import REPOSITORY, World

OGG = b"OggS" + bytes(range(256)) * 20
VOICE = Media("voice", "0" * 64, len(OGG), "audio/ogg", seconds=7)
UNKNOWN = Spoken()


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[TranscriptionApi]:
    monkeypatch.setattr(transcription, "PAUSE_SECONDS", 0.0)
    with TranscriptionApi(key="sk-test") as served:
        yield served


def heard(world: World, media: Media = VOICE, content: bytes = OGG, spoken: Spoken = UNKNOWN, **settings: Any) -> str:
    return asyncio.run(Transcriber(world.settings(**settings).of(MediaSettings)).text_of(media, content, spoken))


def refused(world: World, **settings: Any) -> str:
    with pytest.raises(NotRead) as error:
        heard(world, VOICE, OGG, **settings)
    assert str(error.value).endswith(".")
    assert "sk-test" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("path", ["", "/v1/", "/v1/audio/transcriptions"])
def test_the_recording_is_sent_as_the_service_wants_it(light: World, api: TranscriptionApi, path: str) -> None:
    more: dict[str, Any] = {"transcribe_model": "small", "transcribe_key": "sk-test"}
    assert heard(light, spoken=Spoken("de"), transcribe_url=api.url + path, **more) == "Hello there."
    (got,) = api.received
    assert (got.path, got.content, got.file_name) == ("/v1/audio/transcriptions", OGG, "recording.ogg")
    assert got.fields == {"model": "small", "language": "de", "response_format": "json"}
    assert got.key == "sk-test"


def test_a_wrong_key_is_a_sentence_and_not_tried_again(light: World, api: TranscriptionApi) -> None:
    assert "TRANSCRIBE_KEY" in refused(light, transcribe_url=api.url, transcribe_key="sk-other")
    assert len(api.received) == 1


@pytest.mark.parametrize(("statuses", "words"), [
    ([500, 500], "cannot be reached at the moment"), ([503, 429], "cannot be reached at the moment"), ([413], "does not take one of this size"),
    ([400], "could not read this one"), ([302], "could not read this one"),
])  # fmt: skip
def test_a_server_in_trouble_is_told(light: World, api: TranscriptionApi, statuses: list[int], words: str) -> None:
    api.statuses = list(statuses)
    assert words in refused(light, transcribe_url=api.url, transcribe_key="sk-test")
    assert not api.statuses


def test_a_server_that_is_down_is_a_sentence(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcription, "PAUSE_SECONDS", 0.0)
    assert "cannot be reached" in refused(light, transcribe_url="http://127.0.0.1:9")


def test_a_server_that_does_not_answer_has_a_time_limit(
    light: World, api: TranscriptionApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcription, "MOST_SECONDS", 0.2)
    api.delay = 3.0
    assert "in time" in refused(light, transcribe_url=api.url)


def test_a_wrong_address_is_refused_at_the_start(light: World) -> None:
    with pytest.raises(SettingsError, match="TRANSCRIBE_URL"):
        light.settings(transcribe_url="speech.example.org")


def test_faster_whisper_without_package_or_model_is_a_sentence(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    sentence = refused(light, transcribe_model="/no/such/model")
    if importlib.util.find_spec("faster_whisper") is None:
        assert "faster-whisper is not installed" in sentence
        assert "scripts/setup --with transcribe" in sentence
    else:
        assert "/no/such/model" in sentence


#: Stands for this Python: runs the child with a model that is too large for its limit.
_LARGE = """#!{python}
import sys, types
sys.path.insert(0, {root!r})
del sys.argv[1:3]
sys.modules["faster_whisper"] = types.SimpleNamespace(WhisperModel=lambda *_, **__: bytearray(1 << 30))
from dispatcher.features.media import whisper_child
whisper_child.memory_of_unit = lambda: 2 << 30
whisper_child.main()
"""


def test_a_model_that_is_too_large_for_its_memory_is_a_sentence(
    light: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = script(tmp_path / "python", _LARGE.format(python=sys.executable, root=str(REPOSITORY)))
    monkeypatch.setattr(sys, "executable", str(python))
    assert "choose a smaller model, or raise MemoryMax" in refused(light, transcribe_model="large-v3")


#: Wants more memory than its limit, and says how soon the kernel would end it.
_BOUND = """
import pathlib, sys
from dispatcher.features.media import whisper_child
whisper_child.memory_of_unit = lambda: 2 << 30
whisper_child.bound()
print(pathlib.Path("/proc/self/oom_score_adj").read_text())
try:
    bytearray(1 << 30)
except MemoryError:
    print("no")
"""


def test_faster_whisper_takes_half_of_the_units_memory_at_most() -> None:
    bound = subprocess.run([sys.executable, "-c", _BOUND], capture_output=True, text=True, cwd=REPOSITORY, check=True)
    before = int(Path("/proc/self/oom_score_adj").read_text())
    assert bound.stdout.split() == [str(min(1000, before + 500)), "no"]
    assert 0 < whisper_child.memory_of_unit() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_one_recording_is_heard_at_a_time(light: World, begun_and_ended: Callable[[], list[str]]) -> None:
    transcriber = Transcriber(light.settings(transcribe_model="small").of(MediaSettings))

    async def both() -> list[str]:
        return await asyncio.gather(*(transcriber.text_of(VOICE, OGG, UNKNOWN) for _ in range(2)))

    assert asyncio.run(both()) == ["words", "words"]
    assert begun_and_ended() == ["begun", "ended"] * 2
