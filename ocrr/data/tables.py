"""Read files of texts as tables: CSV, JSON, Excel and parquet."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from ocrr.data.csv_files import SAMPLE, Layout, decoded, read_csv
from ocrr.data.findings import Findings
from ocrr.data.limits import check_cells, check_unpacked, check_zip
from ocrr.data.paths import VERDICTS, at, begins, beside, named
from ocrrlib.files import InputError, needs


def read_table(path: Path, names: list[str], layout: Layout, findings: Findings) -> pd.DataFrame:
    """Read a file as strings, or as values of the file, in columns with names of text.

    ``names`` are paths, first those to texts and labels. Columns in which none of them begins may
    be left out; if a path begins in no column, all columns are there, and rows may be left out.
    Rows are named by their number, from 0. Those that have another number of fields than the header
    are left out and added to ``findings``.

    Raises ``InputError`` or what the file's reader raises if the file cannot be read.
    """
    return TABLES[path.suffix.lower()](path, names, layout, findings)


def _read_csv(path, names, layout, findings):
    return read_csv(path, layout, findings)


def _read_json(path, names, layout, findings):
    """An array of objects, or one object a line, or one object with a list of them."""
    text = decoded(path, layout.encoding)
    if not text.strip():
        raise InputError("it is empty: give a file with rows")
    try:
        records = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise
        records = list(_json_lines(text))
    if isinstance(records, dict):
        records = _within(records, names)
    if not isinstance(records, list) or not records:
        raise InputError("it is empty: give a file with rows")
    for place, record in enumerate(records):
        if not isinstance(record, dict):
            raise InputError(f"row {place} is no JSON object: give an object for each row")
    there = list(dict.fromkeys(name for record in records for name in record))
    begun = _begun(there, names)
    if not begun:
        return pd.DataFrame(records[:SAMPLE], columns=there, dtype=object)
    # Objects, as pandas would make floats of whole numbers in a column with gaps.
    table = {name: [record.get(name) for record in records] for name in begun}
    return pd.DataFrame(table, dtype=object)


def _begun(there, names):
    """Columns in which paths begin, or such to a verdict on labels; none if a path does in none."""
    verdicts = [path for verdict in VERDICTS for path in beside(names[1], verdict)]
    if not all(any(begins(name, one) for one in there) for name in names):
        return []
    return [one for one in there if any(begins(name, one) for name in [*names, *verdicts])]


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


def _within(document, names):
    """Rows of a file that is one object: those of the list through which texts and labels lead."""
    text, label, *_ = names
    parts = text.split(".")
    for n in range(1, len(parts)):
        before = ".".join(parts[:n])
        rows = at(document, before)
        if isinstance(rows, list) and label.startswith(f"{before}."):
            return [{before: row} for row in rows]
    return [document]


def _read_excel(path, names, layout, findings):
    """The first sheet of a workbook: rows that are not blank, in columns of the header."""
    with needs("ocrrlib[excel]"):
        from openpyxl import load_workbook
    check_zip(path)
    header = {}  # names of columns by their places
    rows = {}
    n_cells = 0
    book = load_workbook(path, read_only=True, data_only=True)
    sheet = book.worksheets[0]
    sheet.reset_dimensions()  # it is declared, and may be that of a cell far away
    for number, row in enumerate(sheet.rows):
        n_cells += max(len(row), len(header)) if row else 0
        check_cells(n_cells, number)
        if not header:
            header = _header(row, layout.no_header)
            first = number if layout.no_header else number + 1
        values = [_value(row[place]) if place < len(row) else None for place in header]
        if number >= first and any(value is not None for value in values):
            rows[number - first] = values
    book.close()
    if not header:
        raise InputError("it is empty: give a file with rows")
    return named(pd.DataFrame(list(rows.values()), list(rows), list(header.values()), dtype=object))


def _header(row, no_header):
    """Names of columns by their places, from the first row that is not blank."""
    filled = {place: _value(cell) for place, cell in enumerate(row) if _value(cell) is not None}
    if no_header and filled:
        return {place: place for place in range(max(filled) + 1)}
    return filled


def _value(cell):
    """What a cell of a sheet holds; None for blank ones and errors of formulas."""
    return None if cell.data_type == "e" or cell.value == "" else cell.value


def _read_parquet(path, names, layout, findings):
    """Columns in which names begin, those of a nested one in its place, their names with dots.

    Class names in the schema, where `datasets` writes them, replace numbers. Where a name begins
    in no column, the table has the names of all columns, and no rows.
    """
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    schema = file.schema_arrow
    begun = _begun(schema.names, names)
    if not begun:
        return named(_flat(schema.empty_table()).to_pandas(ignore_metadata=True))
    groups = [file.metadata.row_group(place) for place in range(file.metadata.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    chunks = [one for one in chunks if any(begins(one.path_in_schema, name) for name in begun)]
    check_cells(sum(one.num_values for one in chunks), file.metadata.num_rows)
    check_unpacked(path, sum(one.total_uncompressed_size for one in chunks))
    # A text that fills many rows is stored once: count before each row has its own.
    texts = [one.path_in_schema for one in chunks if one.physical_type == "BYTE_ARRAY"]
    packed = pq.ParquetFile(path, read_dictionary=texts).read(columns=begun)
    check_unpacked(path, sum(_n_bytes(one) for column in packed.columns for one in column.chunks))
    table = _flat(file.read(columns=begun))
    table = named(table.to_pandas(ignore_metadata=True, integer_object_nulls=True))
    about = json.loads((schema.metadata or {}).get(b"huggingface", "{}"))
    for name in table:
        feature = at(about, f"info.features.{name}")
        if "ClassLabel" in str(feature):
            values = [_class_name(value, feature) for value in table[name]]
            table[name] = pd.Series(values, table.index, dtype=object)
    return table


def _flat(table):
    """An Arrow table with the columns of a nested one in its place."""
    import pyarrow.types as types

    while any(types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    return table


def _n_bytes(array):
    """Bytes of an Arrow array, of texts that are stored once for each time that they occur."""
    import pyarrow.compute as compute
    import pyarrow.types as types

    if types.is_dictionary(array.type):
        lengths = compute.binary_length(array.dictionary)
        return compute.sum(compute.take(lengths, array.indices)).as_py() or 0
    if types.is_struct(array.type):
        return sum(_n_bytes(one) for one in array.flatten())
    if types.is_list(array.type) or types.is_large_list(array.type):
        return _n_bytes(array.flatten())
    return array.nbytes


def _class_name(value, feature):
    """The name of a class id, or names of a list of them; None for those without a name."""
    if isinstance(value, np.ndarray):
        inner = feature[0] if isinstance(feature, list) else feature["feature"]
        return [_class_name(one, inner) for one in value]
    classes = feature["names"]
    return classes[int(value)] if pd.notna(value) and 0 <= value < len(classes) else None


TABLES: dict[str, Callable] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".json": _read_json,
    ".jsonl": _read_json,
    ".parquet": _read_parquet,
    ".xlsx": _read_excel,
}
