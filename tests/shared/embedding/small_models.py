"""Small ONNX models with a tokeniser of a few words, laid down where fastembed looks for those of the hub."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from shared.embedding.fastembed.embedder import _described
from shared.embedding.known_models import KnownModel

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
#: Words of one line mean the same: their tokens share a row of the table.
MEANINGS = ["boat лодка", "dog собака", "boiler котёл", "where где", "is", "my моя", "search_query", "search_document", "zebra"]  # fmt: skip
LINES = {word: number for number, line in enumerate(MEANINGS, start=len(SPECIAL)) for word in line.split()}


def table(dimensions: int) -> NDArray[np.float32]:
    """The token vectors of the small model, shape (tokens, dimensions)."""
    rows = np.random.default_rng(7).normal(size=(len(SPECIAL) + len(MEANINGS), dimensions)).astype(np.float32)
    return rows[[*range(len(SPECIAL)), *LINES.values()]]


def write_onnx(path: Path, rows: NDArray[np.float32]) -> None:
    """A model that looks each token up: (texts, tokens) to (texts, tokens, dimensions)."""
    _save(path, rows, [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])])


def write_mixing_onnx(path: Path, rows: NDArray[np.float32]) -> None:
    """A model whose every output depends on all tokens, whichever of them its library takes for the text's."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["tokens_alone"]),
        helper.make_node("ReduceMean", ["tokens_alone"], ["all_tokens"], axes=[1], keepdims=1),
        helper.make_node("Add", ["tokens_alone", "all_tokens"], ["last_hidden_state"]),
        helper.make_node("ReduceMean", ["last_hidden_state"], ["sentence_embedding"], axes=[1], keepdims=0),
    ]
    _save(path, rows, nodes, sentence_embedding=["texts", rows.shape[1]])


def _save(path: Path, rows: NDArray[np.float32], nodes: list[onnx.NodeProto], **more: list[str | int]) -> None:
    """`more`: further outputs, with their shapes."""
    shape, shapes = ["texts", "tokens"], {"last_hidden_state": ["texts", "tokens", rows.shape[1]], **more}
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, shape) for n in ("input_ids", "attention_mask")]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, one) for name, one in shapes.items()]
    graph = helper.make_graph(nodes, "small", inputs, outputs, [numpy_helper.from_array(rows, "table")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path))


def write_tokenizer(folder: Path) -> None:
    words = {word: number for number, word in enumerate([*SPECIAL, *LINES])}
    tokenizer = Tokenizer(models.WordLevel(words, "[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    # As many models have it: another limit than the one that holds.
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 512, "pad_token": "[PAD]"}))


def snapshot(cache: Path, model: KnownModel) -> Path:
    """An empty directory where the hub's client keeps the files of a model."""
    repository = cache / f"models--{_described(model)['sources']['hf'].replace('/', '--')}"
    folder = repository / "snapshots" / "abc123"
    folder.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc123")
    return folder


def place(cache: Path, model: KnownModel, rows: NDArray[np.float32] | None = None) -> Path:
    """The small model under the name of a known one; its ONNX file."""
    folder = snapshot(cache, model)
    write_tokenizer(folder)
    file = folder / str(_described(model)["model_file"])
    write_onnx(file, table(model.dimensions) if rows is None else rows)
    return file
