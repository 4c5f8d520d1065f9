"""Structured log lines on standard error: for people by default, as JSON with LOG_JSON=1. No message text is ever logged.

structlog is loaded by the first line that a process writes, and without rich, which it would only use for tracebacks: most commands write none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

_level, _as_json, _ready = "INFO", False, False


@contextmanager
def hidden(package: str) -> Iterator[None]:
    """What is imported in this block does not find this package, which it could do without, unless it is loaded already."""
    loaded = package in sys.modules
    if not loaded:
        sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if not loaded and sys.modules.get(package, package) is None:  # and not loaded by another thread
            del sys.modules[package]


class Logger:
    """The logger of a module: `log.warning(event, **details)`, and `debug`, `info`, `error`, `exception`."""

    def __getattr__(self, method: str) -> Any:
        return getattr(_structlog().get_logger(), method)


def bound(**details: Any) -> AbstractContextManager[None]:
    """All lines of this block have these details, too."""
    context: AbstractContextManager[None] = _structlog().contextvars.bound_contextvars(**details)
    return context


def configure_logs(level: str, *, as_json: bool) -> None:
    """From now on as LOG_LEVEL and LOG_JSON say."""
    global _level, _as_json
    _level, _as_json = level.upper(), as_json
    if "structlog" in sys.modules:
        _configure()


def _structlog() -> Any:
    if not _ready:
        with hidden("rich"):
            _configure()
    return sys.modules["structlog"]


def _configure() -> None:
    global _ready
    import logging

    import structlog

    people = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer() if _as_json else people,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[_level]),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
    _ready = True
