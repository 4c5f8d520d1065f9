"""The Telegram bot: it uses the Redis contract and the Bot API, and imports nothing of the dispatcher's worker.

Importing aiogram builds its 400 types, of which the bot uses a few dozen: two thirds of the bot's start, and 100 MB. aiogram asks pydantic to
defer that (`defer_build`), and then does it itself at the end of its import. That step is left out here, before anything of this package imports
aiogram: pydantic builds a type when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel

import shared.wire.client  # noqa: F401 - ahead of what imports redis-py: without the SDK of OpenTelemetry

_names = dict[str, Any]()  # what the annotations of aiogram's types refer to
_pydantics: Any = BaseModel.__dict__["model_rebuild"]


@contextmanager
def _without_building() -> Iterator[None]:
    """Aiogram's last step only tells us the names that its types refer to."""

    def rebuild(cls: type[BaseModel], /, *, _parent_namespace_depth: int = 2, **more: Any) -> Any:
        if cls.__module__.startswith("aiogram.types."):
            _names.update(more.get("_types_namespace") or {})
            return None
        return _pydantics.__func__(cls, _parent_namespace_depth=_parent_namespace_depth + 1, **more)

    BaseModel.model_rebuild = classmethod(rebuild)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        BaseModel.model_rebuild = _pydantics  # type: ignore[method-assign]


def _rebuild(cls: type[BaseModel], /, **more: Any) -> Any:
    """What pydantic calls when it comes across a type that is not built."""
    return _pydantics.__func__(cls, **({"_types_namespace": _names} | more))


with _without_building():
    from aiogram.methods import Response
    from aiogram.methods.base import TelegramMethod
    from aiogram.types.base import TelegramObject

for _base in (TelegramObject, TelegramMethod, Response):
    _base.model_rebuild = classmethod(_rebuild)  # type: ignore[method-assign, assignment]
