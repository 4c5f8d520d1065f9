"""Nights that are large enough for workers, the bytes of their releases, and a Dask cluster on loopback: a real scheduler, real workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from nightly.archive import cutting
from nightly.backfill.rebuild import rebuild_archive
from nightly.index import word_parts
from nightly.night.progress import Reporter
from nightly.steps import embed
from nightly.workers import workers
from shared.release.manifest import read_manifest
from tests.servers.ollama_api import OllamaApi
from tests.support.machine import free_port, wait_for
from tests.support.world import BINARIES, World

NOON = 1_707_500_000.0


def make_nights_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few texts count as many."""
    monkeypatch.setattr(workers, "FEWEST_FOR_PROCESSES", 1)
    monkeypatch.setattr(workers, "FEWEST_FOR_CLUSTER", 1)
    monkeypatch.setattr(word_parts, "LEAST_CHUNKS", 1)
    monkeypatch.setattr(cutting, "TASK_BYTES", 500)
    monkeypatch.setattr(embed, "BATCH_TEXTS", 4)


def talk(world: World, chats: int = 16, count: int = 4) -> None:
    """What is said in some chats, some of it twice, and an answer that is cut into passages."""
    for chat in range(chats):
        for number in range(count):
            words = (
                f"heron {number} of {chat % 5} was seen at the pond on day {number}." if number % 3 else "OK, thanks"
            )
            world.say(f"t{number}-{chat}", words, chat_id=str(chat), timestamp=NOON + 60 * number)
    world.say("long", "A long answer. " * 200, chat_id="0", role="asst", timestamp=NOON + 1000)


def rebuilt(world: World, **more: Any) -> tuple[dict[str, str], list[str]]:
    """Build the release from nothing but the cache: its files without the names of runs, with their hashes; what was said of workers."""
    (world.night_dir / "cache.sqlite").unlink(missing_ok=True)
    (summary,) = rebuild_archive(world.settings(**more), Reporter(quiet=True), reembed=False)
    manifest = read_manifest((world.memory_dir / "current").resolve())
    run = f"/{manifest.run}"
    return {name.replace(run, "/run"): file["sha256"] for name, file in manifest.files.items()}, summary["workers"]


class EndingApi(OllamaApi):
    """Embeds as its base does, after calling `at_embed`."""

    at_embed: Callable[[], object] = staticmethod(lambda: None)

    def embed(self, texts: list[str], fault: str) -> dict[str, Any]:
        self.at_embed()
        return super().embed(texts, fault)


class LoopbackCluster:
    """A scheduler and the workers that are started; all of them end with the test."""

    def __init__(self, world: World, certificates: Mapping[str, Path] | None = None) -> None:
        """With `certificates` (by CA, CERT, KEY) it speaks TLS."""
        self._world, port = world, free_port()
        scheme = "tls" if certificates else "tcp"
        self.address = f"{scheme}://127.0.0.1:{port}"
        self.scratch = world.root / "scratch"
        self.scratch.mkdir()
        self.workers: list[subprocess.Popen[bytes]] = []
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", f"{scheme}://127.0.0.1"]
        command += ["--port", str(port), "--no-dashboard", "--no-show"]
        for option, name in (("--tls-ca-file", "CA"), ("--tls-cert", "CERT"), ("--tls-key", "KEY")):
            command += [option, str(certificates[name])] if certificates else []
        self.scheduler = self._start("scheduler", command)
        self._wait_until_said("scheduler", "Scheduler at:")

    def start_worker(self, **more: str) -> str:
        """Its address."""
        name = f"worker-{len(self.workers)}"
        self.workers.append(self._start(name, [str(BINARIES / "hmem-night"), "worker", self.address], **more))
        self._wait_until_said(name, "Registered to:")
        log = self._log(name).read_text()
        return next(line.split()[-1] for line in log.splitlines() if "Start worker at:" in line)

    def end(self) -> None:
        for process in [*self.workers, self.scheduler]:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in [*self.workers, self.scheduler]:
            process.wait()

    def _start(self, name: str, command: list[str], **more: str) -> subprocess.Popen[bytes]:
        environment = self._world.variables(TMPDIR=str(self.scratch), **more)
        with self._log(name).open("wb") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def _log(self, name: str) -> Path:
        return self._world.root / f"{name}.log"

    def _wait_until_said(self, name: str, what: str) -> None:
        wait_for(lambda: what in self._log(name).read_text(), lambda: f"{what}: {self._log(name).read_text()}", 300)


@contextmanager
def loopback_cluster(world: World, certificates: Mapping[str, Path] | None = None) -> Iterator[LoopbackCluster]:
    cluster = LoopbackCluster(world, certificates)
    try:
        yield cluster
    finally:
        cluster.end()


def make_certificates(folder: Path) -> dict[str, Path]:
    """Of an authority of this test, and one that it signed, with its key: CA, CERT, KEY."""
    authority, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    paths = {name: folder / f"{name.lower()}.pem" for name in ("CA", "CERT", "KEY")}
    paths["CA"].write_bytes(_certificate("authority", authority.public_key(), authority, authority=True))
    paths["CERT"].write_bytes(_certificate("host", own.public_key(), authority, authority=False))
    paths["KEY"].write_bytes(own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return paths


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    name: str, key: ec.EllipticCurvePublicKey, signer: ec.EllipticCurvePrivateKey, *, authority: bool
) -> bytes:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(_named("authority"), _named(name), key, x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    return builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)


def killing(process: subprocess.Popen[bytes], number: int) -> Callable[[], None]:
    """Sends the process this signal."""
    return lambda: os.kill(process.pid, number)
