"""The address of a Dask scheduler, and what is needed to talk to it. Who reaches a scheduler or a worker runs code there and reads what people
said: so it is on a private network, or both ends of each connection show certificates."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from shared.config.packages import how_to_add, missing_package
from shared.config.settings import Settings
from shared.errors import SettingsError

if TYPE_CHECKING:
    from distributed.security import Security


def scheduler_of(settings: Settings) -> str | None:
    """The address that NIGHT_WORKERS names, if it names one."""
    return settings.night_workers if "://" in settings.night_workers else None


def refuse_unless_safe(settings: Settings, address: str) -> None:
    """SettingsError without the library, with tcp:// to a public address, or with tls:// and no certificates. Only names are looked up."""
    if missing_package("dask"):
        raise SettingsError(
            f"{address} needs the Python package distributed, which is not installed: {how_to_add('dask')}."
        )
    if address.startswith("tls://"):
        for name in ("night_workers_tls_ca", "night_workers_tls_cert", "night_workers_tls_key"):
            path = getattr(settings, name)
            if path is None or not path.is_file():
                raise SettingsError(
                    f"{address} needs {name.upper()}, and {path or 'it'} is not a file. Set all three of CA, CERT and KEY (docs/workers.md)."
                )
    elif public := sorted(one for one in _addresses(address) if ipaddress.ip_address(one).is_global):
        raise SettingsError(
            f"{address} is the public address {public[0]}: everybody on the way could read and change what is sent. Use a private network, or "
            "tls:// (docs/workers.md)."
        )


def _addresses(address: str) -> set[str]:
    """None for a name that is not known now."""
    parts = urlsplit(address)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {str(one[4][0]).partition("%")[0] for one in found}


def security_of(settings: Settings, address: str) -> Security | None:
    """Certificates for both ends of each connection; None for tcp://."""
    from distributed.security import Security

    if not address.startswith("tls://"):
        return None
    certificate = {"cert": str(settings.night_workers_tls_cert), "key": str(settings.night_workers_tls_key)}
    roles = {
        f"tls_{role}_{part}": path for role in ("client", "worker", "scheduler") for part, path in certificate.items()
    }
    return Security(tls_ca_file=str(settings.night_workers_tls_ca), require_encryption=True, **roles)


def own_host(address: str) -> str:
    """The address of this host on the network of the scheduler: the only one that a worker listens on."""
    parts = urlsplit(address)
    family, kind, protocol, _, place = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(place)  # nothing is sent
        return str(probe.getsockname()[0])
