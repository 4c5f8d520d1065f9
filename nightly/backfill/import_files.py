"""A backfill from files: read, stage, run the night, report the outcome. The same command again continues, or finds everything known."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

from nightly import pipeline
from nightly.archive.catalog import recomputed
from nightly.archive.incoming import judge, read_records, turn_keys
from nightly.imports.candidates import Candidate, ReadCandidate, Wanted, files_of
from nightly.imports.containers.opening import printable
from nightly.imports.formats import Source, format_named
from nightly.imports.import_filter import ImportCounts, ImportVerdict
from nightly.imports.staging import StagedImport, Staging, classify_by_file, is_fact, open_filter, stage, staged_files
from nightly.night.folder import imports_dir, step_result
from nightly.night.lease import connect
from nightly.night.progress import Reporter
from shared.config.settings import Settings
from shared.errors import InvalidInput, NightRunning
from shared.release.manifest import LEXICAL, current_release
from shared.search.lexical import LexicalIndex
from shared.text.format import counted, date_text, one_line, shorten
from shared.text.templates import templates
from shared.text.times import given_moment
from shared.turns.records import Turn
from shared.wire import keys
from shared.wire.client import COMMAND, open_redis
from shared.wire.handed_over import NAME_DIGITS, HandedImport, ImportHandOver

#: Unreadable places and notes (a few for each file) that are in memory, and so in `--json`.
KEPT_PLACES, KEPT_NOTES = 10_000, 1_000
#: Characters that are shown of what was said.
SHOWN_CHARACTERS = 60
_TEMPLATES = templates("nightly.backfill", ".", trim_blocks=True, lstrip_blocks=True)


@dataclass(frozen=True)
class Request:
    """The request from the command line. `options`: those of the format, by name."""

    source: str
    paths: list[Path]
    wanted: Wanted
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass
class ImportFindings:
    """What the files contain, as a report names it."""

    source: str
    found: int = 0  # turns
    fact_count: int = 0  # of them
    unreadable: int = 0
    unreadable_places: list[dict[str, str]] = field(default_factory=list)  # the first of them
    left_out: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)  # how the files were read

    def add(self, read: ReadCandidate) -> None:
        if read.unreadable is not None:
            self.unreadable += 1
            if len(self.unreadable_places) < KEPT_PLACES:
                self.unreadable_places.append({"place": read.place, "reason": read.unreadable})
        elif read.left_out is not None:
            self.left_out[read.left_out] += 1
        elif read.note is not None:
            self.notes += [read.note] if len(self.notes) < KEPT_NOTES else []
        elif read.candidate is not None:
            self.found += 1
            self.fact_count += read.candidate.turn is not None and is_fact(read.candidate.turn)


@dataclass
class ConversationPreview:
    """What a conversation would bring, as a person recognises it: how many turns, the first and the last."""

    chat_id: str
    title: str
    said: list[dict[str, Any]] = field(default_factory=list)
    turns: int = 0

    def add(self, turn: Turn) -> None:
        self.turns += 1
        texts = (turn.name or turn.role, turn.content)
        speaker, words = (shorten(printable(one_line(text)), SHOWN_CHARACTERS) for text in texts)
        one = {"at": turn.timestamp, "speaker": speaker, "text": words}
        first, *later = sorted([*self.said, one], key=itemgetter("at"))
        self.said = [first, *later[-1:]]


def wanted_of(since: str | None, until: str | None, chat: str | None, zone: ZoneInfo) -> Wanted:
    """From the command line's arguments; InvalidInput if a time is invalid."""
    return Wanted(given_moment("--since", since, zone), given_moment("--until", until, zone), chat)


def bring_in(settings: Settings, request: Request, reporter: Reporter) -> dict[str, Any]:
    """Run the whole backfill; returns its report, with the summaries of the nights that it took."""
    staged, findings = _stage(imports_dir(settings), settings, request, reporter)
    if staged is None:
        return vars(findings) | ImportCounts().to_json() | {"nights": []}
    try:
        nights = pipeline.run_nights(settings, reporter)
    except NightRunning as error:
        raise NightRunning(
            f"{error} What was read waits: the next night imports it, or this command if you run it again."
        ) from error
    about = {"nights": nights, "import": staged.stem[:NAME_DIGITS]}
    return vars(findings) | _fate(settings, staged.name, nights) | about


def hand_over(settings: Settings, request: Request, reporter: Reporter) -> dict[str, Any]:
    """Leave it to the next night of the host that has the archive; returns what was found."""
    with tempfile.TemporaryDirectory(prefix="hmem-plan-") as name:
        staged, findings = _stage(Path(name) / "imports", settings, request, reporter)
        if staged is None:
            return vars(findings) | ImportCounts().to_json() | {"import": None}
        one = StagedImport(staged)
        chats = Counter(candidate.turn.chat_id for candidate in one)
        about = HandedImport(
            sha256=staged.stem, source=one.source, files=[*one.files], chats=dict(chats), at=time.time()
        )
        with open_redis(settings.redis_url, COMMAND) as client:
            ImportHandOver(client).put(staged, about)
    text = [
        f"{counted(findings.found, 'turn')} found. The archive is on another host, or another user's: its next night imports what is new.",
        f"  hmem import --list (in the chat: /import) shows when it has. To take it back before: hmem import --undo {about.name}",
    ]
    return vars(findings) | {"import": about.name, "text": text}


def plan(settings: Settings, request: Request, reporter: Reporter, *, elsewhere: bool = False) -> dict[str, Any]:
    """What the backfill would do, by the rules of the night; it writes only to a temporary folder.

    `elsewhere`: the archive is on another host, so what the release here has is known, and the night there decides.
    """
    tally, facts = ImportCounts(), list[dict[str, Any]]()
    conversations: dict[tuple[str, str], ConversationPreview] = {}
    with tempfile.TemporaryDirectory(prefix="hmem-plan-") as name:
        folder = Path(name)
        staged, findings = _stage(folder / "imports", settings, request, reporter)
        new: Iterator[Turn] = iter(())
        if staged and elsewhere:
            new = _new_by_release(settings, StagedImport(staged), tally)
        elif staged:
            new = _new_turns(settings, staged, folder, reporter, tally)
        for turn in new:
            if is_fact(turn):
                facts.append({"chat_id": turn.chat_id, "at": turn.timestamp, "text": turn.content})
                continue
            preview = ConversationPreview(turn.chat_id, printable(one_line(turn.title)))
            conversations.setdefault((turn.chat_id, turn.title), preview).add(turn)
    if elsewhere:
        findings.notes.append(
            "compared with what is known on this host; the night, which has the archive, may know more"
        )
    shown = {"conversations": [*map(vars, conversations.values())], "facts": facts}
    report = vars(findings) | tally.to_json() | shown
    return report | {"text": lines(report, settings.timezone, dry=True)}


def _new_by_release(settings: Settings, staged: Iterable[Candidate], tally: ImportCounts) -> Iterator[Turn]:
    """The turns that the release in use lacks; an import's turns have the same ids from every file."""
    known: dict[str, set[str]] = {}
    for candidate in staged:
        turn = candidate.turn
        if turn.chat_id not in known:
            known[turn.chat_id] = _released_ids(settings, turn.chat_id)
        verdict = ImportVerdict.KNOWN if turn.turn_id in known[turn.chat_id] else ImportVerdict.NEW
        tally.count(candidate, verdict)
        if verdict is ImportVerdict.NEW:
            yield turn


def _released_ids(settings: Settings, chat_id: str) -> set[str]:
    release = current_release(settings.hmem_memory_dir)
    if release is None:
        return set()
    with closing(LexicalIndex(release / LEXICAL)) as index:
        return {turn_id for chunk in index.chunks_of(chat_id) for turn_id in chunk.turn_ids}


def _new_turns(
    settings: Settings, staged: Path, folder: Path, reporter: Reporter, tally: ImportCounts
) -> Iterator[Turn]:
    """The turns that are new; counts the import's verdicts, after those of imports that already wait for the night."""
    waiting = [path for path in staged_files(imports_dir(settings)) if path.name != staged.name]
    imports = [StagedImport(path) for path in [*waiting, staged]]
    with recomputed(settings, reporter) as catalog, connect(settings) as client:
        values = cast(list[bytes], client.lrange(keys.TOMBSTONES, 0, -1))
        obeyed = judge(values, settings, catalog.tombstones).obeyed
        with open_filter(settings, catalog, folder, imports, read_records(client, turn_keys(client)), obeyed) as known:
            for one in imports:
                for candidate, verdict in classify_by_file(known, one):
                    if one is imports[-1]:
                        tally.count(candidate, verdict)
                        if verdict is ImportVerdict.NEW:
                            yield candidate.turn


def _stage(
    directory: Path, settings: Settings, request: Request, reporter: Reporter
) -> tuple[Path | None, ImportFindings]:
    findings = ImportFindings(request.source)
    with stage(directory, request.source, [printable(path.name) for path in request.paths]) as staging:
        reporter.amounts(_reading(settings, request, staging, findings), "read")
    return staging.path, findings


def _reading(
    settings: Settings, request: Request, staging: Staging, findings: ImportFindings
) -> Iterator[tuple[str, int, int]]:
    """Stage everything in the files, in order; yields (what is read, bytes read, total bytes)."""
    format_ = format_named(request.source)
    if request.wanted.chat is None and not format_.of_a_chat:
        request = replace(request, wanted=replace(request.wanted, chat=_only_chat(settings)))
        findings.notes.append(
            f"into chat {request.wanted.chat}, the only one that the bot answers (--chat names another)"
        )
    files = files_of(request.paths, format_.pattern)
    read = format_.reading(Source(files, request.wanted, settings, request.options))
    sizes = [path.stat().st_size if path.is_file() else 0 for path in files]
    what = f"{len(files)} files" if len(files) > 1 else files[0].name
    for unit, path in enumerate(files):
        for one in read(path, unit):
            findings.add(one)
            if one.candidate is not None:
                staging.add(one.candidate)
            yield what, sum(sizes[:unit]) + one.done, sum(sizes)


def _only_chat(settings: Settings) -> str:
    """The chat of what names none, if the bot answers just one."""
    chats = sorted(settings.allowed)
    if len(chats) != 1:
        known = f" The bot answers {', '.join(chats)}." if chats else ""
        raise InvalidInput(
            f"The files name no chat of the bot's. Name the chat that it belongs to with --chat=ID.{known} Nothing was imported."
        )
    return chats[0]


def _fate(settings: Settings, name: str, nights: list[dict[str, Any]]) -> dict[str, Any]:
    """The outcome of a staged import in the first night that took it."""
    for night in nights:
        result = step_result(settings, night["run"], "export") or {}
        fate: dict[str, Any] | None = result.get("imports", {}).get("files", {}).get(name)
        if fate is not None:
            return fate
    return ImportCounts().to_json()


def lines(report: dict[str, Any], zone: ZoneInfo, *, dry: bool = False) -> list[str]:
    """A report as text."""
    how = {
        "date": lambda at: date_text(at, zone),
        "line": lambda text: printable(one_line(text)),
        "short": shorten,
        "counted": counted,
        "characters": SHOWN_CHARACTERS,
        "kept": KEPT_PLACES,
    }
    given = {"conversations": report.get("conversations", []), "facts": report.get("facts", []), "dry": dry}
    return _TEMPLATES.get_template("import.txt.j2").render(report=report, **given, **how).rstrip().split("\n")


def nothing_read(report: dict[str, Any], other: str) -> InvalidInput | None:
    """The error for an import of which nothing could be read. `other`: which other format a file has, if one is recognised."""
    if report["found"] or (report["left_out"] and not other):
        return None
    cut = next((f"{one['place']}: {one['reason']}." for one in report["unreadable_places"]), "")
    advice = other or cut or "Check that they have this format."
    return InvalidInput(f"Nothing in these files could be read, so nothing was imported. {advice}")
