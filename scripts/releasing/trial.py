"""A release on trial: the wheel in a new virtual environment, with the locked packages, out of reach of the checkout."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from scripts.demo_host import STAND_IN, DemoFailed, Message, temporary_host
from scripts.releasing.source import ReleaseRefused, Source

CHAT, SAID, ASKED, FACT = 4711, "The code of the boiler is 9320.", "how do I unlock the heating?", "9320"


def try_release(source: Source, wheel: Path, lock: Path, work: Path) -> list[str]:
    """What was seen, as lines; ReleaseRefused if something of it is wrong."""
    programs = _installed(wheel, lock, work / "clean")
    seen = [_run(programs / name, "--version") for name in ("hmem", "hmem-night")]
    if not all(f"{source.version} (commit {source.commit[:12]})" in line for line in seen):
        raise ReleaseRefused(f"--version says {seen}, but this is {source.version} of commit {source.commit[:12]}.")
    place = _run(programs / "python", "-I", "-c", "import dispatcher; print(dispatcher.__file__)")
    if not place.startswith(str(work / "clean")):
        raise ReleaseRefused(f"The trial does not run the wheel's code but {place}. Unset PYTHONPATH and try again.")
    try:
        return [*seen, *_day_and_night(programs)]
    except DemoFailed as error:
        raise ReleaseRefused(f"The wheel is installed, but does not work: {error}") from error


def _installed(wheel: Path, lock: Path, place: Path) -> Path:
    """The directory of the programs of a new virtual environment."""
    _run(Path(sys.executable), "-m", "venv", str(place))
    pip = (place / "bin" / "python", "-I", "-m", "pip", "--quiet", "--disable-pip-version-check")
    _run(*pip, "install", "--require-hashes", "--only-binary", ":all:", "-r", str(lock))
    _run(*pip, "install", "--no-deps", "--no-index", str(wheel))
    _run(*pip, "check")
    return place / "bin"


def _run(program: Path, *arguments: str) -> str:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, cwd="/", check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise ReleaseRefused(
            f"{program.name} {' '.join(arguments)[:60]} ended with exit code {done.returncode}:\n{said}"
        )
    return done.stdout.strip()


def _day_and_night(programs: Path) -> list[str]:
    """A message is answered, a night makes a release of it, and a question in other words finds it by its vector."""
    with temporary_host(keep=False, programs=programs) as host:
        host.start_redis()
        host.start_dispatcher(STAND_IN)
        host.enqueue("trial-1", Message(CHAT, "trial", SAID), datetime.now(UTC))
        host.collect("trial-1")
        night = host.command("hmem-night", "run")
        doctor = json.loads(host.command("hmem", "doctor", "--json", check=False))
        found = json.loads(host.command("hmem", "search", "--json", "--", str(CHAT), ASKED))["hits"]
    embedder = next(one for one in doctor["findings"] if one["name"] == "embedder")
    hit = next((one for one in found if FACT in one["text"]), None)
    if hit is None or not hit["scores"]["meaning"]:
        raise DemoFailed(f"a search by meaning does not find what was said: {found}")
    return [
        night,
        f"hmem doctor, embedder: {embedder['sentence']}",
        f"hmem search: {hit['text']!r}, meaning {hit['scores']['meaning']:.2f}",
    ]
