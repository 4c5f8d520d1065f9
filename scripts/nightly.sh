#!/bin/sh
# For cron:  0 3 * * *  /opt/hcli-memory/scripts/nightly.sh
# Settings come from /etc/hmem/hmem.toml (or the file HMEM_CONFIG names) and the environment; it depends on nothing else.
# Prints to standard output and error (cron mails it). Exit codes: docs/exit-codes.md; 75 means that a night is already running.
cd "$(dirname "$0")/.." || exit 1
if [ ! -x .venv/bin/hmem-night ]; then
  echo "nightly.sh: $(pwd)/.venv is missing. Run scripts/setup first." >&2
  exit 1
fi
exec .venv/bin/hmem-night run "$@"
