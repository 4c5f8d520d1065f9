"""Whether the metrics for Prometheus are served where METRICS_LISTEN says, checked with a scrape."""

from __future__ import annotations

import http.client
from contextlib import closing

from dispatcher.features.metrics.settings import MetricsSettings
from dispatcher.health.findings import Fault, Finding, Setup, ok, problem, skipped
from shared.config.values import listen_address
from shared.wire.values import living

#: Seconds for the whole answer, and bytes of it that are read: our names come first or not at all.
ANSWER_SECONDS, READ_BYTES = 3.0, 1 << 20
#: Addresses that mean all addresses of this host.
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not listened on
_OURS = b"hmem_redis_up"


def check_metrics(setup: Setup) -> Finding:
    """A dispatcher serves its metrics there, and not another program."""
    written = setup.settings.of(MetricsSettings).metrics_listen
    if not written:
        return ok("METRICS_LISTEN is empty: no metrics are served.")
    host, port = listen_address(written)
    why = _why_not(_ANY.get(host, host), port)
    if why is None:
        return ok(f"Metrics are served on {written}.")
    if not living(setup.redis):
        return skipped(f"No dispatcher runs, so no metrics are served on {written}.")
    return problem(
        Fault.METRICS_UNREACHABLE,
        f"METRICS_LISTEN={written}: {why}, so the dispatcher's metrics are not served.",
        "Set a free port there (each dispatcher needs its own), then restart the dispatcher.",
    )


def _why_not(host: str, port: int) -> str | None:
    try:
        with closing(http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS)) as connection:
            connection.request("GET", "/metrics")
            found = connection.getresponse().read(READ_BYTES)
    except ConnectionRefusedError:
        return "nothing listens there"
    except TimeoutError:
        return "the program that listens there does not answer like a dispatcher"
    except http.client.HTTPException:
        return "another program listens there"
    except OSError as error:
        return f"the address cannot be reached ({error.strerror or error})"
    return None if _OURS in found else "another program listens there"
