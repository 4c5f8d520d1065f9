"""`python -m nightly` is `hmem-night`."""

from nightly.cli.main import main

main()
