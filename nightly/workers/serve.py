"""`hmem-night worker`: a worker of a Dask cluster, with the embedder of its own settings. It keeps nothing of a task once that is answered."""

from __future__ import annotations

import asyncio
import signal
import tempfile

import dask.config
from distributed import Worker

from nightly.workers.address import own_host, refuse_unless_safe, security_of
from shared.config.settings import Settings
from shared.errors import SettingsError

#: Nothing is written to a disk: words would stay there. A worker without memory waits, and its tasks go to others.
CONFIGURATION = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": 0.9,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.http.routes": [],  # it would show logs and calls to whoever reaches it
}


def serve(settings: Settings, scheduler: str, *, threads: int, memory: str) -> None:
    """Until the scheduler ends, or a signal. SettingsError if the scheduler's address is not safe, or nothing answers there."""
    refuse_unless_safe(settings, scheduler)
    with dask.config.set(CONFIGURATION), tempfile.TemporaryDirectory(prefix="hmem-worker-") as folder:
        try:
            asyncio.run(_serve(settings, scheduler, threads, memory, folder))
        except OSError as error:
            raise SettingsError(
                f"The scheduler {scheduler} cannot be reached ({str(error).rstrip('.')}). Start it (dask scheduler), or give its address as in "
                "tcp://10.0.0.5:8786."
            ) from error


async def _serve(settings: Settings, scheduler: str, threads: int, memory: str, folder: str) -> None:
    worker = Worker(
        scheduler,
        nthreads=threads,
        memory_limit=memory,
        local_directory=folder,
        host=own_host(scheduler),
        security=security_of(settings, scheduler),
        dashboard=False,
        death_timeout=60,
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with worker:
        ends = [asyncio.ensure_future(one) for one in (worker.finished(), stop.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for one in ends:
            one.cancel()
