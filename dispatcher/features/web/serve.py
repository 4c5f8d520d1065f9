"""`hmem web`: where it listens, what it prints, and when it refuses to listen."""

from __future__ import annotations

import ipaddress
import socket
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dispatcher.chat_data.forget.layers.files import remove_old_uploads
from dispatcher.features.web.app import PageServices, application
from dispatcher.features.web.jobs import Jobs
from dispatcher.features.web.pages import PAGES
from dispatcher.features.web.requests.access import Access, Grant
from dispatcher.features.web.requests.guard import origin_of
from dispatcher.features.web.settings import WebSettings
from shared.config.settings import Settings
from shared.config.values import listen_address, named_chats
from shared.errors import InvalidInput, SettingsError
from shared.wire.client import COMMAND, open_redis

if TYPE_CHECKING:
    import uvicorn

#: Seconds that running requests get at the end.
STOP_SECONDS = 3


@dataclass(frozen=True)
class Prepared:
    """The page, bound to its port and not serving yet; `links` in the order of `access.tokens`."""

    server: uvicorn.Server
    listener: socket.socket
    served: PageServices
    links: list[str]

    def run(self) -> None:
        """Until it is stopped."""
        self.server.run(sockets=[self.listener])

    def close(self) -> None:
        self.listener.close()
        self.served.redis.close()
        self.served.jobs.close()


def prepare(settings: Settings, listen: str, chats: str = "", *, read_only: bool = False) -> Prepared:
    """SettingsError if the address may not be listened on, InvalidInput if it cannot."""
    import uvicorn

    own = settings.of(WebSettings)
    host, port = listen_address(listen)
    secure = _checked(settings, host)
    listener = _listener(host, port)
    bound = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    remove_old_uploads(settings)
    shown, hash_of_it = named_chats(chats) or None, own.web_password.get_secret_value() if own.web_password else ""
    grants = [Grant(shown, read_only=True)] if read_only else [Grant(shown), Grant(shown, read_only=True)]
    access = Access(grants, hash_of_it, settings.hmem_state_dir / f"web-sessions-{port}.json")
    served = PageServices(settings, access, open_redis(settings.redis_url, COMMAND), Jobs(settings), port, secure)
    app = application(served, PAGES, _origins(settings, bound, host), own.web_proxy)
    base = origin_of(own.web_origin or bound)
    links = [f"{base}/enter?token={token}" for token, _ in access.tokens]
    config = uvicorn.Config(
        app,
        access_log=False,  # the address of the first request has the token
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # the proxy itself is checked
        timeout_graceful_shutdown=STOP_SECONDS,
        ws="none",
    )
    return Prepared(uvicorn.Server(config), listener, served, links)


def serve(settings: Settings, listen: str, chats: str, *, read_only: bool) -> None:
    """Print the links, and serve until it is stopped."""
    with closing(prepare(settings, listen, chats, read_only=read_only)) as prepared:
        if settings.of(WebSettings).web_password is None or sys.stdout.isatty():
            _print_links(prepared.links, prepared.served.access)
        else:  # of a service: no link stays in its log
            sys.stderr.write("The page is served, and its password opens it. Links are printed on a terminal alone.\n")
        prepared.run()


def _checked(settings: Settings, host: str) -> bool:
    """Whether browsers come by TLS, through a proxy. SettingsError for an address from which others could read along."""
    own = settings.of(WebSettings)
    if own.web_origin and not own.web_origin.startswith("https://"):
        raise SettingsError(
            "WEB_ORIGIN has to begin with https://: without TLS anybody on the way could read the page."
        )
    if bool(own.web_proxy) != bool(own.web_origin):
        raise SettingsError(
            "WEB_ORIGIN, how browsers reach the page, and WEB_PROXY, the proxy that has TLS, belong together. Set both, or neither."
        )
    if not (own.web_proxy or _is_loopback(host)):
        raise SettingsError(
            f"{host} can be reached from other hosts, and without TLS anybody on the way could read the page. Listen on 127.0.0.1 and use "
            "ssh -L 8765:127.0.0.1:8765, or set WEB_ORIGIN and WEB_PROXY, for a proxy that has TLS."
        )
    return bool(own.web_proxy)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listener(host: str, port: int) -> socket.socket:
    try:
        # No child inherits it (PEP 446): a job must not keep the port.
        wide = ":" in host
        family = socket.AF_INET6 if wide else socket.AF_INET
        return socket.create_server((host, port), family=family, dualstack_ipv6=wide)
    except OSError as error:
        raise InvalidInput(  # not a wrong setting: systemd tries again
            f"--listen: cannot listen on {host}:{port}: {error.strerror or error}. Set another port (--listen 127.0.0.1:8766), "
            "or stop the program that has it."
        ) from error


def _origins(settings: Settings, bound: str, host: str) -> list[str]:
    """As what browsers may know this page: where it listens, the names of loopback if that is there, and what WEB_ORIGIN says."""
    port = bound.rpartition(":")[2]
    names = ["127.0.0.1", "localhost", "[::1]"] if _is_loopback(host) else []
    written = [bound, *(f"http://{name}:{port}" for name in names), settings.of(WebSettings).web_origin]
    return list(dict.fromkeys(map(origin_of, filter(None, written))))


def _print_links(links: list[str], access: Access) -> None:
    """The first line is the link of most rights."""
    sys.stdout.write("\nTo look only, without changing anything: ".join(links) + "\n")
    if (chats := access.tokens[0][1].chats) is not None:
        sys.stderr.write(f"Only these chats are shown: {', '.join(sorted(chats))} (--chats).\n")
    sys.stderr.write("The links work until this program ends (Ctrl-C). Whoever has one reads what it shows.\n")
    sys.stdout.flush()
