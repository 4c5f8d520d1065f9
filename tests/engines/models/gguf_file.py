"""`python -m tests.engines.models.gguf_file ZIP OUT`, in .venv/models: all-MiniLM-L6-v2 as a GGUF file, as llama.cpp's own converter writes it.

The weights are the float32 ones that the shipped model was made from: no package has them as GGUF.
"""

from __future__ import annotations

import json
import sys
import zipfile
from typing import Any

import gguf  # type: ignore[import-not-found,unused-ignore]
import numpy as np

LAYERS, CONTROL = 6, ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def main(model_zip: str, out: str) -> None:
    with zipfile.ZipFile(model_zip) as model:
        tokens = sorted(
            (number, token) for token, number in json.loads(model.read("tokenizer.json"))["model"]["vocab"].items()
        )
        weights = tensors(model.read("model.safetensors"))
    writer = gguf.GGUFWriter(out, "bert")
    writer.add_context_length(512)
    writer.add_embedding_length(384)
    writer.add_feed_forward_length(1536)
    writer.add_head_count(12)
    writer.add_block_count(LAYERS)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_type_count(2)
    writer.add_token_list([_phantom(token) for _, token in tokens])
    kinds = {True: gguf.TokenType.CONTROL, False: gguf.TokenType.NORMAL}
    writer.add_token_types([kinds[token in CONTROL] for _, token in tokens])
    for name, token in (("pad", "[PAD]"), ("unk", "[UNK]"), ("bos", "[CLS]"), ("sep", "[SEP]"), ("mask", "[MASK]")):
        getattr(writer, f"add_{name}_token_id")(next(number for number, one in tokens if one == token))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, LAYERS)
    for name, weight in weights.items():
        if (known := names.get_name(name, try_suffixes=(".weight", ".bias"))) is not None:
            writer.add_tensor(known, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _phantom(token: str) -> str:
    """llama.cpp marks the beginning of a word, where BERT marks what continues one."""
    if token in CONTROL:
        return token
    return token[2:] if token.startswith("##") else f"\u2581{token}"


def tensors(safetensors: bytes) -> dict[str, Any]:
    """Name → float32 weights of a safetensors file."""
    start = 8 + int.from_bytes(safetensors[:8], "little")
    found = {}
    for name, of in json.loads(safetensors[8:start]).items():
        if of.get("dtype") == "F32":
            first, last = (start + place for place in of["data_offsets"])
            found[name] = np.frombuffer(safetensors[first:last], np.float32).reshape(of["shape"])
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
