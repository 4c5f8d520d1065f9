"""The picture of the README (memory), and pictures of every page, in light and dark.

The pages are of a made-up household of nine days, its nights, and questions that a stand-in for Claude answers."""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, FloatRect, Page, sync_playwright

from dispatcher.features.web.tests.page_world import GROUP, NOOR, PageWorld, asked, household, own_world, page_over
from scripts import picture_of_memory
from tests.support.processes.chromium import executable
from tests.support.world import STAND_IN

IMAGES = Path(__file__).parent.parent / "docs" / "images"
DAYS = 9
WIDTH, HEIGHT, MOST_HEIGHT = 1100, 800, 2000
#: Bytes that no picture exceeds, and the numbers of colours that are tried until it does not.
MOST_BYTES, COLOURS = 150_000, (256, 128, 64, 32, 16)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
MESSAGE = "What was wrong with the boiler, and when does Mr Ortega come?"


def _address(path: str, **query: str) -> Callable[[Page], None]:
    def visit(page: Page) -> None:
        page.goto(f"{path}?{urlencode(query)}" if query else path)

    return visit


def _preview(page: Page) -> None:
    page.goto("/forget")
    page.get_by_label("Messages and facts that contain").fill("boiler")
    with page.expect_navigation():
        page.locator("form:has(input[value=matching])").get_by_role("button").click()


def _plan(page: Page) -> None:
    line = b'{"task_id":"old1","role":"user","chat_id":"9912","content":"An old story.","timestamp":1600000000.0}\n'
    page.goto("/import")
    page.locator("input[type=file]").set_input_files({"name": "old.jsonl", "mimeType": "text/plain", "buffer": line})
    page.get_by_role("button", name="Upload").click()
    page.locator("#source").select_option("jsonl")
    with page.expect_navigation():
        page.get_by_role("button", name="Show what would come in").click()


PAGES: dict[str, Callable[[Page], None]] = {
    "home": _address("/"),
    "found": _address("/search", q="boiler valve"),
    "nights": _address("/nights"),
    "night": _address(f"/nights/{DAYS}"),
    "chats": _address("/chats"),
    "chat": _address("/chat", chat=NOOR),
    "talk": _address("/chat/talk", chat=NOOR),
    "group": _address("/chat/talk", chat=GROUP),
    "search": _address("/chat/search", chat=NOOR, q="heating engineer"),
    "why": _address("/chat/why", chat=NOOR, task="q0"),
    "try": _address("/chat/try", chat=NOOR, text=MESSAGE),
    "forget": _address("/forget"),
    "preview": _preview,
    "import": _address("/import"),
    "plan": _plan,
    "settings": _address("/settings"),
}


#: The picture of the README.
MEMORY = "memory"


def small(picture: bytes) -> bytes:
    """The picture as a PNG of fewer colours, in at most MOST_BYTES."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    for colours in COLOURS:
        out = io.BytesIO()
        image.quantize(colours, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        if out.tell() <= MOST_BYTES:
            return out.getvalue()
    raise SystemExit(f"pictures: a picture has {out.tell()} bytes with {colours} colours; {MOST_BYTES} are the most.")


def take(browser: Browser, site: PageWorld, names: list[str], folder: Path) -> None:
    """Each page on a screen of its own height, but no higher than MOST_HEIGHT."""
    for scheme in SCHEMES:
        size = {"width": WIDTH, "height": HEIGHT}
        context = browser.new_context(base_url=site.base, color_scheme=scheme, viewport=size)  # type: ignore[arg-type]
        context.request.get(site.link, max_redirects=0)
        page = context.new_page()
        for name in names:
            PAGES[name](page)
            page.locator("[hx-trigger=load]").wait_for(state="detached")
            height = min(MOST_HEIGHT, max(HEIGHT, page.evaluate("document.documentElement.scrollHeight")))
            clip: FloatRect = {"x": 0, "y": 0, "width": WIDTH, "height": height}
            path = folder / f"page-{name}-{scheme}.png"
            path.write_bytes(small(page.screenshot(full_page=True, clip=clip, animations="disabled")))
            sys.stderr.write(f"{path} ({path.stat().st_size:,} bytes)\n")
        context.close()


def take_memory(folder: Path) -> None:
    """The chat of the README."""
    html = picture_of_memory.made()
    with chromium() as browser:
        page = browser.new_page(viewport={"width": picture_of_memory.WIDTH, "height": 200})
        page.set_content(html)
        path = folder / f"{MEMORY}.png"
        path.write_bytes(small(page.screenshot(full_page=True, animations="disabled")))
    sys.stderr.write(f"{path} ({path.stat().st_size:,} bytes)\n")


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as driver:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=executable(driver), args=sandbox)
        yield browser
        browser.close()


def stand_in(folder: Path) -> str:
    """A Claude CLI that prints a version, too, as the checks of the first page want it."""
    path = folder / "claude"
    path.write_text(f'#!/bin/sh\n[ "$1" != --version ] || exec echo "2.1.330 (stand-in)"\nexec {STAND_IN} "$@"\n')
    path.chmod(0o755)
    return str(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"pictures (default: all): {', '.join(names())}")
    parser.add_argument("--to", type=Path, default=IMAGES, metavar="FOLDER", help="default: docs/images")
    given = parser.parse_args()
    wanted = given.names or names()
    if wrong := [name for name in wanted if name not in names()]:
        parser.error(f"unknown picture {', '.join(wrong)}. Choose from {', '.join(names())}.")
    given.to.mkdir(parents=True, exist_ok=True)
    if MEMORY in wanted:
        take_memory(given.to)
    if pages := [name for name in wanted if name in PAGES]:
        take_pages(pages, given.to)


def names() -> list[str]:
    return [MEMORY, *PAGES]


def take_pages(names: list[str], to: Path) -> None:
    """Of a made-up household, whose nights take a while."""
    with tempfile.TemporaryDirectory(prefix="hmem-pictures-") as folder, own_world(Path(folder)) as world:
        world.environment["CLAUDE_BIN"] = stand_in(world.root)
        world.redis.config_set("appendonly", "yes")
        sys.stderr.write(f"pictures: {DAYS} days and nights of a made-up household ...\n")
        household(world, DAYS)
        asked(world)
        world.environment["HMEM_CONFIG"] = str(world.root / "hmem.toml")
        (world.root / "hmem.toml").write_text("MEMORY_TOKENS = 1200\nSESSION_TOKENS = 30000\n")
        with page_over(world) as site, chromium() as browser:
            take(browser, site, names, to)


if __name__ == "__main__":
    main()
