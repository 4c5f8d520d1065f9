"""`python -m tests.engines.models.speech VOICE WORDS`, in .venv/models: espeak-ng says them, on stdout as a voice message of Telegram's (Opus)."""

from __future__ import annotations

import io
import subprocess
import sys

import av  # type: ignore[import-not-found,unused-ignore]

#: Words a minute.
SPEED = "140"


def main(voice: str, words: str) -> None:
    spoken = subprocess.run(["espeak-ng", "-v", voice, "-s", SPEED, "--stdout", words], capture_output=True, check=True)
    made = io.BytesIO()
    with av.open(io.BytesIO(spoken.stdout)) as wave, av.open(made, "w", format="ogg") as voice_message:
        stream = voice_message.add_stream("libopus", rate=48_000, layout="mono", bit_rate=32_000)
        for frame in [*wave.decode(audio=0), None]:
            voice_message.mux(stream.encode(frame))
    sys.stdout.buffer.write(made.getvalue())


if __name__ == "__main__":
    main(*sys.argv[1:])
