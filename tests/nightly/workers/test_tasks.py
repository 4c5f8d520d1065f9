"""The kinds of tasks of a night: each does with bytes alone what a step does with its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import orjson
import pytest

from nightly.index.chunk_file import ChunkFolder, ChunkWriter, line_of
from nightly.index.word_parts import divided, write_part, writing
from nightly.steps import embed, summarise
from shared.errors import EmbeddingError
from shared.search import lexical
from tests.support.night.builds import talk
from tests.support.night.index_world import MadeUp

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
    answers = map(summarise.extract, tasks)
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


def test_a_worker_with_another_model_does_not_embed(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = MadeUp()
    monkeypatch.setattr(embed, "_worker_embedder", lambda: theirs)
    about, texts = orjson.dumps(theirs.identity.to_json()), orjson.dumps(["a heron", "an otter"])
    refused, vectors = embed.embed_on_worker((about, texts))
    assert (refused, len(vectors)) == (b"{}", 2 * 4 * theirs.identity.dimensions)
    with pytest.raises(EmbeddingError):
        embed.embed_on_worker((orjson.dumps(replace(theirs.identity, digest="d2").to_json()), texts))
