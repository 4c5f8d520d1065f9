"""How to get to every page, those behind forms included."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

from playwright.sync_api import Page

from dispatcher.features.web.tests.browser.conftest import Watched
from dispatcher.features.web.tests.page_world import GROUP, NOOR, ODD

OLD = b'{"task_id":"old1","role":"user","chat_id":"old-chat","content":"An old story.","timestamp":1600000000.0}\n'


def of_chat(path: str, chat: str = NOOR, **query: str) -> str:
    return f"{path}?{urlencode({'chat': chat, **query})}"


PATHS = {
    "home": "/", "operations": "/operations", "checked": "/operations?check=1", "found": "/search?q=boiler",
    "nights": "/nights", "night": "/nights/2", "missing": "/nights/777", "changes": "/changes", "import": "/import",
    "settings": "/settings", "chats": "/chats", "chat": of_chat("/chat"), "odd": of_chat("/chat", ODD), "talk": of_chat("/chat/talk"),
    "group": of_chat("/chat/talk", GROUP), "search": of_chat("/chat/search", q="boiler display"), "why": of_chat("/chat/why"),
    "try": of_chat("/chat/try", text="What was wrong with the boiler?"), "forget": of_chat("/forget"),
}  # fmt: skip


def _preview(watched: Watched) -> None:
    page = watched.open("/forget")
    fill(page, "Messages and facts that contain", "boiler")
    submit(page, "form:has(input[value=matching])")


def upload(watched: Watched, content: bytes = OLD) -> Page:
    """To the page that asks what kind of file it is."""
    page = watched.open("/import?list=1")
    page.get_by_label("A file").set_input_files({"name": "old.jsonl", "mimeType": "text/plain", "buffer": content})
    page.get_by_role("button", name="Upload").click()
    page.get_by_text("The file is here").wait_for()
    return page


def _plan(watched: Watched) -> None:
    page = upload(watched)
    page.get_by_label("What it is").select_option("jsonl")
    page.get_by_role("button", name="Show what would come in").click()
    page.get_by_text("What would come in").wait_for()


def _job(watched: Watched) -> None:
    """Of a piece of work that ends at once: there is no pin to remove."""
    page = watched.open("/nights")
    token = page.locator("input[name=form-token]").first.get_attribute("value")
    form: dict[str, str | float | bool] = {"form-token": token or ""}
    answer = page.request.post(f"{watched.site.base}/releases/unpin", form=form, max_redirects=0)
    watched.open(answer.headers["location"])


def _left(watched: Watched) -> None:
    watched.open("/chats").get_by_role("button", name="Log out").click()
    watched.page.get_by_text("You are signed out").wait_for()


VISITS: dict[str, Callable[[Watched], object]] = {
    **{name: lambda watched, path=path: watched.open(path) for name, path in PATHS.items()},  # type: ignore[misc]
    "preview": _preview,
    "uploaded": upload,
    "plan": _plan,
    "job": _job,
    "left": _left,
}


def fill(page: Page, label: str, value: str) -> None:
    page.get_by_label(label, exact=False).fill(value)


def submit(page: Page, form: str) -> None:
    """Click the form's button, and wait for the page that answers."""
    with page.expect_navigation():
        page.locator(form).get_by_role("button").click()
