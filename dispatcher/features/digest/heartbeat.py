"""HEARTBEAT_URL: one call after each good night, and one after a night that failed, for a service elsewhere that notices silence.

healthchecks.io takes a plain GET as a success and `/fail` behind the path as a failure; Uptime Kuma's push address (`/api/push/…`) takes `status`,
`msg` and `ping`. Whoever knows the address can feign a good night: it is a secret and in no log.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from urllib.parse import urlsplit, urlunsplit

from dispatcher.features.digest.outgoing import Outgoing
from dispatcher.features.digest.settings import DigestSettings
from dispatcher.health.findings import Setup
from dispatcher.health.nights import nights_of
from shared.text.logs import Logger

log = Logger()

#: Seconds that the service has for its answer.
ANSWER_SECONDS = 10.0
#: A night that ended so many seconds ago is not reported any more: it says nothing about today.
OLD_SECONDS = 86_400.0
KUMA = "/api/push/"


def beat(setup: Setup) -> None:
    """Call the address if the last night is a new one; RedisError if Redis does not answer. A call that fails is repeated by the next look.

    Two dispatchers that look at once both call it, which says the same twice.
    """
    url = setup.settings.of(DigestSettings).heartbeat_url
    if not url:
        return
    now, nights, outgoing = setup.now(), nights_of(setup.redis), Outgoing(setup.redis, setup.settings)
    if nights.failure is not None:
        name, ended, well = f"failed-{nights.failure.run}-{nights.failure.at:.0f}", nights.failure.at, False
    elif nights.good is not None:
        name, ended, well = f"good-{nights.good[0]}-{nights.good[1]:.0f}", nights.good[1], True
    else:
        return
    if outgoing.noted("heartbeat") == name:
        return
    if now - ended > OLD_SECONDS:
        outgoing.note("heartbeat", name)
        return
    if (why := call(address(url, well=well))) is None:
        outgoing.note("heartbeat", name)
        log.info("HEARTBEAT_URL was called", night="good" if well else "failed")
    else:
        log.warning("HEARTBEAT_URL could not be called, and is tried again", reason=why)


def address(url: str, *, well: bool) -> str:
    """What to call."""
    parts = urlsplit(url)
    if KUMA in parts.path:
        query = "status=up&msg=OK&ping=" if well else "status=down&msg=the+night+failed&ping="
        return urlunsplit(parts._replace(query=query, fragment=""))
    path = parts.path if well else f"{parts.path.rstrip('/')}/fail"
    return urlunsplit(parts._replace(path=path, fragment=""))


def call(url: str) -> str | None:
    """GET it; None if the service took it, else why not, without the address."""
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:  # noqa: S310 - the settings accept http and https only
            answer.read(1)
    except urllib.error.HTTPError as error:
        error.close()
        return f"it answered {error.code}"
    except (OSError, http.client.HTTPException, ValueError) as error:  # their text may contain the address
        return type(getattr(error, "reason", error)).__name__
    return None
