"""`hmem web`: where it listens, what it prints, and when it refuses to listen."""

from __future__ import annotations

import html
import ipaddress
import socket
import sys
import tempfile
import threading
import time
import webbrowser
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher.features.web.app import PageServices, application, grants_of
from dispatcher.features.web.jobs import Jobs
from dispatcher.features.web.pages import PAGES
from dispatcher.features.web.reader import Reader
from dispatcher.features.web.requests.access import Access
from dispatcher.features.web.requests.guard import OnlyFrom, origin_of
from dispatcher.features.web.settings import WebSettings
from shared.config.settings import Settings
from shared.config.values import listen_address
from shared.errors import SettingsError

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

#: Seconds that running requests get at the end.
STOP_SECONDS = 3
#: Seconds that a browser has to read the file that leads to the page.
OPENING_SECONDS = 30.0


@dataclass(frozen=True)
class Prepared:
    """The page, bound to its port and not serving yet; `links` in the order of `access.tokens`."""

    server: uvicorn.Server
    listener: socket.socket
    reader: Reader
    access: Access
    links: list[str]

    def run(self) -> None:
        """Until it is stopped."""
        self.server.run(sockets=[self.listener])

    def close(self) -> None:
        self.listener.close()
        self.reader.close()


def prepare(settings: Settings, listen: str, chats: str = "", *, read_only: bool = False) -> Prepared:
    """SettingsError if the address may not, or cannot, be listened on."""
    import uvicorn
    from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

    own = settings.of(WebSettings)
    host, port = listen_address(listen)
    secure = _checked(settings, host)
    listener = _listener(host, port)
    bound = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    access, reader = Access(grants_of(chats, read_only=read_only)), Reader(settings)
    origins = _origins(settings, bound, host)
    served = PageServices(settings, access, reader, Jobs(settings), port, secure)
    app: ASGIApp = application(served, PAGES, [origin.partition("://")[2] for origin in origins], origins)
    if own.web_proxy:
        behind: Any = ProxyHeadersMiddleware(app, trusted_hosts=own.web_proxy)  # type: ignore[arg-type]
        app = OnlyFrom(behind, own.web_proxy)
    base = origin_of(own.web_origin or bound)
    links = [f"{base}/enter?token={token}" for token, _ in access.tokens]
    return Prepared(uvicorn.Server(_config(app)), listener, reader, access, links)


def serve(settings: Settings, listen: str, chats: str, *, read_only: bool, open_browser: bool) -> None:
    """Print the links, and serve until it is stopped."""
    with closing(prepare(settings, listen, chats, read_only=read_only)) as prepared:
        _print_links(prepared.links, prepared.access)
        if open_browser:
            threading.Thread(target=_open_browser, args=(prepared,), daemon=True).start()
        prepared.run()


def _open_browser(prepared: Prepared) -> None:
    """By a private file that leads there: a browser's arguments, and so the token, can be seen by every user of this host."""
    while not prepared.server.started:
        time.sleep(0.05)
    with tempfile.TemporaryDirectory(prefix="hmem-web-") as folder:  # mode 0700
        page = Path(folder) / "open.html"
        link = html.escape(prepared.links[0])
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={link}">', encoding="utf-8")
        webbrowser.open(page.as_uri())
        time.sleep(OPENING_SECONDS)


def _config(app: ASGIApp) -> uvicorn.Config:
    import uvicorn

    return uvicorn.Config(
        app,
        access_log=False,  # the address of the first request has the token
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # they are read where the proxy is checked
        timeout_graceful_shutdown=STOP_SECONDS,
        ws="none",
    )


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
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # No child inherits it (PEP 446): a job must not keep the port.
        return socket.create_server(address, family=family, dualstack_ipv6=family == socket.AF_INET6)
    except OSError as error:
        raise SettingsError(
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
    for link, (_, grant) in zip(links, access.tokens, strict=True):
        sys.stdout.write(
            f"{link}\n" if link == links[0] else f"For a look, without the right to change anything: {link}\n"
        )
        if link == links[0] and grant.chats is not None:
            sys.stderr.write(f"Only these chats are shown: {', '.join(sorted(grant.chats))} (--chats).\n")
    sys.stderr.write("The links work until this program ends (Ctrl-C). Whoever has one reads what it shows.\n")
    sys.stdout.flush()
