"""What every request has to pass before a page sees it, and what every answer carries.

A page on loopback can be reached by any site that a browser has open: by a name that it makes resolve to 127.0.0.1 (DNS rebinding), or by a
form that it sends here (cross-site request forgery). So the Host is one that we know, a request that changes anything comes from our own
origin, and no answer may be framed, read by others, or run a script that is not ours.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: https://developer.mozilla.org/docs/Web/HTTP/Headers/Content-Security-Policy: nothing but our own files, no inline script or style.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer a browser sends `Origin: null` with our own forms, too
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
SAFE_METHODS = ("GET", "HEAD")
#: Bytes of a request's body; an upload is read in pieces and stored on the disk (pages/moving.py).
BODY_BYTES, UPLOAD_PATH, UPLOAD_BYTES = 262_144, "/import/upload", 2_000_000_000


class Guard:
    """ASGI middleware. `origins`: the values of Origin that are ours; `proxy`: the address that alone may ask, since it has TLS; "" for any."""

    def __init__(self, app: ASGIApp, origins: Collection[str], proxy: str) -> None:
        self._app, self._origins, self._proxy = app, frozenset(origins), proxy
        self._hosts = {origin.partition("://")[2] for origin in origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)  # the server's start and end; websockets are not routed
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if not scope["path"].startswith("/static/"):
                    headers["Cache-Control"] = "no-store"  # the back button of a shared computer must not show a chat
            await send(message)

        if refused := self._refusal(scope):
            await PlainTextResponse(refused, 403)(scope, receive, sent)
        elif too_large := _size_refused(scope):
            await PlainTextResponse(too_large, 413)(scope, receive, sent)
        else:
            await self._app(scope, receive, sent)

    def _refusal(self, scope: Scope) -> str | None:
        """Why a request is not answered, or None."""
        headers = Headers(scope=scope)
        if self._proxy and not _same_address((scope.get("client") or ("",))[0], self._proxy):
            return "This page answers its proxy alone (WEB_PROXY)."  # whoever came past it could read along
        if headers.get("host", "").lower() not in self._hosts:
            return "This page does not answer under that name. Open it by the link that hmem web printed, or set WEB_ORIGIN."
        if scope["method"] in SAFE_METHODS:
            return None
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
        ours = site in ("same-origin", "none") if origin is None else origin.lower() in self._origins
        return None if ours else "This request comes from another site and was refused."


def _same_address(peer: str, address: str) -> bool:
    """Also where an IPv4 address comes as an IPv6 one, as on a socket of both."""
    return ip_address(peer.removeprefix("::ffff:")) == ip_address(address)


def _size_refused(scope: Scope) -> str | None:
    """The server reads no more of a body than its header says, so a request without one has none that we would read."""
    if scope["method"] in SAFE_METHODS:
        return None
    length = Headers(scope=scope).get("content-length", "")
    most = UPLOAD_BYTES if scope["path"] == UPLOAD_PATH else BODY_BYTES
    return (
        None if length.isdecimal() and int(length) <= most else f"A request has to say its size, at most {most} bytes."
    )


def origin_of(url: str) -> str:
    """`https://name[:port]` of a URL, as browsers write it: in lower case, without the port that its scheme implies."""
    parts = urlsplit(url)
    port = parts.port
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    implied = {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{host}" + (f":{port}" if port and port != implied else "")
