"""``python -m ocrr``: the command ``ocrr``."""

from ocrr.cli import main

main()
