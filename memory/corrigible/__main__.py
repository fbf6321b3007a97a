"""The command ``corrigible``, also as ``python -m corrigible``."""

import sys


def main(arguments: list[str] | None = None) -> None:
    """Run a command, by default that of the command line."""
    try:
        from corrigible import cli
    except ModuleNotFoundError as error:  # the bare package has no command
        sys.exit(
            f"error: the package {error.name} is not installed: "
            "run `pip install 'corrigible[command]'`"
        )
    cli.main(arguments)


if __name__ == "__main__":
    main()
