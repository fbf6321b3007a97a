"""Read files of texts as tables: CSV, JSON, Excel and parquet."""

import json
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path

import pandas as pd

from ocrr.data.csv_files import Layout, decoded, read_csv
from ocrr.data.findings import Findings, listed
from ocrrlib.files import InputError


def read_table(path: Path, layout: Layout, findings: Findings) -> pd.DataFrame:
    """Read a file as strings, or as values of the file, in columns with names of text.

    Rows are named by their number, from 0. Rows that have another number of fields than the header
    are left out and added to ``findings``.

    Raises ``InputError`` or what the file's reader raises if the file cannot be read.
    """
    return TABLES[path.suffix.lower()](path, layout, findings)


def _read_json(path, layout, findings):
    """An array of objects, or one object a line; names of nested values have dots."""
    text = decoded(path, layout.encoding)
    if text.lstrip().startswith("["):
        records = json.loads(text)
    else:
        records = list(_json_lines(text))
    if not records:
        raise InputError("it is empty: give a file with rows")
    for place, record in enumerate(records):
        if not isinstance(record, dict):
            raise InputError(f"row {place} is no JSON object: give an object for each row")
    # Objects, as pandas would make floats of whole numbers in a column with gaps.
    return pd.DataFrame([dict(_flat(record)) for record in records], dtype=object)


def _flat(record, before=""):
    """Names and values of an object; those of a nested one have its name and a dot before."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _json_lines(text):
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                raise InputError(
                    f"it cannot be read: line {number} is no JSON ({error.msg}): "
                    "give one object a line, or an array of objects"
                ) from error


def _read_excel(path, layout, findings):
    """The first sheet of a workbook."""
    header = None if layout.no_header else 0
    return _named(pd.read_excel(path, header=header, dtype=object, na_filter=False))


def _read_parquet(path, layout, findings):
    """Columns, with those of a nested one in its place, their names with dots."""
    import pyarrow.parquet as pq
    import pyarrow.types as types

    table = pq.ParquetFile(path).read()
    while any(types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    return _named(table.to_pandas(ignore_metadata=True, integer_object_nulls=True))


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose columns have names of text; the parts of a tuple are joined by dots."""
    return table.set_axis([column_name(name) for name in table.columns], axis=1)


def column_name(name: object) -> str:
    """A column's name as text; parts of a tuple are joined by dots."""
    return ".".join(map(str, name)) if isinstance(name, tuple) else str(name)


def columns(
    table: pd.DataFrame, names: list[str], findings: Findings, way_out: str
) -> Iterator[pd.Series]:
    """Columns by their names; names that are missing, or there twice, are refused together."""
    table = _named(table)
    there = list(table.columns)
    wanted = list(dict.fromkeys(names))
    missing = [name for name in wanted if name not in there]
    if missing:
        close = get_close_matches(missing[0], there, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        shown = listed([name[:40] for name in there], 8)
        unknown = f"unknown column {listed(map(repr, missing))}{hint}; there are: {shown}"
        findings.say(f"{unknown}: {way_out}")
    for name in wanted:
        if there.count(name) > 1:
            findings.say(f"{there.count(name)} columns have the name {name!r}: rename all but one")
    if missing or any(there.count(name) > 1 for name in wanted):
        findings.refuse()
    return (table[name] for name in names)


TABLES: dict[str, Callable] = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".json": _read_json,
    ".jsonl": _read_json,
    ".parquet": _read_parquet,
    ".xlsx": _read_excel,
}
