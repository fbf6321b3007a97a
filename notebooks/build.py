"""Make the results, figures, tables and the paper, and say what is stale: what `make` calls.

python -m notebooks.build paper  [NAME=value ...]
python -m notebooks.build lora | scale | compute | beyond [NAME=value ...]
python -m notebooks.build status [NAME=value ...]
python -m notebooks.build embed  [ENCODER=value]
python -m notebooks.build arxiv | verify | leaderboard
"""

import argparse
import os
import sys

from notebooks.run import run_stale, status
from notebooks.settings import ANEW, BUILD, Settings
from notebooks.typeset import typeset
from notebooks.verify import record, verify
from ocrrlib.datasets import DATASETS
from ocrrlib.embeddings import embed, path_of
from ocrrlib.errors import InputError
from ocrrlib.files import ROOT


def paper(settings, which="*"):
    """Run the stale notebooks whose names match; set the paper, if all have run with the published settings."""
    run_stale(settings, which)
    if which == "*" and not settings.variant:
        typeset(settings.out)
        record(settings)


def arxiv(settings):
    """Pack the paper's sources for arXiv."""
    typeset(formats=("arxiv",), target=BUILD)


def encode(settings):
    """Encode both datasets anew with the encoder that is set."""
    for name in DATASETS:
        data = embed(name, settings.ENCODER)
        print(f"{path_of(name, settings.ENCODER)}: {len(data.y_train)} + {len(data.y_test)} rows")


def leaderboard(settings):
    """Rank the published and all contributed systems."""
    from paper.leaderboard import main  # the other commands need not wait for what it imports

    main()


def main():
    commands = {"paper": paper, **dict.fromkeys(ANEW, paper), "status": status}
    commands |= {"embed": encode, "arxiv": arxiv, "verify": verify, "leaderboard": leaderboard}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=commands)
    parser.add_argument("settings", nargs="*", metavar="NAME=value")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    try:
        which, live = ANEW.get(arguments.command, ("*", {}))
        settings = Settings.parse([*(f"{name}={value}" for name, value in live.items()), *arguments.settings])
        commands[arguments.command](settings, **({"which": which} if live else {}))
    except InputError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped; finished runs are kept, the same command goes on from there")


if __name__ == "__main__":
    main()
