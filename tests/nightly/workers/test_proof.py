"""What is refused: scheduler addresses that others could read, and vectors that cannot be those of this night's model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pytest

from nightly.workers.address import refuse_unless_safe
from nightly.workers.embedding import embedding, texts_task, vectors_of
from nightly.workers.task import Frames, ResultRefused, name_of
from shared.config.settings import load_settings
from shared.embedding.models import DocumentVectors, EmbeddingIdentity
from shared.embedding.probes import PROBE_TEXTS
from shared.errors import SettingsError
from tests.support.night.builds import DIMENSIONS, vector_of
from tests.support.world import World

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

TEXTS = ["a heron at the pond", "an otter", "a third text"]
IDENTITY = EmbeddingIdentity("made-up", DIMENSIONS, "", "", "test", "d1")


@dataclass
class MadeUp:
    """An embedder whose vectors follow from the texts."""

    identity: EmbeddingIdentity = IDENTITY
    mark: str = ""  # of another model
    refuses: str = "-"
    texts_at_once: int = 1

    def embed_documents(self, texts: Sequence[str]) -> DocumentVectors:
        refused = {row: "too long" for row, text in enumerate(texts) if text == self.refuses}
        rows = [
            np.zeros(DIMENSIONS) if row in refused else vector_of(self.mark + text) for row, text in enumerate(texts)
        ]
        return DocumentVectors(np.array(rows, np.float32), refused)

    def embed_query(self, text: str) -> Vectors:
        return vector_of(text)

    def close(self) -> None:
        """Nothing to close."""


def answer_of(embedder: MadeUp) -> Frames:
    """What a worker with this embedder answers for TEXTS."""
    made = embedder.embed_documents([*PROBE_TEXTS, *TEXTS])
    count = len(PROBE_TEXTS)
    about = {
        "identity": embedder.identity.to_json(),
        "refused": {str(row - count): why for row, why in made.refused.items()},
    }
    return orjson.dumps(about), made.vectors[:count].tobytes(), made.vectors[count:].tobytes()


def test_the_vectors_of_the_same_model_are_taken() -> None:
    own = MadeUp()
    embedding(own).prove(texts_task(TEXTS), answer_of(MadeUp()))
    found = vectors_of(TEXTS, answer_of(MadeUp()), own)
    assert np.array_equal(found.vectors, own.embed_documents(TEXTS).vectors)


def _nan(answer: Frames) -> Frames:
    vectors = np.frombuffer(answer[2], np.float32).copy()
    vectors[7] = np.nan
    return *answer[:2], vectors.tobytes()


WRONG: dict[str, tuple[Callable[[], Frames], str]] = {
    "another model": (lambda: answer_of(MadeUp(replace(IDENTITY, family="other"))), "it embeds with other"),
    "another version": (lambda: answer_of(MadeUp(replace(IDENTITY, digest="d2"))), "d2"),
    "another model under the name": (lambda: answer_of(MadeUp(mark="x")), "answers otherwise than made-up"),
    "fewer vectors": (lambda: (*answer_of(MadeUp())[:2], answer_of(MadeUp())[2][: 8 * DIMENSIONS]), "number or size"),
    "no probes": (lambda: (answer_of(MadeUp())[0], b"", answer_of(MadeUp())[2]), "number or size"),
    "NaN": (lambda: _nan(answer_of(MadeUp())), "unit length"),
    "zeros": (lambda: (*answer_of(MadeUp())[:2], bytes(12 * DIMENSIONS)), "unit length"),
    "nothing": (lambda: (b"",), "number or size"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_answer_that_cannot_be_right_is_refused(name: str) -> None:
    make, why = WRONG[name]
    with pytest.raises(ResultRefused, match=why):
        embedding(MadeUp()).prove(texts_task(TEXTS), make())


def test_a_text_that_a_worker_refuses_is_embedded_by_the_night() -> None:
    own, answer = MadeUp(), answer_of(MadeUp(refuses=TEXTS[1]))
    embedding(own).prove(texts_task(TEXTS), answer)
    found = vectors_of(TEXTS, answer, own)
    assert (found.refused, np.array_equal(found.vectors, own.embed_documents(TEXTS).vectors)) == ({}, True)


def test_a_task_is_named_by_its_bytes() -> None:
    kind = embedding(MadeUp())
    assert name_of(kind, (b"ab", b"c")) == name_of(kind, (b"ab", b"c")) != name_of(kind, (b"a", b"bc"))


def test_a_public_scheduler_without_tls_stops_the_night_before_it_begins(light: World) -> None:
    light.say("t1", "something")
    done = light.command("hmem-night", "run", check=False, NIGHT_WORKERS="tcp://8.8.8.8:8786")
    assert (done.returncode, "is the public address 8.8.8.8" in done.stderr) == (SettingsError.exit_code, True)
    assert light.redis.exists("hcli:memory:t1:user")


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:8786", "tcp://10.0.0.5:8786", "tcp://[fd00::1]:8786", "tcp://no-such-host.invalid:8786"],
)
def test_a_scheduler_on_a_private_network_may_be_used(address: str) -> None:
    refuse_unless_safe(load_settings(night_workers=address), address)


def test_tls_needs_certificates(tmp_path: Path) -> None:
    address, file = "tls://8.8.8.8:8786", tmp_path / "file.pem"
    file.touch()
    given = {f"night_workers_tls_{name}": file for name in ("ca", "cert", "key")}
    refuse_unless_safe(load_settings(night_workers=address, **given), address)
    for name in given:
        with pytest.raises(SettingsError, match=name.upper()):
            refuse_unless_safe(load_settings(night_workers=address, **given | {name: tmp_path / "gone"}), address)


@pytest.mark.parametrize(
    "value", ["0", "-1", "many", "tcp://host", "http://host:80", "tcp://host:99999", "tcp://host:1/x"]
)
def test_other_values_of_the_setting_are_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="NIGHT_WORKERS"):
        load_settings(night_workers=value)
