"""The shipped model: all-MiniLM-L6-v2 as int8 ONNX, run by onnxruntime without a network.

One text a call, without padding: dynamic int8 quantisation makes a vector depend on what else is in the batch; alone it repeats bit
for bit, on any number of threads. Mean pooling over the tokens and unit length as in sentence-transformers (Reimers and Gurevych,
EMNLP 2019). Texts are cut at 256 tokens, on every path.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer

from shared.embedding.known_models import LOCAL_MODEL
from shared.embedding.models import DocumentVectors, EmbeddingIdentity
from shared.errors import EmbeddingError, HmemError
from shared.system.files import sha256_file

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

# Version 1.31 of the library sends usage events home unless this is set before it is imported; its own call for that comes too late.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import onnxruntime

#: So few texts are embedded one after the other: by day they are the last turns, and the answers need the other cores.
FEW = 16
MODEL_DIR = Path(__file__).parent.parent / "models" / "all-MiniLM-L6-v2-int8"
MODEL, TOKENIZER = "model.onnx", "tokenizer.json"
#: Bytes of each file as it is shipped, and the hash of the weights: another file would make other vectors, or none.
SIZES = {MODEL: 22_944_268, TOKENIZER: 466_247}
MODEL_DIGEST = "sha256:5cebc27a38777dd1f442d8f7cf1b424246206e5af6cc414956f59e6e1ec63dbe"


def _refuse_unless_whole() -> None:
    """By sizes; the weights' hash is compared when the identity is asked for."""
    for name, size in SIZES.items():
        try:
            found = (MODEL_DIR / name).stat().st_size
        except FileNotFoundError as error:
            raise _not_whole(f"is missing: {MODEL_DIR / name}") from error
        if found != size:
            raise _not_whole(f"is incomplete: {MODEL_DIR / name} has {found} bytes of {size}")


def _not_whole(what: str) -> EmbeddingError:
    return EmbeddingError(
        f"The shipped embedding model {what}. Restore its files (in the checkout: git checkout -- shared/models), "
        "then run scripts/setup again."
    )


class LocalEmbedder:
    """Thread-safe; loading takes about 0.1 s and 60 MB. EmbeddingError if its files are not as they were shipped."""

    texts_at_once = 1

    def __init__(self) -> None:
        _refuse_unless_whole()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # several texts at once use the cores better than several threads on one text
        options.inter_op_num_threads = 1
        try:
            self._session = onnxruntime.InferenceSession(
                str(MODEL_DIR / MODEL), options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer = Tokenizer.from_file(str(MODEL_DIR / TOKENIZER))
        except Exception as error:  # both libraries raise classes of their own, and tokenizers plain Exception
            raise _not_whole(f"cannot be loaded ({type(error).__name__})") from error
        self._tokenizer.enable_truncation(LOCAL_MODEL.token_limit)
        self._tokenizer.no_padding()

    @cached_property
    def identity(self) -> EmbeddingIdentity:
        digest = sha256_file(MODEL_DIR / MODEL)
        if digest != MODEL_DIGEST:
            raise _not_whole(f"was changed: {MODEL_DIR / MODEL}")
        return LOCAL_MODEL.identity("local", digest)

    def embed_documents(self, texts: Sequence[str]) -> DocumentVectors:
        done = DocumentVectors(np.zeros((len(texts), LOCAL_MODEL.dimensions), dtype=np.float32))
        if len(texts) <= FEW:
            self._fill(done, map(self._document, texts))
        else:
            with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
                self._fill(done, pool.map(self._document, texts))
        return done

    def _fill(self, done: DocumentVectors, made: Iterable[Vectors | str]) -> None:
        for row, one in enumerate(made):
            if isinstance(one, str):
                done.refused[row] = one
            else:
                done.vectors[row] = one

    def _document(self, text: str) -> Vectors | str:
        """Its vector, or why it has none."""
        try:
            return self.embed_query(text)
        except HmemError:
            raise
        except Exception as error:  # noqa: BLE001 - one text must not cost the others theirs
            return f"the shipped model has no vector for it ({type(error).__name__})"

    def embed_query(self, text: str) -> Vectors:
        encoding = self._tokenizer.encode(text.encode("utf-8", "replace").decode("utf-8"))
        token_ids = np.array([encoding.ids], dtype=np.int64)
        hidden = self._session.run(
            None,
            {
                "input_ids": token_ids,
                "attention_mask": np.ones_like(token_ids),
                "token_type_ids": np.zeros_like(token_ids),
            },
        )[0]
        pooled: Vectors = np.asarray(hidden, dtype=np.float32)[0].mean(axis=0)
        return pooled / np.float32(np.linalg.norm(pooled))

    def close(self) -> None:
        """Nothing to close."""
