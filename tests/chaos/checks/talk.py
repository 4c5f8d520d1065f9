"""kill -9 by day: people chat with the Telegram bot while its process, three dispatchers, their children and Redis' connections are killed.

A round is a message: words, a picture or an album with a caption, a document with one, or a recording. Real parts but for three: Telegram and the
server that transcribes are loopback servers, and Claude a script that begins to write, and after a moment answers each message by repeating it; the
chats see both (STREAM). Every few tenths of a second something dies: the bot, a dispatcher (its lease must run out before another takes its tasks
over), a dispatcher together with its Claude children, one Claude child alone, all connections of Redis, now and then Redis itself (it comes back with
its append-only file). When all is said, nothing more is killed, and every message must have its answer.

`lost`: a message without an answer in its chat, or a turn that is not stored. `doubled`: a turn or a line of the conversation that is there twice.
`torn`: answers of one chat in another order than its messages, or in another chat. Duplicates *in the chat* are counted and told as a note: between
sending a message and writing down its number a bot can die, and Telegram has no key by which it could be sent once.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from redis import Redis, RedisError

from tests.chaos.harness.report import Bench, Outcome, chaos
from tests.servers.files.transcription_api import TranscriptionApi
from tests.servers.telegram_api import TOKEN, TelegramApi
from tests.servers.telegram_messages import mention
from tests.support.machine import script, wait_for
from tests.support.world import World

#: Private chats, and a group in which the bot is called by its name.
CHATS = (*range(101, 113), -1009912)
DISPATCHERS = 3
#: Seconds between two faults, and from a death to the next start.
FAULT_SECONDS, DOWN_SECONDS = (0.3, 2.5), (0.1, 1.0)
#: Seconds between two messages.
PAUSE_SECONDS = (0.0, 0.4)
#: What people send, and how often.
KINDS = (("text", "picture", "album", "document", "recording"), (6, 1, 1, 1, 1))
JPEG = b"\xff\xd8\xff\xe0" + bytes(64)
#: The killing goes on after the last message, until fewer than this many are queued, or this long.
QUIET, LONGER_SECONDS = 10, 60.0
#: Seconds in which all must be answered after the last fault: a lease and a beat, three times over, and the work itself.
PATIENCE_SECONDS = 240.0

CLAUDE = r"""#!/bin/sh
[ "$1" = --help ] && exit
while [ $# -gt 0 ]; do case "$1" in --session-id|--resume) session=$2 ;; esac; shift; done
message=$(grep -ao 'message [0-9]* of -\{0,1\}[0-9]*' | tail -n 1)  # around it there are lines of ours, or JSON
echo "$message" >>"$HOME/asked"
text="{\"type\": \"text_delta\", \"text\": \"writing about $message\"}"
echo "{\"type\": \"stream_event\", \"event\": {\"type\": \"content_block_delta\", \"delta\": $text}}"
n=$(od -An -N1 -tu1 /dev/urandom)
sleep $((n / 100)).$((n % 10))
answer=$(printf '"type": "result", "result": "answer to %s"' "$message")
echo "{\"is_error\": false, $answer, \"session_id\": \"$session\", \"total_cost_usd\": 0.0, \"num_turns\": 1, \"usage\": {}}"
"""


#: `hmem`, with a bot that refuses no message because too many wait.
WITHOUT_LIMITS = """
from dispatcher.bots.telegram import state
from dispatcher.cli.main import main
state.QUEUED = state.QUEUED_OF_CHAT = 100_000
main()
"""


class Process:
    """A command that is started again whenever it has died."""

    def __init__(self, name: str, world: World, variables: dict[str, str], *arguments: str) -> None:
        self.name = name
        self._command = [sys.executable, "-c", WITHOUT_LIMITS, *arguments]
        self._environment = world.variables(**variables)
        self._log = (world.root / f"{name}.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdout=self._log, stderr=self._log, start_new_session=True
            )

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.poll() is None else None

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait(600)
            self._process = None

    def stop(self) -> int:
        """As a supervisor does; the exit code."""
        if self._process is None:
            return 0
        self._process.terminate()
        code = self._process.wait(600)
        self._process = None
        self._log.close()
        return code


def children(pid: int) -> list[int]:
    """Processes that this one started and that live."""
    with contextlib.suppress(OSError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


class Faults(threading.Thread):
    """Something dies every moment, until `end`."""

    def __init__(self, bench: Bench, name: str, random: Random, bot: Process, dispatchers: list[Process]) -> None:
        super().__init__(daemon=True, name="faults")
        self._server, self._random = bench.servers[name], random
        self._dispatchers = dispatchers
        self._ended = threading.Event()
        self.counts: Counter[str] = Counter()
        self.error: BaseException | None = None
        self._kinds: dict[str, tuple[int, Callable[[], None]]] = {
            "bot": (1, lambda: self._restart(bot)),  # it takes seconds to start, and nothing comes in meanwhile
            "dispatcher": (4, self._dispatcher),
            "dispatcher with its children": (2, lambda: self._dispatcher(family=True)),
            "claude": (4, self._claude),
            "connections": (6, self._connections),
            "redis": (1, self._redis),
        }

    def run(self) -> None:
        try:
            while not self._ended.wait(self._random.uniform(*FAULT_SECONDS)):
                names = list(self._kinds)
                (kind,) = self._random.choices(names, weights=[self._kinds[name][0] for name in names])
                self._kinds[kind][1]()
                self.counts[kind] += 1
        except BaseException as error:  # noqa: BLE001 - shown by the check
            self.error = error

    def end(self) -> None:
        self._ended.set()
        self.join(120)
        if self.error:
            raise self.error

    def _restart(self, process: Process, *, family: bool = False) -> None:
        young = children(process.pid) if process.pid and family else []
        process.kill()
        for pid in young:  # each is the head of a group of its own
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        time.sleep(self._random.uniform(*DOWN_SECONDS))
        process.start()

    def _dispatcher(self, *, family: bool = False) -> None:
        self._restart(self._random.choice(self._dispatchers), family=family)

    def _claude(self) -> None:
        young = [pid for process in self._dispatchers if process.pid for pid in children(process.pid)]
        if young:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._random.choice(young), signal.SIGKILL)

    def _connections(self) -> None:
        with Redis.from_url(self._server.url) as client, contextlib.suppress(RedisError):
            client.client_kill_filter(_type="normal", skipme=True)

    def _redis(self) -> None:
        self._server.stop(kill=True)
        time.sleep(self._random.uniform(*DOWN_SECONDS))
        self._server.start()


def talk(api: TelegramApi, count: int, random: Random) -> tuple[dict[int, list[str]], int]:
    """Say so many messages in random chats; what was said in each, in order, and the last update."""
    said: dict[int, list[str]] = {chat: [] for chat in CHATS}
    last = 0
    for _ in range(count):
        chat = random.choice(CHATS)
        text = f"message {len(said[chat])} of {chat}"
        said[chat].append(text)
        last = say(api, chat, text, random.choices(*KINDS)[0])
        time.sleep(random.uniform(*PAUSE_SECONDS))
    return said, last


def say(api: TelegramApi, chat: int, text: str, kind: str) -> int:
    """One message; in the group it calls the bot by its name, which no recording can."""
    said = f"@memory_bot {text}" if chat < 0 else text
    called = mention(said) if chat < 0 else []
    if kind == "text" or (kind == "recording" and chat < 0):
        return api.say(chat, said, entities=called)
    caption: dict[str, Any] = {"caption": said, "caption_entities": called}
    files = api.files
    if kind == "recording":
        return api.say(chat, None, **files.voice(b"OggS " + text.encode()))
    if kind == "document":
        return api.say(chat, None, **caption, **files.document(b"words of a file", "words.txt", "text/plain"))
    contents = [JPEG + text.encode() + bytes([number]) + b"\xff\xd9" for number in range(3 if kind == "album" else 1)]
    pictures = [files.photo(content) for content in contents]
    if kind == "picture":
        return api.say(chat, None, **caption, **pictures[0])
    first, *others = [one | {"media_group_id": text} for one in pictures]
    return api.album(chat, [first | caption, *others])


def words_of(turn: dict[str, Any]) -> str:
    """What was said with a stored message; of a recording, what was heard."""
    heard = [str(one.get("text")) for one in turn.get("media", []) if one.get("kind") == "voice"]
    return heard[0] if heard else str(turn["content"])


ANSWERED = re.compile(r"answer to (message \d+ of -?\d+)")


def judge(world: World, api: TelegramApi, said: dict[int, list[str]], killed: int, outcome: Outcome) -> Counter[str]:
    """Compare what was said with what the chats show and what Redis holds; so many runs of Claude were killed alone."""
    seen: Counter[str] = Counter()
    stored = Counter[str]()
    for key in world.redis.scan_iter(match="hcli:memory:*:user", count=1000):
        question = json.loads(world.redis.get(key) or b"{}")
        answer = json.loads(world.redis.get(key.removesuffix(b"user") + b"asst") or b"{}")
        words = words_of(question)
        stored[words] += 1
        if answer and answer["content"] != f"answer to {words}":
            outcome.found("torn", f"{words} is stored with {answer['content']!r}")
        seen["turns without an answer"] += not answer
    for chat, texts in said.items():
        shown = api.texts(chat)  # its messages as they stand now
        told = [found[1] for text in shown if (found := ANSWERED.search(text))]
        sorry = [text for text in shown if not ANSWERED.search(text)]
        seen["answered"] += len(set(told))
        seen["answers shown twice"] += len(told) - len(set(told))
        for text in texts:
            if stored[text] != 1:
                outcome.found("lost" if not stored[text] else "doubled", f"{text} is stored {stored[text]} times")
        unanswered = [text for text in texts if text not in told]
        seen["placeholders that stayed"] += max(0, len(sorry) - len(unanswered))
        seen["apologies"] += len(unanswered)
        if len(sorry) < len(unanswered):
            outcome.found("lost", f"{unanswered} of {chat} have no answer; besides there is {sorry}")
        first = list(dict.fromkeys(told))
        if first != [text for text in texts if text in told]:
            outcome.found("torn", f"the answers of {chat} are out of order: {first}")
        lines = [json.loads(raw)["content"] for raw in world.redis.lrange(f"hcli:session_history:{chat}", 0, -1)]
        if len(lines) != len(set(lines)):
            outcome.found("doubled", f"the conversation of {chat} holds a line twice")
    seen["dead letters"] = world.redis.llen("hcli:mem:dead")
    if seen["apologies"] > killed + seen["dead letters"]:
        outcome.found("lost", f"{seen['apologies']} apologies, though only {killed} runs of Claude were killed")
    return seen


def queued(world: World) -> int:
    try:
        return int(world.redis.llen("hcli:tasks"))
    except RedisError:  # it is being killed
        return QUIET


def at_rest(world: World) -> bool:
    """Nothing queued, in flight, or on its way to a chat."""
    try:
        busy = [world.redis.llen("hcli:tasks"), world.redis.hlen("hcli:mem:bot:waiting:main")]
        busy += [world.redis.hlen(key) for key in world.redis.scan_iter(match="hcli:mem:inflight:*", count=1000)]
        return not any(busy)
    except RedisError:
        return False


@chaos("talk", "by day: kill -9 of bot, dispatchers, Claude and connections while people chat; a round is a message")
def run(bench: Bench) -> Outcome:
    world, outcome = bench.world("talk", light=True), Outcome(rounds=bench.rounds)
    with TelegramApi() as api, TranscriptionApi(lambda one: one.content.removeprefix(b"OggS ").decode()) as speech:
        variables = {
            "CLAUDE_BIN": str(script(world.root / "claude.sh", CLAUDE)), "TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_API_URL": api.url, "LOG_JSON": "true",
            "TRANSCRIBE_URL": speech.url,
            "ALLOWED_CHATS": ",".join(map(str, CHATS)),
        }  # fmt: skip
        bot = Process("bot", world, variables, "telegram")
        dispatchers = [Process(f"dispatcher-{n}", world, variables, "run") for n in range(DISPATCHERS)]
        faults = Faults(bench, "talk", bench.random("faults"), bot, dispatchers)
        try:
            faults.start()
            said, last = talk(api, bench.rounds, bench.random("talk"))
            deadline = time.monotonic() + LONGER_SECONDS
            while time.monotonic() < deadline and not (api.offset > last and queued(world) < QUIET):
                time.sleep(0.2)
            faults.end()
            bench.say(f"{bench.rounds} messages said, {sum(faults.counts.values())} faults; waiting for the answers")
            wait_for(lambda: api.offset > last and at_rest(world), "every message to be answered", PATIENCE_SECONDS)
        finally:
            codes = [process.stop() for process in (bot, *dispatchers)]
        if any(codes):
            outcome.found("torn", f"a process did not end as it should: {codes}")
        outcome.faults = sum(faults.counts.values())
        seen = judge(world, api, said, faults.counts["claude"], outcome)
        seen["partial answers shown"] = sum("writing about" in str(call.params.get("text")) for call in list(api.calls))
        if not seen["partial answers shown"]:
            outcome.found("torn", "no answer was shown while it was written")
        seen["runs of Claude"] = len((world.root / "asked").read_text().splitlines())
    summary = {"messages": bench.rounds, "faults": dict(faults.counts), **seen}
    outcome.notes.append(json.dumps(summary))
    return outcome
