"""``python -m ocrrlib``: the command line ``ocrr``."""

from ocrrlib.cli import main

if __name__ == "__main__":
    main()
