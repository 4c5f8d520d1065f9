"""`python -m tests.engines.models.llama_server CHATS EMBEDS`, in .venv/models: llama.cpp's HTTP server with each of these GGUF files.

It prints both addresses as JSON, and serves until its stdin is closed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import xllamacpp  # type: ignore[import-not-found,unused-ignore]


def served(gguf: str, context: int, *, embeds: bool) -> Any:
    """With one thread: two wait for each other where others use the processors."""
    wanted = xllamacpp.CommonParams()
    wanted.model.path, wanted.port, wanted.n_parallel, wanted.embedding = gguf, 0, 1, embeds
    wanted.n_ctx = wanted.n_batch = context
    wanted.n_ubatch = context if embeds else 512
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = 1
    return xllamacpp.Server(wanted)


def main(chat_model: str, embedding_model: str) -> None:
    servers = served(chat_model, 8192, embeds=False), served(embedding_model, 512, embeds=True)
    sys.stdout.write(json.dumps([server.listening_address for server in servers]) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
