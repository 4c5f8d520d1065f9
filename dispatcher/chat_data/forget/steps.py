"""The order of a forgetting: its STEPS, and where else a crash may come. Each may be repeated, so a resumed forgetting starts at the first one and
changes nothing twice.

journal      the request, the tombstones and the pieces for the scan are durable (journal.py)
hidden       the tombstones are in forgotten.jsonl: nothing covered is injected any more
announced    … and in Redis, for all future nights
ended        sessions are ended, tasks answered or cancelled; what they stored meanwhile has a tombstone too
redis, store, claude, files            the layers of this host
night        archive, mirror, caches, releases
caches       every running dispatcher has dropped its caches; requested at `announced`, and again here
scanned
rewritten    Redis' own files and logs, if REDIS_ADMIN_URL is set (redis_files.py)
receipt      then the journal is removed
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from redis import Redis

from dispatcher.chat_data.forget.archive_part import NightPart
from dispatcher.chat_data.forget.journal import Journal, Journals
from dispatcher.chat_data.forget.layers.claude import ClaudeLayer
from dispatcher.chat_data.forget.layers.files import remove_files, remove_kept, remove_media
from dispatcher.chat_data.forget.layers.redis import RedisLayer
from dispatcher.chat_data.forget.layers.redis_files import rewrite
from dispatcher.chat_data.forget.layers.store import StoreLayer
from dispatcher.chat_data.forget.layers.tasks import Running, TasksLayer
from dispatcher.chat_data.forget.receipt import receipt, what_stays, write_receipt
from dispatcher.chat_data.forget.request import erasing_each
from dispatcher.chat_data.forget.scan import Proof
from dispatcher.memory.store.events import hand_over
from dispatcher.memory.tombstones import Forgotten, announce, end_conversation, raise_mark
from shared.config.ownership import OURS
from shared.config.settings import Settings
from shared.errors import SettingsError
from shared.release.retention import release_runs
from shared.system.faults import crash_point
from shared.system.files import own_root
from shared.system.owner_key import Signing, open_signing
from shared.system.processes import died_here
from shared.system.steps import Step, StepRunner
from shared.turns.records import Tombstone
from shared.turns.signed import signing_key
from shared.wire import keys
from shared.wire.values import living

Say = Callable[[str], None]
COPY_LEFT = (
    "the copy {copy} still has the words, or cannot be read; bring it up to date with HMEM_NIGHT_DIR/archive (docs/backups.md), "
    "then run hmem forget --resume"
)


@dataclass
class ForgetContext:
    """The connections and settings of a forgetting."""

    settings: Settings
    client: Redis
    store: StoreLayer | None
    tasks: TasksLayer
    say: Say

    @cached_property
    def journals(self) -> Journals:
        return Journals(self.settings.hmem_state_dir, lambda: self.signing)

    @cached_property
    def signing(self) -> Signing:
        """Opened with the first journal, because that may create the owner's key, and a preview changes nothing.

        Without a usable key, what is to be forgotten is still hidden.
        """
        try:
            return open_signing(self.settings)
        except SettingsError as error:
            return Signing(None, str(error).removesuffix("."))


@contextmanager
def open_context(settings: Settings, client: Redis, say: Say) -> Iterator[ForgetContext]:
    """SettingsError without the secret: tasks that are taken out of the queue are answered, and the bot accepts only signed answers."""
    secret = signing_key(settings, "queued messages could not be answered")
    own_root(settings.hmem_state_dir, OURS["hmem_state_dir"])
    with closing(StoreLayer(settings)) if settings.has_day_store else nullcontext() as store:
        yield ForgetContext(settings, client, store, TasksLayer(client, secret), say)


def carry_out(context: ForgetContext, journal: Journal, *, accept: bool = False) -> dict[str, Any]:
    """Do all steps; returns the receipt. The journal remains if something is pending or was found, unless the owner accepts that."""
    work = ForgetRun(context, journal)
    work.run_all(STEPS)
    stays = what_stays(work.rewrite(), context.store, journal.scope.asked, context.settings)
    record = receipt(journal, work.found, stays, work.pending, accept=accept)
    write_receipt(context.settings.hmem_state_dir, record)
    crash_point("forget:receipt")
    if record["complete"]:
        context.journals.remove(journal)
    return record


class ForgetRun(StepRunner):
    """The steps of one forgetting. `pending`: sentences that name what is not done; `found`: the scan's part of the receipt."""

    def __init__(self, context: ForgetContext, journal: Journal) -> None:
        self._context, self._journal, self._scope = context, journal, journal.scope
        self._forgotten = Forgotten(context.settings.hmem_state_dir)
        self.pending: list[str] = []
        self.found: dict[str, Any] = {}
        self._proven = False

    def commit(self, step: Step, result: Any, seconds: float) -> None:
        """The counts so far."""
        del result, seconds
        self._context.journals.write(self._journal)
        crash_point(f"forget:{step.name}")

    def hide(self) -> None:
        """From now on nothing covered is injected; the other steps may have to wait for the night of an older forgetting."""
        self._context.journals.write(self._journal)
        crash_point("forget:journal")
        self._add(self._scope.tombstones)

    def _add(self, tombstones: list[Tombstone]) -> None:
        """Without the owner's key they only hide; `hmem forget --resume` with the key adds them again."""
        signed = [self._context.signing.signed(tombstone) for tombstone in tombstones]
        for tombstone in signed:
            self._forgotten.add(tombstone)
        crash_point("forget:hidden")
        announce(self._context.client, signed)
        raise_mark(self._context.client)

    def end_conversations(self) -> None:
        """Sessions first, so that running tasks do not become part of the next one."""
        self._end_sessions()
        tasks = self._context.tasks
        self._journal.count("redis: tasks", answered=tasks.withdraw(self._scope))
        meanwhile = tasks.cancel(self._scope)
        self._wait(meanwhile)
        self._cover_late(meanwhile)
        self._end_sessions()

    def _end_sessions(self) -> None:
        for chat_id in self._scope.chats:
            end_conversation(self._context.client, chat_id)

    def _wait(self, meanwhile: list[Running]) -> None:
        if not meanwhile:
            return
        self._context.say(f"{len(meanwhile)} task(s) of the chat are being answered; waiting for them to end.")
        left = self._context.tasks.wait(self._scope)
        self._journal.count("redis: tasks", ended=len(meanwhile) - len(left))
        self.pending += [
            f"task {one.task.task_id if one.task else '(unreadable)'} of chat {one.chat_id} is still being answered; run hmem forget --resume"
            for one in left
        ]

    def _cover_late(self, meanwhile: list[Running]) -> None:
        """Add tombstones for what these tasks stored after the time of the first ones."""
        late: dict[str, dict[str, float | None]] = {}
        for turn in self._context.tasks.stored_late(self._scope, meanwhile):
            late.setdefault(turn.chat_id, {})[turn.turn_id] = turn.timestamp
        name, known = f"erase-{self._journal.forget_id}-more", len(self._scope.tombstones)
        if tombstones := erasing_each(name, self._journal.started_at, late, first=known):
            self._scope.tombstones += tombstones
            self._context.journals.write(self._journal)
            self._add(tombstones)

    def empty_redis(self) -> None:
        layer = RedisLayer(self._context.client)
        for name, number in layer.remove(layer.find(self._scope)).items():
            self._journal.count(name, removed=number)
        client, tasks = self._context.client, self._context.tasks
        self._journal.count("files of messages", removed=remove_media(client, tasks, self._scope))
        self._journal.count("redis: kept files of messages", removed=remove_kept(client, self._scope))

    def empty_store(self) -> None:
        if store := self._context.store:
            for name, number in store.remove(self._scope).items():
                self._journal.count(name, removed=number)
            hand_over(store.event_outbox, self._context.client)  # that they are gone, in the place of their last state

    def empty_claude(self) -> None:
        client: Any = self._context.client
        scope = self._scope
        raws = [client.get(keys.session(chat_id)) for chat_id in scope.chats]
        current = [raw.decode("utf-8", "replace") for raw in raws if raw]
        removed = ClaudeLayer(self._context.settings).remove(scope.chats, scope.sessions, current)
        self._journal.count("claude: transcripts", removed=removed)

    def empty_files(self) -> None:
        self._journal.count("files", removed=remove_files(self._context.settings, self._scope.chats))

    def erase_archive(self) -> None:
        context = self._context
        part = NightPart(context.settings, context.client, self._scope.tombstones, self._journal.later)
        before = release_runs(context.settings.hmem_memory_dir)
        failure = self._unsigned() or part.carry_out(context.say)
        self.pending += filter(None, [failure])
        self._proven = failure is None
        if self._proven:
            remove_files(context.settings, [])  # copies of the old release's index
        self._journal.count("archive", records=part.erased, files=part.erased_files)
        self._journal.count("releases", removed=len(set(before) - set(release_runs(context.settings.hmem_memory_dir))))

    def _unsigned(self) -> str | None:
        signing = self._context.signing
        if signing.key or not self._scope.tombstones:
            return None
        todo = "run hmem forget --resume as the user who has that key"
        return f"{signing.why_not}, so the night would only hide the turns; {todo}. {signing.way_on}".rstrip(" .")

    def drop_caches(self) -> None:
        dropped, left = drop_caches(self._context.client, self._context.say)
        if dropped:
            self._journal.layers["caches of dispatchers"] = {"dropped": len(dropped)}
        self.pending += [
            f"the dispatcher {name} has not dropped its caches; restart it, then run hmem forget --resume"
            for name in left
        ]

    def scan(self) -> None:
        context = self._context
        proof = Proof(context.settings, context.client, context.store, context.tasks, self._scope)
        self.found = proof.search(self._journal.needles, archive=self._proven)
        self.pending += [COPY_LEFT.format(copy=copy) for copy in self.found["copies"]]

    def rewrite(self) -> list[dict[str, str]]:
        """Rewrite Redis' own files and logs; returns the ones that were not rewritten."""
        rewritten = rewrite(self._context.settings, self._context.client, self._context.say)
        for name, how in rewritten.done.items():
            self._journal.count(f"redis: {name}", **{how: 1})
        return rewritten.stays


STEPS = (
    Step("announced", ForgetRun.hide),
    Step("ended", ForgetRun.end_conversations),
    Step("redis", ForgetRun.empty_redis),
    Step("store", ForgetRun.empty_store),
    Step("claude", ForgetRun.empty_claude),
    Step("files", ForgetRun.empty_files),
    Step("night", ForgetRun.erase_archive),
    Step("caches", ForgetRun.drop_caches),
    Step("scanned", ForgetRun.scan),
)


# ── The caches of running dispatchers: each drops them when it sees a new mark, and confirms this in its lease


#: How long to wait for the dispatchers (three heartbeats), between two checks, and before a message about it. Seconds.
DROPPING_SECONDS, LOOK_SECONDS, QUIET_SECONDS = 30.0, 0.2, 2.0


def drop_caches(client: Redis, say: Any) -> tuple[list[str], list[str]]:
    """Names of the dispatchers that have dropped their caches, and of the ones that have not within DROPPING_SECONDS."""
    raise_mark(client)
    waited, begun, reported = sorted(living(client)), time.monotonic(), False
    while True:
        left = [name for name in waited if not (_dropped(client, name) or died_here(name))]
        waiting = time.monotonic() - begun
        if not left or waiting > DROPPING_SECONDS:
            return [name for name in waited if _dropped(client, name)], left
        if not reported and waiting > QUIET_SECONDS:
            say(f"Waiting for {len(left)} dispatcher(s) to drop their caches.")
            reported = True
        time.sleep(LOOK_SECONDS)


def _dropped(client: Any, name: str) -> bool:
    """Whether its lease has the current mark, which another `hmem forget` may have changed meanwhile."""
    return bool(client.get(keys.lease(name)) == client.get(keys.FORGOTTEN))
