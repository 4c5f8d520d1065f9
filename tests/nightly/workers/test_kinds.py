"""The kinds of tasks of a night: each does with bytes alone what a step does with its files."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import orjson
import pytest

from nightly.archive.catalog import Catalog
from nightly.archive.chat_chunks import ChatReader
from nightly.archive.cutting import answered, cut_tasks, cutting
from nightly.index.chunk_file import ChunkFolder, ChunkWriter, line_of
from nightly.index.word_parts import WRITING, divided, write_part, writing
from nightly.steps import summarise
from nightly.workers.task import Frames, ResultRefused, ThisProcess
from shared.search import lexical
from tests.support.night.builds import talk
from tests.support.world import World

ZONE = ZoneInfo("Europe/Berlin")


@pytest.fixture
def folder(tmp_path: Path) -> ChunkFolder:
    """Chunks of five chats."""
    with ChunkWriter(tmp_path) as writer:
        for chat in ("1", "-2", "3", "4", "5"):
            writer.add(chat, (line_of(chunk, chunk.text) for chunk in talk(30, (chat,))))
    return ChunkFolder(tmp_path)


def test_summaries_made_as_tasks_are_those_of_the_step(folder: ChunkFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summarise, "TASK_BYTES", 15_000)
    tasks = list(summarise.summary_tasks(folder, ZONE))
    assert 1 < len(tasks) < 5
    answers = ThisProcess().map(summarise.EXTRACTING, tasks)
    wanted = [summarise._extract([chunk for chunk, _ in chunks], ZONE) for _, chunks in folder]
    assert [orjson.loads(one) for answer in answers for one in answer] == [[text, None] for text in wanted]


def test_a_chat_whose_summary_fails_has_a_reason_and_the_others_their_text(
    folder: ChunkFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = summarise._extract

    def failing(chunks: list[Any], zone: ZoneInfo) -> str:
        if chunks[0].chat_id == "3":
            raise ValueError(chunks[0].text)
        return real(chunks, zone)

    monkeypatch.setattr(summarise, "_extract", failing)
    (task,) = summarise.summary_tasks(folder, ZONE)
    made = [orjson.loads(one) for one in summarise.extract(task)]
    assert [reason for _, reason in made] == [None, None, "ValueError", None, None]


def test_the_parts_of_a_large_index_hold_each_chat_once_whole(
    folder: ChunkFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert divided(folder) == []
    monkeypatch.setattr("nightly.index.word_parts.LEAST_CHUNKS", 100)
    parts = divided(folder)
    assert sorted(chat for part in parts for chat in part) == sorted(folder.chats)
    place = tmp_path / "lexical"
    place.mkdir()
    for task in writing(folder, parts):
        (content,) = write_part(task)
        assert write_part(task) == (content,)
        lexical.add_part(place, 7, content)
    names = {"7.sqlite", *(f"7-{number}.sqlite" for number in range(2, len(parts) + 1))}
    assert {path.name for path in place.iterdir()} == names
    assert lexical.check(place, dict.fromkeys(folder.chats, 30)) == dict.fromkeys(folder.chats, 30)


@pytest.mark.parametrize("answer", [(), (b"no database",), (b"", b"")])
def test_a_part_that_is_none_is_refused(folder: ChunkFolder, answer: Frames) -> None:
    task = (folder.content("1"), folder.content("3"))
    WRITING.prove(task, write_part(task))
    for wrong in (answer, write_part(task[:1])):
        with pytest.raises(ResultRefused, match="the part that it wrote"):
            WRITING.prove(task, wrong)


def test_what_was_cut_must_add_up(light: World) -> None:
    light.say("t1", "a heron at the pond", chat_id="1")
    light.say("t2", "an otter", chat_id="2")
    light.night()
    with (
        closing(Catalog(light.night_dir, print)) as catalog,
        ChatReader(catalog, light.night_dir / "archive", ZONE) as reader,
    ):
        (task,) = cut_tasks(reader, ["1", "2"], ZONE)
    kind = cutting(light.night_dir / "archive")
    about, *lines = answer = kind.run(task)
    kind.prove(task, answer)
    assert [one.lines for one in answered(answer)] == lines
    more = orjson.dumps([[{**account, "archived": 2}, *rest] for account, *rest in orjson.loads(about)])
    for wrong in ((about, lines[0]), (about, b"", lines[1]), (more, *lines), (b"{", *lines), (b"[1,2]", *lines), ()):
        with pytest.raises(ResultRefused, match="what it cut"):
            kind.prove(task, wrong)
