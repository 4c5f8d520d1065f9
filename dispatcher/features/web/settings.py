"""The settings of the owner's page."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated

from pydantic import SecretStr, field_validator

from shared.config.feature_settings import FeatureSettings, Touched
from shared.config.values import BlankIsUnset, HttpUrl, accepted_by, listen_address

DEFAULT_ADDRESS = "127.0.0.1:8765"
#: With three users they are in the owner's file of secrets.
OWNER_SECRETS = ("WEB_PASSWORD",)


class WebSettings(FeatureSettings):
    web_origin: Annotated[BlankIsUnset[HttpUrl], Touched("This page", by_hand=True)] = None
    """the page's address behind a TLS proxy, such as https://memory.example.org"""

    web_proxy: Annotated[str, accepted_by(ip_address), Touched("This page", by_hand=True)] = ""
    """IP address of that proxy; no other may then ask"""

    web_password: BlankIsUnset[SecretStr] = None
    """hash of the page's password, from `hmem web --password`"""

    web_service: Annotated[str, accepted_by(listen_address), Touched("This page", by_hand=True)] = ""
    """where `hmem web` listens; if set, `hmem init` keeps it running"""

    @field_validator("web_password")
    @classmethod
    def _is_hash(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith("$argon2id$"):
            raise ValueError("only the hash of a password belongs here; hmem web --password asks for one and writes it")
        return value
