"""Export entries of a correction memory: as a table, or in the form of an annotation tool."""

import csv
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from corrigible.ledger.history import entry_of
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


def export(rows: list[Row], path: str | os.PathLike, form: str | None = None) -> None:
    """Write rows to a file, whole or not at all, in the format of its ending, or of a tool.

    Raises ``InputError`` if the format is unknown, the path is that of a database, whatever its
    name, or the file cannot be written; and if a tool needs texts and a row has none.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if form is None:
        write = pick("ending of an export", ending, WRITERS)
    else:
        wanted, write = pick("form of an export", form, FORMS)
        if ending != wanted:
            raise InputError(f"{path} does not end in {wanted}, as {form} reads it: rename it")
        _check_have_texts(rows, form)
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


def _check_have_texts(rows, form):
    for row in rows:
        if row.text is None:
            raise InputError(f"entry {row.place} has no text, and {form} needs one: export others")


def _write_label_studio(rows, path):
    """Tasks with an annotation each, for ``Choices`` that are named ``label`` of a ``text``."""
    tasks = []
    for row in rows:
        entry = entry_of(row, row.label or "")
        data = entry._asdict() | {"when": entry.when.isoformat()}
        choice = {
            "from_name": "label",
            "to_name": "text",
            "type": "choices",
            "value": {"choices": [entry.label]},
        }
        tasks.append({"data": data, "annotations": [{"result": [choice]}]})
    path.write_text(json.dumps(tasks, indent=1), encoding="ascii")


def _write_spacy(rows, path):
    """Texts with ``cats``: 1 for the label of each, 0 for all others."""
    labels = dict.fromkeys(row.label for row in rows)
    with open(path, "w", encoding="ascii") as file:
        for row in rows:
            cats = {label: float(label == row.label) for label in labels}
            print(json.dumps({"text": row.text, "cats": cats}), file=file)


FORMS: dict[str, tuple[str, Callable[[list[Row], Path], None]]] = {
    "label-studio": (".json", _write_label_studio),
    "spacy": (".jsonl", _write_spacy),
}


def is_csv_export(path: Path) -> bool:
    """Whether a file is an export in CSV, perhaps saved again by a spreadsheet program."""
    if path.suffix.lower() != ".csv" or not path.is_file():
        return False
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        header = file.readline(100)
    return re.split("[,;\t]", header.strip().replace('"', "")) == COLUMNS
