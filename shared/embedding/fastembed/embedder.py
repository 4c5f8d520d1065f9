"""Models of fastembed: ONNX files from the Hugging Face hub, run on the CPU of this host. The multilingual one is the reason to have it.

Loading never uses the network: by day a user waits, and a night must not wait for a hub. `python -m shared.embedding.fastembed` fetches the
model that it is given or that the settings name, once; a host without a way to the hub takes a copy of FASTEMBED_CACHE_PATH from one that has it.

One text a call, on one thread, several texts at once: so a vector does not depend on its neighbours in a batch (in a quantised file it does, and
padding to the longest costs more than batches save), and repeats bit for bit. Texts are cut at the table's limit, whatever the files say. Prefixes
are put on here and nowhere else: the library's `embed` adds none. Vectors are made of unit length here. The digest is that of the ONNX file.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

# It turns the telemetry of onnxruntime off, before fastembed imports that.
from shared.embedding.local.embedder import OneByOne

# isort: split
from fastembed import TextEmbedding
from huggingface_hub import constants, model_info, snapshot_download
from huggingface_hub.utils.tqdm import disable_progress_bars

from shared.config.packages import how_to_add
from shared.embedding.fastembed.settings import FastembedSettings
from shared.embedding.known_models import KnownModel
from shared.embedding.models import EmbeddingIdentity
from shared.errors import EmbeddingError, SettingsError
from shared.system.files import sha256_file

if TYPE_CHECKING:
    from shared.config.settings import Settings
    from shared.embedding.models import Vectors

constants.HF_HUB_DISABLE_TELEMETRY = True

#: Files next to the ONNX file; without these two nothing can be tokenised.
NEEDED = ("tokenizer.json", "tokenizer_config.json")
WANTED = ("config.json", "special_tokens_map.json", *NEEDED)
#: Seconds that the hub may take for its first answer.
HUB_SECONDS = 10.0
#: What any model can embed: if this fails, a failing text is not to blame.
CONTROL_TEXT = "This is a plain sentence."


class FastembedEmbedder(OneByOne):
    """Thread-safe. EmbeddingError if the model is not here, or is not what the table says."""

    def __init__(self, model: KnownModel, cache: Path) -> None:
        super().__init__(model)
        folder, self._file = _find(model, cache)
        try:
            self._embedding = TextEmbedding(
                str(model.fastembed), str(cache), 1, ["CPUExecutionProvider"], specific_model_path=str(folder)
            )
            tokenizer: Any = self._embedding.model.tokenizer  # type: ignore[attr-defined]
            tokenizer.enable_truncation(model.token_limit, direction=tokenizer.truncation["direction"])
            self._embed(model.document_prefix + CONTROL_TEXT)
        except Exception as error:  # the libraries raise what they like for a damaged file
            raise EmbeddingError(
                f"The model {model.fastembed} in {folder} cannot be used: {_one_line(error)}. "
                f"Delete that directory and fetch the model again: {_FETCH} {model.fastembed}."
            ) from error

    @cached_property
    def identity(self) -> EmbeddingIdentity:
        return self._model.identity("fastembed", sha256_file(self._file))

    def _reason(self, error: Exception) -> str:
        return _one_line(error)

    def embed_query(self, text: str) -> Vectors:
        try:
            return super().embed_query(text)
        except Exception as error:
            raise EmbeddingError(
                f"The model {self._model.fastembed} has no vector for the question: {_one_line(error)}. Ask in other words."
            ) from error

    def _embed(self, text: str) -> Vectors:
        """Unit vector, shape (dimensions,); ValueError if the model gives something else."""
        (raw,) = self._embedding.embed([text.encode("utf-8", "replace").decode("utf-8")], batch_size=1)
        vector: Vectors = np.asarray(raw, dtype=np.float32)
        if vector.shape != (self._model.dimensions,):
            raise ValueError(f"it returned a vector of shape {vector.shape}, not {self._model.dimensions}")
        length = np.linalg.norm(vector)
        if not np.isfinite(length) or not length > 0:
            raise ValueError("it returned invalid numbers (NaN or a zero vector)")
        return vector / length


def open_embedder(model: KnownModel, settings: Settings) -> FastembedEmbedder:
    return FastembedEmbedder(model, cache_of(settings))


def cache_of(settings: Settings) -> Path:
    """The directory of the models."""
    try:
        return settings.of(FastembedSettings).fastembed_cache_path or Path.home() / ".cache" / "fastembed"
    except RuntimeError as error:
        raise SettingsError(
            f"There is no home directory to store models in: {error} Set FASTEMBED_CACHE_PATH."
        ) from error


def fetch(model: KnownModel, cache: Path, seconds: float = HUB_SECONDS) -> Path:
    """Get the model from the hub unless it is here; its directory. EmbeddingError, soon, if the hub does not answer within so many seconds."""
    with suppress(EmbeddingError):
        return _find(model, cache)[0]
    if not sys.stderr.isatty():
        disable_progress_bars()
    described = _described(model)
    repository = described["sources"]["hf"]
    try:
        model_info(repository, timeout=seconds)  # the next line makes the same request, but without a time limit
        snapshot_download(
            repository,
            cache_dir=cache,
            allow_patterns=[described["model_file"], *described["additional_files"], *WANTED],
            etag_timeout=seconds,
        )
    except Exception as error:  # three libraries raise theirs through this one
        raise EmbeddingError(
            f"The model {model.fastembed} cannot be fetched from {constants.ENDPOINT}: {_one_line(error)}. "
            f"Let this host reach it, or copy {cache} from a host that has the model."
        ) from error
    return _find(model, cache)[0]


def _described(model: KnownModel) -> dict[str, Any]:
    """fastembed's record of a model: its repository and its files."""
    for described in TextEmbedding.list_supported_models():
        if described["model"].lower() == str(model.fastembed).lower():
            return described
    raise EmbeddingError(
        f"This version of fastembed does not know {model.fastembed}. The version in requirements.lock does: {how_to_add('fastembed')}."
    )


def _find(model: KnownModel, cache: Path) -> tuple[Path, Path]:
    """The model's directory and ONNX file, without network access; EmbeddingError if it is missing or incomplete."""
    described = _described(model)
    try:
        folder = Path(snapshot_download(described["sources"]["hf"], cache_dir=cache, local_files_only=True))
        names = [described["model_file"], *described["additional_files"], *NEEDED]
        why = (
            f"{', '.join(lacking)} is missing" if (lacking := [n for n in names if not (folder / n).is_file()]) else ""
        )
    except (OSError, ValueError):
        why = "it has not been fetched"
    if why:
        raise EmbeddingError(
            f"The model {model.fastembed} is not in {cache}: {why}. Fetch it once, on a host that can reach {constants.ENDPOINT}: "
            f"{_FETCH} {model.fastembed}; "
            "or copy that directory from a host that has it; or set EMBEDDER=local."
        )
    return folder, folder / described["model_file"]


def _one_line(error: Exception) -> str:
    return " ".join((str(error) or repr(error)).split())[:300].rstrip(".")


_FETCH = f"{sys.executable} -m shared.embedding.fastembed"
