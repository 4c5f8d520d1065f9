"""The exhaustive model of a night that may die twice, in pure Python.

Kept is only what survives a crash: Redis, the archive, the releases, `current`, and of the night's folder the steps that are committed.
Every action below is atomic (one rename, or one script in Redis); a crash may come between any two, twice; one turn may be said, or one
rewritten, between any two. Every history that can be made of that is walked, equal states once. Asked of every state:

    lost     the last value of a turn is neither in Redis nor what the archive recalls
    hidden   it is neither in Redis nor in the release in use: archived, but nobody finds it
    older    the release in use recalls an older value than one before it did
    stuck    a quiet night has ended, and a turn is still in Redis or not in the release
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from nightly.pipeline import STEPS

Pairs = frozenset[tuple[str, int]]  # turn, version
NOTHING: Pairs = frozenset()

#: What each step of the night does that outlives it, in order; committing the step is one more action. A step that only writes into its
#: own output has none: the output has its name or it has not.
ACTIONS: dict[str, tuple[str, ...]] = {
    "export": ("export",),
    "archive": ("archive",),
    "chunk": ("chunk",),
    "note": (),
    "dream": (),
    "embed": (),
    "build": (),
    "summarise": (),
    "publish": ("bring", "switch"),
    "flush": ("flush",),
    "restart": (),
}
#: Their results stand in the step's output: without its name it is discarded, so they happen as the step is committed.
IN_OUTPUT = frozenset({"export", "chunk"})

CRASHES = 2
EVENTS = {"new": ("t2", 1), "rewrite the new one": ("t1", 2), "rewrite the old one": ("t0", 2)}


@dataclass(frozen=True)
class Night:
    """The folder of an unfinished night. `release`: runs of the segments that it was built from, in its committed chunk step."""

    run: int
    parent: int
    done: tuple[str, ...] = ()
    exported: Pairs | None = None
    release: frozenset[int] = frozenset()


@dataclass(frozen=True)
class State:
    """What survives. `said`: the last value of every turn; `seen`: the highest version that a release in use ever recalled, by turn."""

    redis: Pairs
    said: Pairs
    seen: Pairs
    archive: frozenset[tuple[int, Pairs]]  # segment's run, its records
    releases: frozenset[tuple[int, frozenset[int]]]  # run, its segments
    current: int
    night: Night | None = None

    def recalled(self, segments: frozenset[int] | None = None) -> dict[str, int]:
        """Turn → version of the highest run, of all segments or of some."""
        versions: dict[str, int] = {}
        for run, records in sorted(self.archive):
            if segments is None or run in segments:
                versions |= dict(records)
        return versions

    def served(self) -> dict[str, int]:
        return self.recalled(dict(self.releases)[self.current])


#: One turn said yesterday (archived, released), one since.
START = State(
    redis=frozenset({("t1", 1)}), said=frozenset({("t0", 1), ("t1", 1)}), seen=frozenset({("t0", 1)}),
    archive=frozenset({(1, frozenset({("t0", 1)}))}), releases=frozenset({(1, frozenset({1}))}), current=1,
)  # fmt: skip


@dataclass(frozen=True)
class Order:
    """A way to run the night: steps with their actions, and how the flush decides."""

    steps: tuple[tuple[str, tuple[str, ...]], ...]
    flush: str = "proven"

    def actions(self, step: str) -> tuple[str, ...]:
        return dict(self.steps)[step]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.steps)


def product_order() -> Order:
    """The order of the program itself; a step that the model does not know is an error."""
    return Order(tuple((step.name, ACTIONS[step.name]) for step in STEPS))


def with_flush_before(order: Order, step: str) -> Order:
    """The same with the flush, which compares, moved ahead of that step."""
    rest = [name for name in order.names if name != "flush"]
    rest.insert(rest.index(step), "flush")
    return Order(tuple((name, order.actions(name)) for name in rest), "compared")


def broken_orders() -> dict[str, Order]:
    """Ways to run the night that must be found out."""
    order = product_order()
    return {
        "flush before switch": with_flush_before(order, "publish"),
        "flush before archive": with_flush_before(order, "archive"),
        "blind DEL of exported keys": replace(order, flush="blind"),
        "flush by pattern": replace(order, flush="pattern"),
    }


# --- one action ------------------------------------------------------------------------------------------------------------------


def act(state: State, action: str, flush: str) -> State:
    """The state after one action of the night under way."""
    night = state.night
    assert night is not None
    if action == "archive":
        return _archive(state, night)
    if action == "bring":
        return state if _up_to_date(state, night) else _with_release(state, night)
    if action == "switch":
        return state if _up_to_date(state, night) else _switched(state, night)
    if action == "flush":
        return replace(state, redis=state.redis - _flushed(state, night, flush))
    raise ValueError(action)


def _archive(state: State, night: Night) -> State:
    """A segment with what the archive would not recall yet; one that is there already is never written again."""
    known = state.recalled(frozenset(run for run, _ in state.archive if run < night.run))
    fresh = frozenset((turn, version) for turn, version in night.exported or () if known.get(turn) != version)
    if not fresh or night.run in dict(state.archive):
        return state
    return replace(state, archive=state.archive | {(night.run, fresh)})


def _up_to_date(state: State, night: Night) -> bool:
    return night.release == dict(state.releases)[state.current]


def _with_release(state: State, night: Night) -> State:
    others = frozenset(release for release in state.releases if release[0] != night.run)
    return replace(state, releases=others | {(night.run, night.release)})


def _switched(state: State, night: Night) -> State:
    after = replace(state, current=night.run)
    seen = dict(state.seen)
    seen |= {turn: max(version, seen.get(turn, 0)) for turn, version in after.served().items()}
    return replace(after, seen=frozenset(seen.items()))


def _flushed(state: State, night: Night, flush: str) -> Pairs:
    """What this kind of flush deletes of what stands in Redis now."""
    exported = night.exported or NOTHING
    if flush == "pattern":
        return state.redis
    if flush == "blind":
        turns = {turn for turn, _ in exported}
        return frozenset(pair for pair in state.redis if pair[0] in turns)
    if flush == "compared":
        return state.redis & exported
    published = dict(state.releases)[state.current]
    proven = frozenset(pair for run, records in state.archive if run in published for pair in records)
    return state.redis & exported & proven


def commit(state: State, step: str) -> State:
    """The step's output gets its name, and with it what it holds."""
    night = state.night
    assert night is not None
    if step == "export":
        night = replace(night, exported=state.redis)
    if step == "chunk":
        night = replace(night, release=frozenset(run for run, _ in state.archive))
    return replace(state, night=replace(night, done=(*night.done, step)))


# --- one history -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moment:
    """A state, how far the step under way has come (forgotten in a crash), and what may still happen."""

    state: State
    phase: int = 0
    nights: int = 2  # that will still be begun: the second is quiet
    crashes: int = CRASHES
    events: int = 1


@dataclass
class Found:
    """Histories walked, different moments in them, and what was violated at which action."""

    histories: int = 0
    moments: int = 0
    violations: set[tuple[str, str]] = field(default_factory=set)


def check(order: Order) -> Found:
    """Walk every history of this order."""
    found, counts = Found(), dict[Moment, int]()
    found.histories = _walk(Moment(START), order, found, counts)
    found.moments = len(counts)
    return found


def _walk(moment: Moment, order: Order, found: Found, counts: dict[Moment, int]) -> int:
    """Histories from this moment on; each moment is walked once."""
    if moment in counts:
        return counts[moment]
    name, after = _next(moment, order)
    if after is None:
        found.violations.update(("stuck", kind) for kind in _stuck(moment.state))
        counts[moment] = 1
        return 1
    total = 0
    for what, next_moment in [(name, after), *_crash(moment, order), *_event(moment)]:
        found.violations.update((kind, what) for kind in _violated(next_moment.state))
        total += _walk(next_moment, order, found, counts)
    counts[moment] = total
    return total


def _next(moment: Moment, order: Order) -> tuple[str, Moment | None]:
    """What happens if nothing goes wrong."""
    state = moment.state
    if state.night is None:
        if not moment.nights:
            return "end", None
        run = 1 + max([state.current, *dict(state.archive), *dict(state.releases)])
        begun = replace(state, night=Night(run, state.current))
        return "begin", replace(moment, state=begun, nights=moment.nights - 1, phase=0)
    step = next((name for name in order.names if name not in state.night.done), None)
    if step is None:
        return "finish", replace(moment, state=replace(state, night=None), phase=0)
    actions = [action for action in order.actions(step) if action not in IN_OUTPUT]
    if moment.phase < len(actions):
        action = actions[moment.phase]
        return action, replace(moment, state=act(state, action, order.flush), phase=moment.phase + 1)
    return f"{step} committed", replace(moment, state=commit(state, step), phase=0)


def _crash(moment: Moment, order: Order) -> Iterator[tuple[str, Moment]]:
    """The process dies; the next run finishes this night. Before its segment is written, it exports anew."""
    night = moment.state.night
    if not moment.crashes or night is None:
        return
    if "archive" not in night.done and night.run not in dict(moment.state.archive):
        night = Night(night.run, night.parent)
    state = replace(moment.state, night=night)
    yield "crash", replace(moment, state=state, phase=0, crashes=moment.crashes - 1)


def _event(moment: Moment) -> Iterator[tuple[str, Moment]]:
    """Somebody says something, unless no whole night would follow it."""
    if not moment.events or not moment.nights:
        return
    state = moment.state
    for event, pair in EVENTS.items():
        redis, said = (frozenset(p for p in pairs if p[0] != pair[0]) | {pair} for pairs in (state.redis, state.said))
        yield event, replace(moment, state=replace(state, redis=redis, said=said), events=0)


def _violated(state: State) -> Iterable[str]:
    missing = dict(state.said - state.redis)
    archived, served = state.recalled(), state.served()
    if any(archived.get(turn) != version for turn, version in missing.items()):
        yield "lost"
    if any(served.get(turn) != version for turn, version in missing.items()):
        yield "hidden"
    if any(served.get(turn, 0) < version for turn, version in state.seen):
        yield "older"


def _stuck(state: State) -> Iterable[str]:
    if state.redis:
        yield "in Redis"
    if state.served() != dict(state.said):
        yield "not in the release"
