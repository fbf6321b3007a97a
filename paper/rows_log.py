"""The log of all rows that ever stood on the leaderboard, and its signed head.

    python -m paper.rows_log KEPT

says whether the log of today extends a head that a reader kept.

``leaderboard_log.csv`` has a line for each row of the leaderboard as it came, or came out
otherwise, or was withdrawn; lines are only added. Its lines are the leaves of a Merkle tree (RFC
6962), whose size and root are the head, ``leaderboard.head``, a note of ``corrigible``. Who
publishes signs it: ``OCRR_BOARD_KEY`` names the file of the private key, which is never in the
repository; ``leaderboard.key`` is the public one.
"""

import csv
import io
import os
import sys
from hashlib import sha256
from pathlib import Path

import pandas as pd

from corrigible import Head, Key
from corrigible.proofs.tree import Tree
from ocrr.board.verify import RERUN
from ocrrlib.files import ROOT, InputError, write_text

ORIGIN = "OCRR leaderboard"
KEY = "OCRR_BOARD_KEY"
FIGURES = ROOT / "figures"
WITHDRAWN = ROOT / "data/results/withdrawn.csv"
# What names a row, what stands behind it, and the SHA-256 of all its numbers.
NAMES = ["dataset", "fingerprint", "encoder", "policy", "held_out", "every", "system", "source"]
COLUMNS = [*NAMES, "kind", "numbers"]
GONE = "withdrawn"


def entries(table: pd.DataFrame) -> list[tuple[str, ...]]:
    """The rows of a leaderboard as the log has them; ranks, which others change, are left out."""
    place = table.columns.get_loc("source")
    numbers = table.iloc[:, place + 1 :].to_csv(index=False, header=False, lineterminator="\n")
    hashes = [sha256(line.encode()).hexdigest() for line in numbers.splitlines()]
    rows = table[[*NAMES, "kind"]].astype(str).itertuples(index=False)
    return [(*row, hash) for row, hash in zip(rows, hashes)]


def read(folder: Path) -> list[tuple[str, ...]]:
    """The log in a folder; ``InputError`` if it is damaged."""
    path = folder / "leaderboard_log.csv"
    if not path.exists():
        return []
    first, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
    if first != COLUMNS or any(len(row) != len(COLUMNS) for row in rows):
        raise InputError(f"{path} is damaged: take it from the last commit")
    return [tuple(row) for row in rows]


def extended(
    log: list[tuple[str, ...]], now: list[tuple[str, ...]], withdrawn: Path = WITHDRAWN
) -> list[tuple[str, ...]]:
    """The log with what changed since.

    Raises ``InputError`` if a row has vanished, or is no longer run again, without a line in the
    file ``withdrawn`` that names its ``system`` and ``source`` and gives a ``reason``.
    """
    size = len(NAMES)
    last = {row[:size]: row for row in log}
    there = {row[:size]: row[size] for row in now}
    gone = [
        row
        for name, row in last.items()
        if (name not in there and row[size] != GONE)
        or (row[size] == RERUN and there.get(name) != RERUN)
    ]
    told = set()
    if gone and withdrawn.exists():
        lines = pd.read_csv(withdrawn, dtype=str).dropna(subset=["reason"])
        told = {*zip(lines["system"], lines["source"])}
    for row in gone:
        if row[size - 2 : size] not in told:
            about = dict(zip(COLUMNS, row))
            raise InputError(
                f"{about['system']} by {about['source']} on {about['dataset']}, {about['policy']}, "
                "has vanished from the leaderboard, or its rank has: bring it back, or withdraw it "
                f"by a line system,source,reason in {withdrawn}"
            )
    new = [row for row in now if last.get(row[:size]) != row]
    return [*log, *((*row[:size], GONE, row[-1]) for row in gone), *new]


def text_of(log: list[tuple[str, ...]]) -> str:
    """The log as a CSV file."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([COLUMNS, *log])
    return out.getvalue()


def head_of(log: list[tuple[str, ...]], size: int | None = None) -> Head:
    """The head of the first ``size`` lines of a log, by default of all."""
    size = len(log) if size is None else size
    lines = text_of(log[:size]).splitlines()[1:]
    leaves = (sha256(b"\0" + line.encode()).digest() for line in lines)
    return Head(ORIGIN, size, Tree(leaves).root(size), time="")


def check_extends(log: list[tuple[str, ...]], head: Head) -> None:
    """Raise ``InputError`` unless a log begins with the lines that an earlier head is of."""
    same = head.size <= len(log) and head_of(log, head.size).body == head.body
    if not same:
        raise InputError(
            f"the log of {len(log)} rows does not extend the head of {head.size}: "
            "a row was taken out or changed"
        )


def update(table: pd.DataFrame, folder: Path = FIGURES, withdrawn: Path = WITHDRAWN) -> Head:
    """Add to the log in a folder what a leaderboard has new, and sign its head if there is a key.

    An unchanged head keeps its signatures. Raises ``InputError`` if a row has vanished, from the
    leaderboard or the log, or the key is not the public one that is there.
    """
    log = read(folder)
    path = folder / "leaderboard.head"
    old = Head.read(path.read_text(encoding="utf-8")) if path.exists() else None
    if old is not None:
        check_extends(log, old)
    log = extended(log, entries(table), withdrawn)
    head = head_of(log)
    if old is not None and old.body == head.body:
        head = old
    key = _key(folder)
    if key is not None:
        try:
            head.check([key])
        except InputError:  # signed by nobody, or by others
            head = head.signed(key)
    write_text(folder / "leaderboard_log.csv", text_of(log))
    write_text(path, str(head))
    return head


def _key(folder):
    """The key to sign with, or None; its public part is kept in the folder."""
    if not os.environ.get(KEY):
        return None
    key = Key.read(Path(os.environ[KEY]).read_text(encoding="utf-8"))
    public = folder / "leaderboard.key"
    if public.exists() and public.read_text(encoding="utf-8").strip() != key.public_text:
        raise InputError(f"{KEY} is not the key in {public}: sign with that one")
    write_text(public, f"{key.public_text}\n")
    return key


def check(folder: Path = FIGURES) -> None:
    """Raise ``InputError`` unless head, log and leaderboard of a folder fit, signed if by a key."""
    log = read(folder)
    head = Head.read((folder / "leaderboard.head").read_text(encoding="utf-8"))
    check_extends(log, head)
    table = pd.read_csv(folder / "leaderboard.csv", keep_default_na=False, dtype=str)
    if head.size != len(log) or extended(log, entries(table)) != log:
        raise InputError(f"the log in {folder} is not that of its leaderboard: `make leaderboard`")
    public = folder / "leaderboard.key"
    if public.exists():
        head.check([Key.read(public.read_text(encoding="utf-8"))])


def shown(head: Head) -> str:
    """The head for readers, below the leaderboard."""
    signed = "signed" if head.signatures else "not signed yet"
    return (
        f"## Head\n\nSize and Merkle root of the log of all rows, {signed}: keep it, and "
        "`python -m paper.rows_log FILE` says later whether a row has vanished.\n\n"
        f"```\n{str(head).strip()}\n```\n"
    )


if __name__ == "__main__":
    try:
        check()
        for name in sys.argv[1:]:
            check_extends(read(FIGURES), Head.read(Path(name).read_text(encoding="utf-8")))
    except (InputError, OSError) as error:
        sys.exit(f"error: {error}")
    print("no row has vanished")
