"""The command ``ocrr``, also as ``python -m ocrr``."""

import sys


def main(arguments: list[str] | None = None) -> None:
    """Run a command, by default that of the command line."""
    try:
        from ocrr import cli
    except ModuleNotFoundError as error:  # a bare ocrrlib has the stream alone
        sys.exit(
            f"error: the package {error.name} is not installed: run `pip install 'ocrrlib[run]'`"
        )
    cli.main(arguments)


if __name__ == "__main__":
    main()
