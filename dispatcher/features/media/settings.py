"""The settings of pictures, recordings and documents."""

from __future__ import annotations

from pydantic import Field, SecretStr

from shared.config.feature_settings import FeatureSettings
from shared.config.values import BlankIsUnset, HttpUrl


class MediaSettings(FeatureSettings):
    keep_media: bool = Field(
        False,
        description="keep the files that people send in the archive, until they are forgotten",
    )

    transcribe_url: BlankIsUnset[HttpUrl] = Field(
        None,
        description="a server with OpenAI's /v1/audio/transcriptions, such as http://127.0.0.1:8000",
        repr=False,
    )
    transcribe_key: BlankIsUnset[SecretStr] = Field(None, description="its API key, if it requires one")
    transcribe_model: BlankIsUnset[str] = Field(
        None,
        pattern=r"^[A-Za-z0-9/][A-Za-z0-9._/-]{0,199}$",
        description="its model (unset: whisper-1); without TRANSCRIBE_URL one of faster-whisper, such as small",
    )

    send_files: bool = Field(
        False,
        description="send files that Claude makes in the chat's directory",
    )
