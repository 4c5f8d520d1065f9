"""Which Chromium the tests of the page, and their pictures, are made with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MISSING = (
    "There is no Chromium for the tests of the page. Run scripts/setup --dev (or: apt-get install chromium), or "
    ".venv/bin/playwright install --with-deps chromium."
)


def executable(driver: Playwright) -> str:
    """The system's, else Playwright's own; a test fails without any, so that none is left out unseen."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None) or driver.chromium.executable_path
    if not Path(found).exists():
        pytest.fail(MISSING)
    return found
