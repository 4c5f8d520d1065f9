"""Caches of what people said that belong to no object. Made here, so that a forgetting empties them all (dispatcher/memory/cache_dropping.py)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

Value = TypeVar("Value")

_made: list[_lru_cache_wrapper[object]] = []


def cached(size: int) -> Callable[[Callable[..., Value]], _lru_cache_wrapper[Value]]:
    """As functools.lru_cache, for a function of somebody's words."""

    def decorate(function: Callable[..., Value]) -> _lru_cache_wrapper[Value]:
        cache = lru_cache(size)(function)
        _made.append(cache)
        return cache

    return decorate


def empty_all() -> None:
    """Nothing of what was said is in any of them any more."""
    for cache in _made:
        cache.cache_clear()
