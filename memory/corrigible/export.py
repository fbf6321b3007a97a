"""Export entries of a correction memory as a DataFrame, CSV, JSON Lines or parquet."""

import csv
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from corrigible.proofs.rows import FIELDS, Row
from corrigible.stores.location import is_database
from ocrrlib.escapes import to_cell
from ocrrlib.files import InputError, atomic, needs, pick

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["place", "time", "author", "label", "text"]  # of CSV


def to_table(rows: list[Row]) -> "pd.DataFrame":
    """Return a DataFrame of all fields, a row each; ``InputError`` if pandas is missing."""
    with needs("corrigible[files]"):
        import pandas as pd  # slow to import
    table = pd.DataFrame.from_records(rows, columns=FIELDS.split(", "), coerce_float=True)
    return table.assign(time=pd.to_datetime(table["time"], unit="us", utc=True))


def export(rows: list[Row], path: str | os.PathLike) -> None:
    """Write rows to a file, whole or not at all, in the format of its ending.

    Raises ``InputError`` if the format is unknown, the path is that of a database, whatever its
    name, or the file cannot be written.
    """
    path = Path(path)
    write = pick("ending of an export", path.suffix.lower(), WRITERS)
    with atomic(path) as temporary:
        _check_is_no_database(path)
        write(rows, temporary)


def _check_is_no_database(path):
    if path.is_file() and is_database(path):
        raise InputError(f"{path} is a database, perhaps a memory: choose another file")


def _write_csv(rows, path):
    table = to_table(rows)[COLUMNS]
    for column in ("author", "label", "text"):
        table[column] = table[column].map(to_cell, na_action="ignore")
    # All words in quotes: pandas leaves lone carriage returns bare, which end a row when read.
    table.to_csv(path, index=False, quoting=csv.QUOTE_NONNUMERIC)


def _write_jsonl(rows, path):
    with open(path, "w", encoding="ascii") as file:
        for row in rows:
            fields = {}
            for name, value in row._asdict().items():
                fields[name] = value.hex() if isinstance(value, bytes) else value
            print(json.dumps(fields), file=file)


def _write_parquet(rows, path):
    to_table(rows).to_parquet(path, index=False)


WRITERS: dict[str, Callable[[list[Row], Path], None]] = {
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
}


def is_csv_export(path: Path) -> bool:
    """Whether a file is an export in CSV, perhaps saved again by a spreadsheet program."""
    if path.suffix.lower() != ".csv" or not path.is_file():
        return False
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        header = file.readline(100)
    return re.split("[,;\t]", header.strip().replace('"', "")) == COLUMNS
