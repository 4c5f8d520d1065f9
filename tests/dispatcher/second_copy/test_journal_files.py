"""The lines of the journal, its segments, and what follows from them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.second_copy.day_journal import DayJournal
from dispatcher.second_copy.live import NewEntry, new_entry
from dispatcher.second_copy.look import task_entry, turn_entry
from shared.delivery.journal.entries import JournalEntry, entry_of, line_of, packed, unpacked
from shared.delivery.journal.files import segments
from shared.delivery.journal.state import read_journal, sha1_of
from shared.turns.records import Tombstone, Turn


@pytest.fixture
def journal(tmp_path: Path) -> DayJournal:
    made = DayJournal(tmp_path)
    made.create()
    return made


def turn(number: int, content: str = "hello", chat: str = "9912") -> NewEntry:
    said = Turn(f"t{number}", "user", chat, content, 1_707_500_000.0 + number)
    return turn_entry(f"hcli:memory:{said.turn_id}", said.to_json())


@given(st.binary(), st.none() | st.text())
def test_a_line_gives_back_exactly_what_was_said_and_no_other(raw: bytes, chat: str | None) -> None:
    entry = JournalEntry(7, 1.5, "turn", chat, {"value": packed(raw)})
    line = line_of(entry)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    found = entry_of(line[:-1])
    assert found is not None
    assert unpacked(found.data["value"]) == raw
    assert found.number == 7
    for damaged in (line[:-2], line[:20], b"0" + line[1:-1], b""):
        assert damaged == line[:-1] or entry_of(damaged) is None


def test_a_torn_last_line_is_left_out_and_swallows_nothing(journal: DayJournal) -> None:
    journal.append([turn(1), turn(2)])
    path = segments(journal.folder)[-1]
    path.write_bytes(path.read_bytes()[:-20])
    assert set(read_journal(journal.folder).turns) == {"hcli:memory:t1:user"}
    journal.append([turn(3)])
    state = read_journal(journal.folder)
    assert set(state.turns) == {"hcli:memory:t1:user", "hcli:memory:t3:user"}
    assert state.damaged == 1


def test_a_damaged_line_in_the_middle_costs_that_line_alone(journal: DayJournal) -> None:
    journal.append([turn(1), turn(2), turn(3)])
    path = segments(journal.folder)[-1]
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b"hello", b"hallo")
    path.write_bytes(b"".join(lines))
    state = read_journal(journal.folder)
    assert (set(state.turns), state.damaged) == ({"hcli:memory:t1:user", "hcli:memory:t3:user"}, 1)


def test_numbers_go_on_over_threads_processes_and_rewriting(journal: DayJournal) -> None:
    journal.start()
    code = (
        "import sys; from pathlib import Path; from tests.dispatcher.second_copy.test_journal_files import turn, DayJournal\n"
        "one = DayJournal(Path(sys.argv[1]))\n"
        "for number in range(100, 140): one.append([turn(number)])"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen([sys.executable, "-c", code, str(journal.folder)], env=environment) as other:
        threads = [threading.Thread(target=lambda n=n: journal.append([turn(n)])) for n in range(40)]
        for thread in threads:
            thread.start()
            time.sleep(0.01)
            if len(threads) == 20:
                journal.compact()
        for thread in threads:
            thread.join()
        assert other.wait(60) == 0
    journal.compact()
    assert journal.flush()
    state = read_journal(journal.folder)
    assert len(state.turns) == 80
    lines = [entry_of(line) for path in segments(journal.folder) for line in path.read_bytes().splitlines()]
    numbers = [one.number for one in lines if one]
    assert numbers == sorted(set(numbers))


def test_many_entries_share_one_write_to_the_disk(journal: DayJournal) -> None:
    """An append returns before the disk has it: the thread writes what has come meanwhile."""
    journal.start()
    began = time.monotonic()
    for number in range(2_000):
        journal.append([turn(number)])
    handed_over = time.monotonic() - began
    assert journal.flush(30)
    assert handed_over < time.monotonic() - began
    assert len(read_journal(journal.folder).turns) == 2_000


def test_a_journal_that_cannot_be_written_counts_what_it_drops_and_says_why(journal: DayJournal) -> None:
    journal.append([turn(1)])
    (journal.folder / "journal.json").rename(journal.folder / "away")
    journal.append([turn(2)])
    assert journal.behind[0] == 1
    assert journal.failing is not None
    (journal.folder / "away").rename(journal.folder / "journal.json")
    journal.append([turn(3)])
    assert journal.behind[0] == 1, "what was dropped is missing until a whole look has found it"
    journal.whole_look_done(0)
    assert journal.behind[0] == 1, "it was dropped after that look had begun"
    journal.whole_look_done(1)
    assert journal.behind == (0, None)


def test_rewriting_keeps_what_counts_and_nothing_else(journal: DayJournal) -> None:
    stone = Tombstone("s", "9912", time.time(), turn_ids=frozenset({"t2:user"}))
    journal.append([turn(1), turn(2, "the secret"), turn(3), turn(4, chat="-100")])
    flushed = {"key": "hcli:memory:t3:user", "sha1": sha1_of(unpacked(turn(3).data["value"]))}
    journal.append([new_entry("flushed", "9912", **flushed)])
    journal.append([new_entry("tombstone", "9912", value=packed(stone.to_json()))])
    raw = b'{"task_id":"t1","chat_id":9912,"message":"asked"}'
    journal.append(
        [task_entry("t1", "9912", "queued", raw=packed(raw)), task_entry("t5", "9912", "queued", raw=packed(raw))]
    )
    journal.append([task_entry("t1", "9912", "finished", digest="d", result="said", delivered=True)])
    journal.append([new_entry("key", "9912", key="hcli:session:9912", type="string", value="x", until=None)])
    journal.compact()
    state = read_journal(journal.folder)
    assert set(state.turns) == {"hcli:memory:t1:user", "hcli:memory:t4:user"}
    assert (state.tasks["t1"].digest, state.tasks["t1"].open, state.tasks["t5"].raw) == ("d", False, raw)
    content = segments(journal.folder)[-1].read_bytes()
    assert b"the secret" not in content
    assert b"said" not in content
    assert len(segments(journal.folder)) == 1


def test_a_finished_task_is_not_opened_again_by_a_late_look(journal: DayJournal) -> None:
    journal.append([task_entry("t1", "9912", "claimed", raw="{}", worker="w", token="w:1")])
    journal.append([task_entry("t1", "9912", "finished", digest="d")])
    journal.append([task_entry("t1", "9912", "queued", raw="{}")])
    assert not read_journal(journal.folder).tasks["t1"].open
    journal.append([task_entry("t1", "9912", "queued", raw="{}", again=True)])
    assert read_journal(journal.folder).tasks["t1"].open, "/retry queues it again"


def test_each_entry_names_its_chat_or_none(journal: DayJournal) -> None:
    journal.append([turn(1), new_entry("mark", None, value=1), task_entry("raw-1", None, "queued", raw="x")])
    lines = [entry_of(line) for line in segments(journal.folder)[-1].read_bytes().splitlines()]
    assert [one.chat for one in lines if one] == ["9912", None, None]
