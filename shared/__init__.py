"""What both hosts share: the wire contract, settings, files, embeddings, the release and the search over it."""

import sys

# redis-py imports OpenTelemetry where it is installed (Chroma brings it), for metrics that we do not use: a third of the time that its import
# takes. So redis-py does not find it. This is here because every process imports this package first; shared/vectors/chroma.py undoes it.
sys.modules.setdefault("opentelemetry", None)  # type: ignore[arg-type]
