"""The page as its unit runs it where dispatcher and night have users of their own: root at the start, then without root's rights."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from redis import Redis

from dispatcher.features.web.requests.password import hashed
from dispatcher.features.web.tests.conftest import Visitor
from dispatcher.features.web.tests.test_pages import finished
from dispatcher.features.web.tests.test_service import UNIT
from shared.system.processes import day_command
from tests.support.machine import free_port, wait_for
from tests.support.processes.as_user import command
from tests.support.users import DAY, NIGHT, Installation
from tests.support.world import REPOSITORY

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")
PASSWORD = "correct horse battery"
#: CAP_SETGID and CAP_SETUID.
BOUND = f"{1 << 6 | 1 << 7:016x}"


@pytest.fixture
def here(redis: Redis, redis_url: str) -> Iterator[Installation]:
    root = Path(tempfile.mkdtemp(prefix="hmem-page-", dir="/var/tmp"))
    made = Installation(root, redis, redis_url)
    made.prepare()
    yield made
    shutil.rmtree(root)


def test_under_its_unit_the_page_is_the_dispatchers_user_and_nights_run_as_theirs(here: Installation) -> None:
    port = free_port()
    with here.secrets("owner").open("a") as file:
        file.write(f'WEB_PASSWORD = "{hashed(PASSWORD)}"\n')
    bounded = ["setpriv", "--bounding-set=-all,+setuid,+setgid", "--inh-caps=-all", "--no-new-privs"]
    filtered = [sys.executable, "-m", "tests.support.processes.sandbox", str(UNIT)]
    words = command(0, (0,), *bounded, *filtered, *day_command("web"))
    variables = here.plain(
        HMEM_CREDENTIALS=str(here.secrets("owner")), HOME=str(here.root / "roots-home"), WEB_SERVICE=f"127.0.0.1:{port}"
    )
    log = here.root / "page.log"
    with log.open("wb") as stream:
        page = subprocess.Popen(words, env=variables, stdout=stream, stderr=stream, cwd=REPOSITORY)
    try:
        wait_for(lambda: "its password opens it" in log.read_text() or page.poll() is not None, "the page")
        assert "token=" not in log.read_text(), "no link stays in the log of a service that has a password"
        state = Path(f"/proc/{page.pid}/status").read_text()
        assert re.search(r"Uid:\s+(\d+)\s+(\d+)\s+(\d+)", state).groups() == (str(DAY),) * 3  # type: ignore[union-attr]
        assert {re.search(rf"{name}:\s+(\w+)", state)[1] for name in ("CapEff", "CapPrm", "CapBnd")} == {BOUND}  # type: ignore[index]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120, follow_redirects=True) as client:
            visitor = Visitor(client)
            wait_for(lambda: _answers(client), "the page to be served")
            assert client.post("/enter", data={"password": PASSWORD}).status_code == 200
            visitor.get("/nights")
            assert "<strong>Done</strong>" in finished(visitor, visitor.post("/nights/run"))
        assert (here.root / "state" / f"web-sessions-{port}.json").stat().st_uid == DAY
        assert (here.root / "night" / "catalog.sqlite").stat().st_uid == NIGHT
        assert here.foreign_files() == []
    finally:
        page.terminate()
        assert page.wait(60) == -signal.SIGTERM, log.read_text()  # which systemd takes for a clean end


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/static/icon.svg").status_code == 200
    except httpx.TransportError:
        return False
