"""Repeat published runs and name those that come out otherwise: what `make check` and `make verify` call.

python -m studies.check [SECONDS=60] [SAMPLE=300 SEED=1] [SYSTEMS=slda,ncm] [ALL=1] [JOBS=2]
"""

import os
import subprocess
import sys
import zlib

import pandas as pd

from ocrrlib.check import differing, draw, published_runs, undeclared
from ocrrlib.files import ROOT, InputError, pick
from ocrrlib.runs import published
from ocrrlib.systems import SYSTEMS as NAMED
from studies import boldness, names, scale, streams

STUDIES = {
    "scale": scale.rerun,
    "ledger_search": scale.rerun_ledger,
    "streams": streams.rerun,
    "names": names.rerun,
    "boldness": boldness.rerun,
}
LARGEST = 10_000  # entries of a synthetic ledger that is searched again
NAMES = dict.fromkeys(("SECONDS", "SAMPLE", "SEED", "SYSTEMS", "ALL", "JOBS"))


def commit():
    """The commit that is checked out, from which the sample follows; empty outside of git."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout.strip()


def chosen(SECONDS="60", SAMPLE="", SEED="", SYSTEMS="", ALL="", JOBS=""):
    """The published runs that these settings stand for; InputError if a system is unknown or a number is none."""
    runs = published_runs([pick("system", name, NAMED) and name for name in SYSTEMS.split(",")] if SYSTEMS else None)
    try:
        if SAMPLE:
            return draw(runs, SEED or commit(), count=int(SAMPLE))
        return runs if ALL else draw(runs, SEED or commit(), seconds=float(SECONDS))
    except ValueError as error:
        raise InputError(f"SECONDS={SECONDS} SAMPLE={SAMPLE}: give numbers ({error})") from error


def differing_rows(name, salt, count=1):
    """Repeat ``count`` published rows of a study, drawn by ``salt``; a line for each that comes out otherwise."""
    frame, wrong = published(name), []
    frame = frame[frame["n"] <= LARGEST] if "n" in frame else frame
    for row in frame.sample(count, random_state=zlib.crc32(f"{name} {salt}".encode())).to_dict("records"):
        again = STUDIES[name](row)
        if not pd.Series(again).equals(pd.Series({key: row[key] for key in again})):
            wrong.append(f"{name}: {row} comes out otherwise: {again}")
    return wrong


def main():
    try:
        settings = dict(word.partition("=")[::2] for word in sys.argv[1:])
        for name in settings:
            pick("parameter", name, NAMES)
        runs = chosen(**settings)
        wrong = undeclared()
        jobs, salt = int(settings.get("JOBS") or os.cpu_count()), settings.get("SEED") or commit()
        count = 0 if settings.get("SYSTEMS") else 20 if settings.get("ALL") and not settings.get("SAMPLE") else 1
        wrong += [line for name in STUDIES for line in differing_rows(name, salt, count)]
        found = differing(runs, jobs)
        wrong += [f"{one.file}: {one.run} comes out otherwise" for one in found]
    except InputError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped")
    if wrong:
        print(*wrong, sep="\n")
        systems = ", ".join(sorted({one.run.system for one in found}))
        way_out = "a bug, or a change to declare by a new `version` in the registry"
        sys.exit(f"error: {len(wrong)} differences{f' in {systems}' if systems else ''}: {way_out}")
    print(f"{len(runs)} published runs repeated, all exact; and {count} rows of each of {', '.join(STUDIES)}")


if __name__ == "__main__":
    main()
