"""`python -m nightly` is `hmem-night`."""

from nightly.cli import main

main()
