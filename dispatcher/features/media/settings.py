"""The settings of pictures, recordings and documents."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr

from shared.config.feature_settings import FILES, FeatureSettings, Touched
from shared.config.values import BlankIsUnset, HttpUrl


class MediaSettings(FeatureSettings):
    keep_media: Annotated[bool, Touched(FILES)] = False
    """keep the files that people send in the archive, until they are forgotten"""

    transcribe_url: Annotated[BlankIsUnset[HttpUrl], Field(repr=False), Touched(FILES, by_hand=True)] = None
    """a server with OpenAI's /v1/audio/transcriptions, such as http://127.0.0.1:8000"""

    transcribe_key: BlankIsUnset[SecretStr] = None
    """its API key, if it requires one"""

    transcribe_model: Annotated[
        BlankIsUnset[Annotated[str, Field(pattern=r"^[A-Za-z0-9/][A-Za-z0-9._/-]{0,199}$")]],
        Touched(FILES, by_hand=True),
    ] = None
    """its model (unset: whisper-1); without TRANSCRIBE_URL one of faster-whisper, such as small"""

    send_files: Annotated[bool, Touched(FILES, by_hand=True)] = False
    """send files that Claude makes in the chat's directory"""
