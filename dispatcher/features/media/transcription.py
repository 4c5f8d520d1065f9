"""Speech to text: by a server that speaks OpenAI's `/v1/audio/transcriptions` (TRANSCRIBE_URL), or by faster-whisper on this host.

Without either the sender is told how the owner switches it on. Every fault is a sentence; the recording can be sent again.

The language is the one that the chat has chosen, else it is detected: a recording in another language than the named one
becomes nonsense. faster-whisper also says how sure it is, and where it is not, the sender's language counts.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dispatcher.claude.process import OutputTooLarge, run
from dispatcher.features.media import NotRead
from dispatcher.features.media.settings import MediaSettings
from shared.config.packages import how_to_add
from shared.text.format import cut
from shared.text.logs import Logger
from shared.text.translations import later, tr
from shared.turns.media import TEXT_CHARACTERS, Media
from shared.wire.json import record_of, well_formed

log = Logger()

PATH = "/v1/audio/transcriptions"
#: A larger answer is no transcript.
ANSWER_BYTES = 1_000_000
#: What faster-whisper sees of our environment.
PASSED = ("HOME", "PATH", "LANG", "HF_HOME", "HF_HUB_OFFLINE", "XDG_CACHE_HOME", "TMPDIR")
#: Time limit of one transcript. Seconds.
MOST_SECONDS = 300.0
#: Seconds before the second and last attempt.
PAUSE_SECONDS = 1.0

NOT_SET_UP = later(
    "I cannot listen to recordings here yet. My owner can switch that on: TRANSCRIBE_URL names a server for speech, or TRANSCRIBE_MODEL a model of "
    "faster-whisper on this host (dispatcher/features/media/README.md). Until then, please write."
)
NOTHING = later("I heard no words in this recording. Please say it again, or write it.")
TOO_LONG = later("This recording is too long for me: the limit is {minutes:g} minutes. Please send it in parts.")
IN_TIME = later("The transcript of this recording did not arrive in time. Please send a shorter one, or write.")
AWAY = later(
    "The server that transcribes recordings cannot be reached at the moment. Please send it again later, or write."
)
TOO_LARGE = later("The server that transcribes recordings does not take one of this size. Please send a shorter one.")
NO_ENTRY = later(
    "The server that transcribes recordings does not let me in, so my owner has to check TRANSCRIBE_KEY. Until then, please write."
)
NOT_UNDERSTOOD = later(
    "The server that transcribes recordings could not read this one. Please send it again, or write."
)
NO_PACKAGE = later(
    "I cannot listen to recordings: faster-whisper is not installed on my server. My owner has to install it "
    "({how}), or set TRANSCRIBE_URL. Until then, please write."
)
NO_MODEL = later(
    "I cannot listen to recordings: the model {model} of TRANSCRIBE_MODEL cannot be loaded on my server. My owner has to check its name, or download "
    "it. Until then, please write."
)
NO_MEMORY = later(
    "I cannot listen to recordings: the model {model} of TRANSCRIBE_MODEL needs more memory than it may take, half of the dispatcher's MemoryMax. My "
    "owner has to choose a smaller model, or raise MemoryMax. Until then, please write."
)
#: What the child process says is missing (whisper_child.py) → what the sender is told.
FAULTS = {"package": NO_PACKAGE, "model": NO_MODEL, "memory": NO_MEMORY}
_ENDINGS = {"audio/ogg": "ogg", "audio/mpeg": "mp3", "audio/mp4": "m4a", "audio/x-m4a": "m4a", "audio/wav": "wav", "audio/x-wav": "wav",
            "audio/flac": "flac", "video/mp4": "mp4", "audio/webm": "webm", "video/webm": "webm"}  # fmt: skip


#: Longest recording that is transcribed.
MOST_MINUTES = 20.0


@dataclass(frozen=True)
class Spoken:
    """The language of a recording (ISO 639-1): `named`: it is this one; `likely`: it is this one, if nothing else is clear. Empty: unknown."""

    named: str = ""
    likely: str = ""


class Transcriber:
    """One per dispatcher; the limits hold for server and model alike."""

    def __init__(self, settings: MediaSettings) -> None:
        server = SpeechServer(settings) if settings.transcribe_url else None
        self._inner = server or (LocalWhisper(settings) if settings.transcribe_model else None)

    async def text_of(self, media: Media, content: bytes, spoken: Spoken) -> str:
        """The words of a recording; NotRead."""
        if self._inner is None:
            raise NotRead(tr(NOT_SET_UP))
        if media.seconds > MOST_MINUTES * 60:
            raise NotRead(tr(TOO_LONG).format(minutes=MOST_MINUTES))
        try:
            async with asyncio.timeout(MOST_SECONDS):
                text = await self._inner.text_of(media, content, spoken)
        except TimeoutError:
            raise NotRead(tr(IN_TIME)) from None
        text = cut(well_formed(text).replace("\0", "").strip(), TEXT_CHARACTERS)
        if not any(character.isalnum() for character in text):
            raise NotRead(tr(NOTHING))
        return text


class SpeechServer:
    """Speaks to TRANSCRIBE_URL."""

    def __init__(self, settings: MediaSettings) -> None:
        self._url = endpoint(settings.transcribe_url or "")
        key = settings.transcribe_key
        self._headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        self._fields = {"model": settings.transcribe_model or "whisper-1", "response_format": "json"}

    async def text_of(self, media: Media, content: bytes, spoken: Spoken) -> str:
        from aiohttp import ClientError

        fields = self._fields | ({"language": spoken.named} if spoken.named else {})
        for last in (False, True):
            try:
                status, body = await self._ask(fields, media, content)
            except (ClientError, OSError) as error:
                log.warning("the server of TRANSCRIBE_URL cannot be reached", error=type(error).__name__)
                status, body = 0, b""
            if 0 < status < 500 and status != 429:
                return _text(status, body)
            if not last:
                await asyncio.sleep(PAUSE_SECONDS)
        log.error("the server of TRANSCRIBE_URL does not answer", status=status or None)
        raise NotRead(tr(AWAY))

    async def _ask(self, fields: dict[str, str], media: Media, content: bytes) -> tuple[int, bytes]:
        """(status, answer)."""
        from aiohttp import ClientSession, FormData

        form = FormData()
        for name, value in fields.items():
            form.add_field(name, value)
        form.add_field(
            "file", content, filename=f"recording.{_ENDINGS.get(media.mime, 'ogg')}", content_type=media.mime
        )
        async with (
            ClientSession() as session,
            session.post(self._url, data=form, headers=self._headers, allow_redirects=False) as answer,
        ):
            return answer.status, await answer.content.read(ANSWER_BYTES)


def endpoint(url: str) -> str:
    """The address of transcriptions, of a server's address with or without its path."""
    path = urlsplit(url).path.rstrip("/")
    if path.endswith("/audio/transcriptions"):
        return url
    return url.rstrip("/") + (PATH.removeprefix("/v1") if path.endswith("/v1") else PATH)


def _text(status: int, body: bytes) -> str:
    if status in (401, 403):
        log.error("the server of TRANSCRIBE_URL refuses TRANSCRIBE_KEY", status=status)
        raise NotRead(tr(NO_ENTRY))
    if status == 413:
        raise NotRead(tr(TOO_LARGE))
    text = record_of(body).get("text") if status == 200 else None
    if not isinstance(text, str):
        log.error("the server of TRANSCRIBE_URL gave no transcript", status=status)
        raise NotRead(tr(NOT_UNDERSTOOD))
    return text


class LocalWhisper:
    """faster-whisper in a child process: it needs seconds and much memory, which are given back, and it may crash by itself. One at a time: with the
    readers of documents it fits into the memory of the dispatcher's unit."""

    def __init__(self, settings: MediaSettings) -> None:
        self._model, self._free = settings.transcribe_model or "", asyncio.Lock()

    async def text_of(self, _: Media, content: bytes, spoken: Spoken, /) -> str:
        child = "dispatcher.features.media.whisper_child"
        command = [sys.executable, "-m", child, self._model, spoken.named, spoken.likely]
        environment, root = {name: os.environ[name] for name in PASSED if name in os.environ}, Path(__file__).parents[3]
        limits: dict[str, Any] = {"seconds": MOST_SECONDS, "most_bytes": ANSWER_BYTES}
        try:
            async with self._free:
                ended = await run(command, content, directory=root, environment=environment, **limits)
            said = record_of(ended.output)
        except TimeoutError:
            raise
        except (OSError, ValueError, OutputTooLarge):
            said = {}
        if isinstance(text := said.get("text"), str):
            return text
        fault = said.get("error", "")
        log.error("faster-whisper gave no transcript", model=self._model, fault=fault, reason=said.get("reason"))
        sentence = FAULTS.get(fault, NOT_UNDERSTOOD)
        raise NotRead(tr(sentence).format(model=self._model, how=how_to_add("transcribe")))
