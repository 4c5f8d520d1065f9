"""The settings of the owner's page."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr, field_validator

from shared.config.feature_settings import FeatureSettings, Touched
from shared.config.values import BlankIsUnset, HttpUrl, IpAddress, listen_address

DEFAULT_ADDRESS = "127.0.0.1:8765"
#: With three users they are in the owner's file of secrets.
OWNER_SECRETS = ("WEB_PASSWORD",)


class WebSettings(FeatureSettings):
    web_origin: Annotated[BlankIsUnset[HttpUrl], Touched("This page", by_hand=True)] = Field(
        None, description="the page's address behind a TLS proxy, such as https://memory.example.org"
    )
    web_proxy: Annotated[IpAddress, Touched("This page", by_hand=True)] = Field(
        "", description="IP address of that proxy; no other may then ask"
    )
    web_password: BlankIsUnset[SecretStr] = Field(
        None, description="hash of the page's password, from `hmem web --password`"
    )
    web_service: Annotated[str, Touched("This page", by_hand=True)] = Field(
        "",
        description="where `hmem web` listens; if set, `hmem init` keeps it running",
    )

    @field_validator("web_password")
    @classmethod
    def _is_hash(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith("$argon2id$"):
            raise ValueError("only the hash of a password belongs here; hmem web --password asks for one and writes it")
        return value

    @field_validator("web_service")
    @classmethod
    def _is_address(cls, value: str) -> str:
        if value.strip():
            listen_address(value)
        return value.strip()
