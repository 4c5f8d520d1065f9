"""Chromium, driven by Playwright, before the owner's page."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pytest
from playwright.sync_api import Browser, Dialog, Page, Request, expect, sync_playwright

from dispatcher.features.web.tests.browser import hostile
from dispatcher.features.web.tests.page_world import LIGHT, PageWorld, asked, household, own_world, page_over
from tests.support.processes.chromium import executable

SECONDS = 60_000.0  # milliseconds that Playwright waits: the machine may be busy
#: Notes each violation of the page's policy where the test can read it.
_NOTE_VIOLATIONS = "addEventListener('securitypolicyviolation', (e) => (window.violations ??= []).push(e.violatedDirective + ' ' + e.blockedURI));"
#: Counts clicks, and what Enter does in a form, for as long as the tab is open.
_COUNT_CLICKS = (
    "addEventListener('click', () => { sessionStorage.clicks = 1 + Number(sessionStorage.clicks ?? 0); }, true);"
)


@dataclass
class Watched:
    """A page of the browser, and everything in it that should not be."""

    page: Page
    site: PageWorld
    wrong: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        """It and what it loads by itself (the checks of the first page come after the rest)."""
        self.page.goto(self.site.base + path)
        self.page.locator("[hx-trigger=load]").wait_for(state="detached")
        return self.page

    @contextmanager
    def task(self, what: str) -> Iterator[None]:
        """Prints (`pytest -s`) with how many clicks, and in which time, it was done."""
        began = time.monotonic()
        yield
        clicks = self.page.evaluate(
            "() => { const all = sessionStorage.clicks ?? 0; sessionStorage.clicks = 0; return all; }"
        )
        sys.stdout.write(f"\n{what}: {clicks} clicks, {time.monotonic() - began:.1f} s\n")

    def faults(self) -> list[str]:
        """What was noticed so far; a test takes it once for each page, since violations are noted in the page."""
        violations = self.page.evaluate("window.violations ?? []")
        return [*self.wrong, *(f"policy: {one}" for one in violations)]


def watch(page: Page, site: PageWorld) -> Watched:
    watched = Watched(page, site)

    def requested(request: Request) -> None:
        if not request.url.startswith((f"{site.base}/", "data:", "blob:")):
            watched.wrong.append(f"asks for {request.url}")

    def dismissed(dialog: Dialog) -> None:
        watched.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("console", lambda said: watched.wrong.append(f"console {said.type}: {said.text}"))
    page.on("pageerror", lambda error: watched.wrong.append(f"error: {error}"))
    page.on("request", requested)
    page.on("dialog", dismissed)
    page.add_init_script(_NOTE_VIOLATIONS + _COUNT_CLICKS)
    return watched


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as driver:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        expect.set_options(timeout=SECONDS)  # 5 s otherwise, whatever the timeout of a context
        browser = driver.chromium.launch(executable_path=executable(driver), args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    """The household's page. A test that changes something does it in a chat of its own."""
    with own_world(tmp_path_factory.mktemp("household"), **LIGHT) as world:
        household(world, 3)
        asked(world)
        world.dispatchers[-1].stop()
        with page_over(world) as served:
            yield served


@pytest.fixture(scope="package")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    """The page over a world in which every field attacks it."""
    with own_world(tmp_path_factory.mktemp("attacked"), **LIGHT) as world:
        household(world, 1)
        hostile.plant(world)
        with page_over(world) as served:
            yield served


Enter = Callable[..., Watched]


@contextmanager
def entering(chromium: Browser) -> Iterator[Enter]:
    """An empty page in a browser profile of its own, for which the link has opened a session; arguments are those of `Browser.new_context`."""
    with ExitStack() as ended:

        def enter(site: PageWorld, **options: Any) -> Watched:
            ended.enter_context(patch.dict(os.environ, site.environment))
            context = chromium.new_context(**{"viewport": {"width": 1100, "height": 800}, **options})
            ended.callback(context.close)
            context.set_default_timeout(SECONDS)
            watched = watch(context.new_page(), site)
            context.request.get(site.link, max_redirects=0)  # its cookies are the profile's
            return watched

        yield enter


@pytest.fixture
def enter(chromium: Browser) -> Iterator[Enter]:
    with entering(chromium) as made:
        yield made


@pytest.fixture
def owner(site: PageWorld, enter: Enter) -> Watched:
    """The household's owner before the first page."""
    return enter(site)
