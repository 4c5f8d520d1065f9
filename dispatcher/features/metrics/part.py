"""Metrics for Prometheus: what this dispatcher does, and the state of queue, release and night. Off unless METRICS_LISTEN is set.

No label contains a chat, a message or any free text: each has a small fixed set of values. While metrics are off, nothing is counted and the
library is not loaded. The endpoint has its own thread, and a scrape never uses the worker's connection.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dispatcher.answering.hooks import OUTCOMES
from dispatcher.features.metrics.settings import MetricsSettings
from dispatcher.prompt.context import DEGRADED, OTHER, RELEASE, degraded_kind
from shared.config.settings import Settings
from shared.config.values import listen_address
from shared.errors import SettingsError
from shared.hooks import hook
from shared.text.logs import Logger

if TYPE_CHECKING:
    from dispatcher.prompt.context import Context

log = Logger()

#: Families of models. The model of a task may be any text.
MODELS = ("haiku", "sonnet", "opus")
#: Counters of one answer (dispatcher/claude/client.py) that are tokens, and their label.
TOKENS = {"input_tokens": "input", "output_tokens": "output", "cache_read": "cache_read"}

_TASK_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
_LOOKUP_SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2.5)
_TOKEN_BUCKETS = (25, 50, 100, 200, 400, 800, 1600, 3200, 6400)


class MetricsPart:
    """One per dispatcher; counts, and answers scrapes until the dispatcher stops. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        """SettingsError if METRICS_LISTEN cannot be used; an address that is in use is only logged."""
        from prometheus_client import CollectorRegistry, ProcessCollector

        from dispatcher.features.metrics.gauges import Reading

        self._registry = CollectorRegistry()
        self._define(self._registry)
        self._registry.register(Reading(settings))
        ProcessCollector(registry=self._registry)
        self._server, self._thread = self._listening(settings.of(MetricsSettings).metrics_listen)

    def _define(self, registry: Any) -> None:
        from prometheus_client import Counter, Histogram

        def counted(name: str, text: str, label: str, values: tuple[str, ...]) -> Counter:
            made = Counter(name, text, [label], registry=registry)
            for value in values:  # a series that exists from the start with 0 shows its first increase
                made.labels(value)
            return made

        kinds = (*dict.fromkeys(kind for kind, _ in DEGRADED.values() if kind), RELEASE, OTHER)
        self._tasks = counted("hmem_tasks_total", "Tasks that have ended, by outcome.", "outcome", (*OUTCOMES, OTHER))
        self._task_seconds = Histogram(
            "hmem_task_seconds", "From claim to end of a task.", buckets=_TASK_SECONDS, registry=registry
        )
        self._claude_seconds = Histogram(
            "hmem_claude_seconds", "Calls of the Claude CLI.", ["model"], buckets=_TASK_SECONDS, registry=registry
        )
        self._claude_tokens = counted(
            "hmem_claude_tokens_total", "Tokens that Claude counted.", "kind", tuple(TOKENS.values())
        )
        self._cost = Counter("hmem_claude_cost_dollars_total", "Cost as reported by the Claude CLI.", registry=registry)
        self._context_tokens = Histogram(
            "hmem_context_tokens",
            "Injected tokens of 4 characters in a message, by part.",
            ["part"],
            buckets=_TOKEN_BUCKETS,
            registry=registry,
        )
        self._lookup_seconds = Histogram(
            "hmem_lookup_seconds", "Lookups in release and day.", buckets=_LOOKUP_SECONDS, registry=registry
        )
        self._degraded = counted("hmem_context_degraded_total", "What was missing in contexts.", "kind", kinds)

    def _listening(self, written: str) -> tuple[Any, Any]:
        from prometheus_client import start_http_server

        host, port = listen_address(written)
        try:
            server, thread = start_http_server(port, host, self._registry)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:  # missing metrics must not stop the answers
                log.error(
                    "metrics are not served: the address is in use; each dispatcher needs its own", listen=written
                )
                return None, None
            raise SettingsError(
                f"METRICS_LISTEN: cannot listen on {written}: {error.strerror or error}. "
                "Set a free port and an address of this host, or leave it empty."
            ) from error
        log.info("metrics are served", host=host, port=port)
        return server, thread

    @hook
    def message_finished(self, outcome: str, seconds: float, usage: Mapping[str, float]) -> None:
        self._tasks.labels(outcome if outcome in OUTCOMES else OTHER).inc()
        self._task_seconds.observe(seconds)
        for name, kind in TOKENS.items():
            self._claude_tokens.labels(kind).inc(max(0.0, usage.get(name, 0.0)))
        self._cost.inc(max(0.0, usage.get("cost_usd", 0.0)))

    @hook
    def claude_called(self, seconds: float, model: str | None) -> None:
        named = (model or "").lower()
        known = next((family for family in MODELS if family in named), OTHER if named else "default")
        self._claude_seconds.labels(known).observe(seconds)

    @hook
    def context_composed(self, context: Context) -> None:
        from dispatcher.prompt.budget import TITLES
        from shared.text.format import tokens

        for part in context.parts:
            self._context_tokens.labels(part.name if part.name in TITLES else OTHER).observe(tokens(part.body))
        self._lookup_seconds.observe(context.ms / 1000)
        for kind in {degraded_kind(reason, context.release_run) for reason in context.degraded} - {None}:
            self._degraded.labels(kind).inc()

    @hook
    def dispatcher_stopped(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
