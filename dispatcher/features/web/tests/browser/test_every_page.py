"""Every page in a browser: without a fault, without JavaScript, on a narrow screen, and as WCAG 2.2 AA wants it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, Literal

import pytest

from dispatcher.features.web.tests.browser.conftest import Enter, Watched
from dispatcher.features.web.tests.browser.visits import VISITS
from dispatcher.features.web.tests.page_world import PageWorld

AXE = Path(__file__).parent.parent / "axe"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa"]
NARROW = 360
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
#: Elements whose right edge is beyond the screen, and in no box that scrolls by itself.
TOO_WIDE = """() => [...document.querySelectorAll("body *")].filter((one) => !one.closest(".wide") && !one.closest(".hidden")
  && one.getBoundingClientRect().right > innerWidth + 0.5).map((one) => `${one.tagName}.${one.className}`).slice(0, 8)"""
OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
#: Where a part comes after the rest: the page, the link to it without JavaScript, and what is there.
LATER = {
    "operations": ("/operations", "Show them on a page of its own", "All checks"),
    "import": ("/import", "Imports so far", "Nothing has been imported yet"),
}
#: An answer of 404 and 401 is an error in the browser's console.
EXPECTED = {"missing": "status of 404"}


def faults(watched: Watched, name: str) -> list[str]:
    return [one for one in watched.faults() if name not in EXPECTED or EXPECTED[name] not in one]


def test_every_page_opens_without_a_fault_and_nothing_from_elsewhere(owner: Watched) -> None:
    for name, visit in VISITS.items():  # the last one ends the session
        visit(owner)
        page = owner.page
        assert (page.locator("h1").count(), page.locator("main").count()) == (1, 1), name
        page.evaluate(OPEN_ALL)
        assert faults(owner, name) == [], name
        owner.wrong.clear()


@pytest.mark.slow
@pytest.mark.parametrize("name", VISITS)
def test_a_page_fits_on_a_narrow_screen_and_has_no_violation_of_wcag_in_light_and_dark(
    owner: Watched, name: str
) -> None:
    page = owner.page
    page.set_viewport_size({"width": NARROW, "height": 700})
    VISITS[name](owner)
    for state in ("as it opens", "with all details open"):
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= NARROW, f"{state}: {page.evaluate(TOO_WIDE)}"
        page.evaluate(OPEN_ALL)
    page.set_viewport_size({"width": 1100, "height": 800})
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(f"matchMedia('(prefers-color-scheme: {scheme})').matches")
        assert _violations(owner) == [], scheme


def _violations(watched: Watched) -> list[str]:
    watched.page.evaluate((AXE / "axe.min.js").read_text(encoding="utf-8"))
    found: Any = watched.page.evaluate("(tags) => axe.run(document, { runOnly: { type: 'tag', values: tags } })", RULES)
    assert len(found["passes"]) > 5, "it has looked at the page"
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


def test_axe_is_the_file_of_its_package() -> None:
    stated = re.findall(r"\| `([^`]+)` \|.*`([0-9a-f]{64})`", (AXE / "README.md").read_text(encoding="utf-8"))
    assert [(name, hashlib.sha256((AXE / name).read_bytes()).hexdigest()) for name, _ in stated] == stated
    assert len(stated) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", VISITS)
def test_a_page_says_the_same_without_javascript(site: PageWorld, enter: Enter, name: str) -> None:
    watched = enter(site, java_script_enabled=False)
    page = watched.page
    if name in LATER:
        path, link, there = LATER[name]
        page.goto(f"{site.base}{path}")
        page.get_by_role("link", name=link).click()
        assert there in page.inner_text("main")
        return
    VISITS[name](watched)
    assert len(page.inner_text("main")) > 30
    if name == "job":
        page.get_by_role("link", name="Look again").or_(page.get_by_text("Done")).first.wait_for()
