"""``python -m ocrrlib``: the command ``ocrr``."""

from ocrrlib.cli import main

main()
