"""The child process of LocalWhisper: `python -m … MODEL LANGUAGE`, a recording on stdin, `{"text"}` or `{"error", "reason"}` on stdout."""

from __future__ import annotations

import io
import json
import sys


def main() -> None:
    model_name, language = sys.argv[1], sys.argv[2]
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
        segments, _ = model.transcribe(io.BytesIO(content), language=language or None, vad_filter=True)
        _say(text=" ".join(segment.text.strip() for segment in segments))
    except Exception as error:  # noqa: BLE001 - what is no recording
        _say(error="recording", reason=f"{type(error).__name__}: {error}"[:500])


def _say(**said: str) -> None:
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()
