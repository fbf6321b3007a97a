"""The command ``corrigible``, also as ``python -m corrigible``."""

from corrigible.cli import main

if __name__ == "__main__":
    main()
