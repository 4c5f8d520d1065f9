"""The child process of LocalWhisper: `python -m … MODEL NAMED LIKELY`, a recording on stdin, `{"text"}` or `{"error", "reason"}` on stdout.

NAMED is the language that is spoken, LIKELY the one where the model itself is not sure; both may be empty.
"""

from __future__ import annotations

import io
import json
import sys
from typing import Any

#: Least probability of a language that the model has detected.
SURE = 0.5


def main() -> None:
    model_name, named, likely = sys.argv[1:]
    content = sys.stdin.buffer.read()
    try:
        from faster_whisper import WhisperModel  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        _say(error="package", reason=str(error))
        return
    try:
        model = WhisperModel(model_name, device="auto", compute_type="default")
    except Exception as error:  # noqa: BLE001 - a wrong name, no network, a damaged file: each of its libraries has errors of its own
        _say(error="model", reason=f"{type(error).__name__}: {error}"[:500])
        return
    try:
        segments, found = _heard(model, content, named)
        if likely and not named and found.language_probability < SURE:
            segments, _ = _heard(model, content, likely)
        _say(text=" ".join(segment.text.strip() for segment in segments))
    except Exception as error:  # noqa: BLE001 - what is no recording
        _say(error="recording", reason=f"{type(error).__name__}: {error}"[:500])


def _heard(model: Any, content: bytes, language: str) -> tuple[Any, Any]:
    """What is said, which is transcribed as it is read, and what is known of the recording."""
    heard: tuple[Any, Any] = model.transcribe(io.BytesIO(content), language=language or None, vad_filter=True)
    return heard


def _say(**said: str) -> None:
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()
