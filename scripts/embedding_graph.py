#!/usr/bin/env python3
"""Writes what the repository has of multilingual-e5-small: model.onnx, the graph without its weights (multilingual.py makes those), and
common.npy, what its vectors have in common whatever is said.

Token ids, shape (1, tokens), become hidden states, shape (1, tokens, 384). It is BERT's encoder (Devlin et al. 2019), each matrix product in int8
with activations scaled as they come. Run it after a change of the tensors: `.venv/bin/python -m scripts.embedding_graph`; with `--common` that
is computed again, too, which makes another model: all is embedded anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from shared.embedding.local.multilingual import BLOCK, COMMON, FOLDER, GRAPH, HIDDEN, LAYERS, WEIGHTS, tensors

HEADS, EPSILON = 12, 1e-12
#: Operators of onnxruntime beside the standard's.
RUNTIME = "com.microsoft"
_KINDS = {"int4": TensorProto.INT4, "int8": TensorProto.INT8, "float32": TensorProto.FLOAT}


class _Graph:
    def __init__(self) -> None:
        self.nodes: list[Any] = []

    def add(self, kind: str, inputs: list[str], output: str, *more: str, domain: str = "", **options: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output, *more], domain=domain, **options))
        return output

    def product(self, values: str, name: str) -> str:
        """values · weights + bias."""
        self.add("DynamicQuantizeLinear", [values], f"{name}/in", f"{name}/scale", f"{name}/zero")
        whole = self.add("MatMulInteger", [f"{name}/in", name, f"{name}/zero"], f"{name}/whole")
        counted = self.add("Cast", [whole], f"{name}/counted", to=TensorProto.FLOAT)
        scale = self.add("Mul", [f"{name}/scale", f"{name}.scales"], f"{name}/scales")
        return self.add("Add", [self.add("Mul", [counted, scale], f"{name}/scaled"), f"{name}.bias"], f"{name}/out")

    def norm(self, one: str, other: str, name: str) -> str:
        total = self.add("Add", [one, other], f"{name}/sum")
        inputs = [total, f"{name}.weight", f"{name}.bias"]
        return self.add("LayerNormalization", inputs, f"{name}/out", axis=-1, epsilon=EPSILON)


def made() -> onnx.ModelProto:
    graph = _Graph()
    words = ["words", "input_ids", "words.scales"]
    options = {"gather_axis": 0, "quantize_axis": 1, "block_size": BLOCK}
    graph.add("GatherBlockQuantized", words, "words/out", domain=RUNTIME, **options)
    graph.add("Shape", ["input_ids"], "count", start=1, end=2)
    graph.add("Slice", ["positions", "zero", "count", "zero"], "positions/out")
    state = graph.norm("words/out", "positions/out", "embedded")
    for layer in range(LAYERS):
        state = _layer(graph, state, f"{layer}.")
    graph.add("Identity", [state], "hidden")
    given = helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"])
    found = helper.make_tensor_value_info("hidden", TensorProto.FLOAT, [1, "tokens", HIDDEN])
    constants = [_constant("zero", [0]), _constant("thirds", [HIDDEN] * 3)]
    body = helper.make_graph(graph.nodes, "multilingual-e5-small", [given], [found], [*constants, *_weights()])
    versions = [helper.make_opsetid("", 21), helper.make_opsetid(RUNTIME, 1)]
    return helper.make_model(body, opset_imports=versions, ir_version=10, producer_name="hcli-memory")


def _layer(graph: _Graph, state: str, at: str) -> str:
    parts = [f"{at}query", f"{at}key", f"{at}value"]
    graph.add("Split", [graph.product(state, f"{at}attention"), "thirds"], *parts, axis=-1)
    attended = graph.add("MultiHeadAttention", parts, f"{at}heads", domain=RUNTIME, num_heads=HEADS)
    state = graph.norm(state, graph.product(attended, f"{at}output"), f"{at}attended")
    inner = graph.add("Gelu", [graph.product(state, f"{at}inner")], f"{at}active")
    return graph.norm(state, graph.product(inner, f"{at}outer"), f"{at}done")


def _constant(name: str, values: list[int]) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def _weights() -> list[onnx.TensorProto]:
    """References to what lies in the file of weights."""
    found = []
    for tensor in tensors():
        one = onnx.TensorProto(name=tensor.name, data_type=_KINDS[tensor.kind], dims=tensor.shape)
        one.data_location = TensorProto.EXTERNAL
        place = {"location": WEIGHTS, "offset": tensor.offset, "length": tensor.nbytes}
        for key, value in place.items():
            one.external_data.add(key=key, value=str(value))
        found.append(one)
    return found


#: Directions in which languages differ from each other, and in which questions differ from statements, as far as they matter.
LANGUAGES, ASKING = 8, 3


def common() -> NDArray[np.float32]:
    """Of 30 statements and 30 questions in 16 languages: the mean of the statements; then orthogonal unit vectors of the largest differences between
    languages, and between the questions and the statements of a language."""
    from shared.embedding.known_models import MULTILINGUAL
    from shared.embedding.local.embedder import LocalEmbedder

    texts = json.loads((Path(__file__).parents[1] / "tests" / "data" / "asking.json").read_text(encoding="utf-8"))
    np.save(FOLDER / COMMON, np.zeros((1 + LANGUAGES + ASKING, HIDDEN), np.float32))
    embedder = LocalEmbedder(MULTILINGUAL)
    said = np.array([embedder.embed_documents(one["said"]).vectors for one in texts.values()], np.float64).mean(axis=1)
    asked = np.array([[embedder.embed_query(text) for text in one["asked"]] for one in texts.values()], np.float64)
    centre = said.mean(axis=0)
    differences = [*_largest(said - centre, LANGUAGES), *_largest(asked.mean(axis=1) - said, ASKING)]
    return np.array([centre, *_largest(np.array(differences), LANGUAGES + ASKING)], np.float32)


def _largest(rows: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Orthogonal unit vectors of the largest directions."""
    found: NDArray[np.float64] = np.linalg.svd(rows, full_matrices=False)[2][:count]
    return found


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / GRAPH).write_bytes(made().SerializeToString(deterministic=True))
    if "--common" in sys.argv:
        np.save(FOLDER / COMMON, common())
