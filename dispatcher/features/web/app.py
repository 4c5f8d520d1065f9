"""The page as an ASGI application: which function answers which path, for whom, and what an error looks like."""

from __future__ import annotations

import hmac
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from redis import Redis
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from dispatcher.features.web.jobs import Jobs
from dispatcher.features.web.render import STATIC, render
from dispatcher.features.web.requests.access import LONGEST_SECONDS, Access, Session
from dispatcher.features.web.requests.asked import Asked, NotShown
from dispatcher.features.web.requests.guard import BODY_BYTES, Guard
from dispatcher.features.web.requests.password import TooManyTries, source_of
from dispatcher.features.web.requests.uploads import store_upload
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.system.command import translate
from shared.text.logs import Logger

log = Logger()

FORM_TOKEN = "form-token"  # noqa: S105 - the name of the field


@dataclass(frozen=True)
class Page:
    """`writes`: takes POST alone, and not of sessions that may only look; `whole_host`: not for a session that sees some chats."""

    path: str
    answer: Callable[[Asked], Response]
    writes: bool = False
    whole_host: bool = False
    takes_file: bool = False


@dataclass(frozen=True)
class PageServices:
    """What all requests share."""

    settings: Settings
    access: Access
    redis: Redis
    jobs: Jobs
    port: int
    secure: bool = False  # the browser's connection has TLS

    @property
    def cookie(self) -> str:
        """Its name. A browser has one set of cookies for all ports of a host, so each page has its own."""
        return f"__Host-hmem-{self.port}" if self.secure else f"hmem-{self.port}"


def application(served: PageServices, pages: Sequence[Page], origins: Sequence[str], proxy: str) -> Starlette:
    """`origins`: the values of that header that are ours; `proxy`: the address that alone may ask, "" for any."""
    routes: list[BaseRoute] = [
        Route(page.path, partial(_answer, served, page), methods=["POST" if page.writes else "GET"]) for page in pages
    ]
    routes += [
        Route("/enter", partial(_enter, served), methods=["GET", "POST"]),
        Route("/leave", partial(_leave, served), methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    handlers = {HTTPException: _http_error, Exception: _defect}
    guard = Middleware(Guard, origins=origins, proxy=proxy)
    return Starlette(routes=routes, middleware=[guard], exception_handlers=handlers)


async def _answer(served: PageServices, page: Page, request: Request) -> Response:
    session = served.access.session(request.cookies.get(served.cookie, ""))
    if session is None:
        return _door(served, 401)
    grant = session.grant
    if (page.writes and grant.read_only) or (page.whole_host and not grant.whole_host):
        return _error(404, NOT_HERE)
    try:
        form = await _form(request, page, session, served.settings) if page.writes else {}
        asked = Asked(
            session, served.settings, served.redis, served.jobs, request.url.path,
            {**request.query_params, **request.path_params}, form, request.headers.get("hx-request") == "true",
        )  # fmt: skip
        return await run_in_threadpool(page.answer, asked)
    except NotShown:
        return _error(404, NOT_HERE)
    except Exception as error:
        ours = translate(error)
        if ours is None:
            raise
        return _error(400 if isinstance(ours, InvalidInput) else 503, str(ours))


NOT_HERE = "There is no such page, or this link does not open it."


async def _form(request: Request, page: Page, session: Session, settings: Settings) -> dict[str, str]:
    """The fields of a form with the session's token; of a file, where it was stored. InvalidInput without the token."""
    if page.takes_file and int(request.headers["content-length"]) * 2 > shutil.disk_usage(tempfile.gettempdir()).free:
        raise InvalidInput(
            "There is not enough room for this file on the disk of this host. Free some, or import it there."
        )
    async with request.form(max_files=int(page.takes_file), max_fields=100, max_part_size=BODY_BYTES) as fields:
        form = {name: value for name, value in fields.items() if not isinstance(value, UploadFile)}
        if not hmac.compare_digest(form.get(FORM_TOKEN, "").encode(), session.form_token.encode()):
            raise InvalidInput("The form is from an earlier session. Load the page again, then repeat what you did.")
        for name, value in fields.items():
            if isinstance(value, UploadFile) and value.size:
                form[name] = await run_in_threadpool(store_upload, settings, value.file)
        return form


async def _enter(served: PageServices, request: Request) -> Response:
    """A token, from the link or from the form, or the password becomes a session; the address without the token follows."""
    token = request.query_params.get("token", "")
    if request.method == "POST":
        form = await request.form(max_files=0, max_fields=3)
        if password := str(form.get("password", "")):
            return await _enter_by_password(served, request, password)
        token = str(form.get("token", ""))
    name = served.access.enter(token)
    if name is None:
        return _door(served, 401, WRONG_LINK if token else "")
    return _entered(served, name)


async def _enter_by_password(served: PageServices, request: Request, password: str) -> Response:
    try:
        name = await served.access.enter_by_password(password, source_of(request, behind_proxy=served.secure))
    except TooManyTries:
        return _door(served, 429, TOO_MANY_TRIES)
    return _entered(served, name, LONGEST_SECONDS) if name else _door(served, 401, WRONG_PASSWORD)


def _entered(served: PageServices, name: str, seconds: float | None = None) -> Response:
    """`seconds`: how long the browser keeps the cookie, None until it is closed."""
    # A redirect would be the other site's, from where the link may come.
    answer = HTMLResponse(render("entered.html", title="Signed in"))
    answer.set_cookie(
        served.cookie, name, int(seconds) if seconds else None, httponly=True, samesite="strict", secure=served.secure, path="/"
    )  # fmt: skip
    return answer


async def _leave(served: PageServices, request: Request) -> Response:
    ended = served.access.leave(request.cookies.get(served.cookie, ""))
    answer = _door(served, 200, left=True) if ended else _error(503, NOT_ENDED)
    answer.delete_cookie(served.cookie, path="/", httponly=True, samesite="strict", secure=served.secure)
    return answer


NOT_ENDED = "This session is over only until the page is started again: its file could not be written. Make room on the disk, then log in and out."
WRONG_LINK = "This link does not open it: hmem web was started again since, or the link is not whole."
WRONG_PASSWORD = "This password does not open it."  # noqa: S105 - a sentence
TOO_MANY_TRIES = "Too many tries are waiting. Wait a minute, or open a link: hmem web prints one on a terminal."


def _door(served: PageServices, status: int, wrong: str = "", *, left: bool = False) -> Response:
    page = render("door.html", title="Enter", wrong=wrong, left=left, has_password=served.access.has_password)
    return HTMLResponse(page, status)


def _error(status: int, sentence: str) -> Response:
    return HTMLResponse(
        render("error.html", title="Not done" if status != 404 else "Not here", sentence=sentence), status
    )


async def _http_error(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 400
    return _error(status, NOT_HERE if status in (404, 405) else "The request cannot be read.")


async def _defect(request: Request, error: Exception) -> Response:
    log.error("a page failed", page=request.url.path, error=type(error).__name__, exc_info=error)
    return _error(500, "This page failed by a defect of the program. Its log has the details; please report it.")
