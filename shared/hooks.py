"""The seams: what a feature may add to this program, each as one hook; run by pluggy.

A feature is a folder of `dispatcher/features/` with a module `feature`, whose functions marked with `@hook` implement the specifications of the
same names, which are in the modules of SPECIFICATIONS. So is an embedder in `shared/embedding/`, a vector index in `shared/vectors/`, and a front end
in `dispatcher/bots/`. Whatever is in the folders is loaded, and nothing else names it: without its folder, a feature is not there. Hooks return
what they contribute; the core does the writing. Two more modules of a feature are found by their names:

- `settings` has a subclass of `FeatureSettings`, whose fields are settings like all others (`Touched`: the page shows it first);
  `Settings.of(…)` has their values; and perhaps OWNER_SECRETS, the ones that only the owner's commands may read;
- `keys` has KEYS (`shared.wire.key_table.Key`, each beginning with "hcli:mem:"), RIGHTS (user of Redis → `shared.wire.key_table.Right`), and perhaps
  CHAT_KEYS (patterns with `{chat_id}`, of keys that are forgotten with a whole chat) and CHAT_TABLES (what it is called in the archive →
  `shared.wire.key_table.TableOfChats`).

A specification says what happens when an implementation of it raises:

- `fails="closed"`: the error goes on to the caller, and what was to be done is not done;
- `fails="open"`: the error is logged and counted, and the rest goes on without what that feature would have contributed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, ParamSpec, TypeVar

import pluggy

from shared.text.logs import Logger

P = ParamSpec("P")
R = TypeVar("R")

PROJECT = "hmem"
#: Marks a function or method as the implementation of the hook of its name.
hook = pluggy.HookimplMarker(PROJECT)
_specification = pluggy.HookspecMarker(PROJECT)
#: Packages whose folders are features, and modules with further specifications.
FEATURES = ("dispatcher.features", "dispatcher.bots", "shared.embedding", "shared.vectors")
SPECIFICATIONS = (
    "dispatcher.cli.hooks", "dispatcher.queue.chat_commands", "dispatcher.queue.admission", "dispatcher.answering.hooks",
    "dispatcher.bots.hooks", "dispatcher.chat_data.hooks", "dispatcher.health.hooks", "dispatcher.installation.hooks",
    "dispatcher.memory.hooks",
    "shared.config.kinds",
)  # fmt: skip

#: Feature → how often it has raised in this process, and its most recent error. The dispatcher writes them to Redis, and `hmem doctor` shows them.
failures: dict[str, str] = {}
_counts = Counter[str]()


def specification(fails: Literal["open", "closed"]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Marks the specification of a hook. Callers name its parameters; an implementation takes the ones it wants."""

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        function.fails = fails  # type: ignore[attr-defined]
        return _specification(function)

    return mark


class Hooks:
    """The implementations of some plugins (name, module or object), asked in the order of their names."""

    def __init__(self, plugins: Iterable[tuple[str, object]], specifications: Sequence[str] = SPECIFICATIONS) -> None:
        """`specifications`: modules that have them."""
        self._manager = pluggy.PluginManager(PROJECT)
        for module in specifications:
            self._manager.add_hookspecs(import_module(module))
        for name, plugin in plugins:
            self._manager.register(plugin, name)
        self._manager.check_pending()

    def ask(self, spec: Callable[P, R | None], *_: P.args, **arguments: P.kwargs) -> list[R]:
        """What the implementations return; None is no contribution."""
        return [made for _, made in self._each(spec, arguments) if made is not None]

    async def ask_async(self, spec: Callable[P, Awaitable[R | None]], *_: P.args, **arguments: P.kwargs) -> list[R]:
        """The same for implementations that are coroutines; they are awaited one after the other."""
        found = list[R]()
        for name, coroutine in self._each(spec, arguments):
            with _noting_failure(name, spec):
                made = await coroutine
                found += [] if made is None else [made]
        return found

    async def enter(
        self,
        stack: AsyncExitStack,
        spec: Callable[P, AbstractAsyncContextManager[R] | None],
        *_: P.args,
        **arguments: P.kwargs,
    ) -> list[R]:
        """The same for implementations that return asynchronous contexts; they are entered one after the other, and end with the stack."""
        found = list[R]()
        for name, context in self._each(spec, arguments):
            with _noting_failure(name, spec):
                found += [await stack.enter_async_context(context)] if context else []
        return found

    async def run(self, spec: Callable[P, Coroutine[Any, Any, None] | None], *_: P.args, **arguments: P.kwargs) -> None:
        """Run the coroutines that the implementations return side by side, until it is cancelled; one that fails ends alone."""
        import asyncio

        async def noted(name: str, coroutine: Coroutine[Any, Any, None]) -> None:
            with _noting_failure(name, spec):
                await coroutine

        await asyncio.gather(*(noted(name, one) for name, one in self._each(spec, arguments) if one is not None))

    def parts(self, spec: Callable[P, object | None], *_: P.args, **arguments: P.kwargs) -> Hooks:
        """The objects that these implementations return, as plugins themselves."""
        return Hooks((name, part) for name, part in self._each(spec, arguments) if part is not None)

    def _each(self, spec: Callable[..., R], arguments: Mapping[str, Any]) -> Iterator[tuple[str, R]]:
        """Each by itself, because pluggy ends a call at the first exception."""
        found = getattr(self._manager.hook, spec.__name__).get_hookimpls()
        for one in sorted(found, key=lambda one: str(one.plugin_name)):
            made = list[R]()
            with _noting_failure(one.plugin_name, spec):
                made.append(one.function(*[arguments[name] for name in one.argnames]))
            yield from ((one.plugin_name, each) for each in made)


@cache
def features() -> Hooks:
    """The features that are there, loaded at the first call."""
    return Hooks((module.__name__.split(".")[-2], module) for module in feature_modules("feature"))


def feature_names(package: str = FEATURES[0]) -> list[str]:
    """The folders of features in a package, sorted; none where the package is not there."""
    return [folder.name for folder in _folders(package)]


@cache
def feature_modules(name: str) -> tuple[ModuleType, ...]:
    """The modules of this name of the features that have one."""
    # Asked of the files: `find_spec` would import the folder, and that of the Telegram bot imports aiogram.
    there = [(package, one.name) for package in FEATURES for one in _folders(package) if (one / f"{name}.py").exists()]
    return tuple(import_module(f"{package}.{feature}.{name}") for package, feature in there)


def _folders(package: str) -> list[Path]:
    place = find_spec(package)
    found = (Path(one).glob("*/__init__.py") for one in (place and place.submodule_search_locations) or ())
    return sorted((one.parent for one in chain(*found)), key=lambda folder: folder.name)


@contextmanager
def _noting_failure(feature: str, spec: Callable[..., Any]) -> Iterator[None]:
    """What a feature raises is raised on, or logged and counted, as its specification says."""
    try:
        yield
    except Exception as error:
        if spec.fails == "closed":  # type: ignore[attr-defined]
            raise
        _counts[feature] += 1
        failures[feature] = f"{_counts[feature]}×, most recently in {spec.__name__}: {type(error).__name__}: {error}"
        Logger().exception("a feature failed; the rest goes on without it", feature=feature, hook=spec.__name__)
