"""The settings of pictures, recordings and documents."""

from __future__ import annotations

from pydantic import Field, SecretStr

from shared.config.feature_settings import FeatureSettings
from shared.config.values import BlankIsUnset, HttpUrl


class MediaSettings(FeatureSettings):
    keep_media: bool = Field(
        False,
        description="keep the files of messages themselves for ever: in the archive, in its mirror and in exports, until they are forgotten",
    )

    transcribe_url: BlankIsUnset[HttpUrl] = Field(
        None,
        description="a server that transcribes recordings as OpenAI's /v1/audio/transcriptions does, such as http://127.0.0.1:8000; unset: none",
        repr=False,
    )
    transcribe_key: BlankIsUnset[SecretStr] = Field(None, description="its API key, if it requires one")
    transcribe_model: BlankIsUnset[str] = Field(
        None,
        pattern=r"^[A-Za-z0-9/][A-Za-z0-9._/-]{0,199}$",
        description="the model; with TRANSCRIBE_URL the server's (unset: whisper-1), without it one of faster-whisper on this host, such as small",
    )

    send_files: bool = Field(
        False,
        description="send what Claude makes in the chat's directory, by Bash or a tool of an MCP server (the CLI's Write may not write there)",
    )
