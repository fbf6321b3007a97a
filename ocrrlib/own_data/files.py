"""Files with data of one's own, as columns or arrays: what is in them, not yet whether it makes sense."""

import csv
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors import SafetensorError, safe_open

from ocrrlib.errors import InputError
from ocrrlib.own_data.columns import as_text, check_columns

DELIMITERS = ",;\t"  # whichever gives the columns that are asked for
HEADER = 100_000  # characters in which the first line must end


def read_csv(path, columns):
    """Columns of a CSV file in UTF-8 as arrays of text, and the line on which each row begins.

    Parameters
    ----------
    path : path
        Separated by commas, semicolons or tabs; line 1 has the names of the columns.
    columns : list of str
        Those that are wanted.

    Raises
    ------
    InputError
        If the file is not UTF-8, lacks a column, or a row has too few or too many fields.
    """
    content = _decoded(path)
    header, delimiter = _header(path, content, columns)
    content = list(io.StringIO(content, newline=""))
    places = [header.index(column) for column in columns]
    fields, lines, reader, line = [], [], csv.reader(content, delimiter=delimiter), 0
    try:
        for row in reader:
            line, first = reader.line_num, line + 1
            if row and first > 1:
                if line > first:
                    _check_quotes(path, content[first - 1 : line], first, delimiter)
                if len(row) != len(header):
                    raise InputError(
                        f"{path}: line {first} has {len(row)} fields, not {len(header)} as line 1: put what has a "
                        f"{delimiter!r} or a line break in it between double quotes"
                    )
                fields.append([row[place] for place in places])
                lines.append(first)
    except csv.Error as error:
        raise InputError(
            f"{path}: cannot read on from line {line + 1} ({error}): is a double quote missing?"
        ) from error
    values = np.array(fields, object).reshape(-1, len(columns))
    return dict(zip(columns, values.T)), lines


def _check_quotes(path, row, first, delimiter):
    """Refuse a row of several lines whose quotes do not match: what is taken for one row may be many."""
    try:
        list(csv.reader(row, delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise InputError(
            f"{path}: a double quote that is opened on line {first} is not closed as it should be: close it before the "
            "next column, and write two for one within a text"
        ) from error


def _decoded(path):
    content = path.read_bytes()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path} is in UTF-16: {_convert('UTF-16')}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Byte numbers in the error do not count a byte order mark.
        place = error.start + 3 * content.startswith(b"\xef\xbb\xbf")
        line = content.count(b"\n", 0, place) + 1
        raise InputError(
            f"{path} is not in UTF-8 (byte 0x{content[place]:02x} on line {line}): {_convert('WINDOWS-1252')} "
            "if that is what it is in"
        ) from error


def _convert(encoding):
    return f"convert it with `iconv -f {encoding} -t UTF-8 old.csv > new.csv`"


def _header(path, content, columns):
    """Names of the columns, and what separates them."""
    start = content[:HEADER]
    found = {d: next(csv.reader(io.StringIO(start, newline=""), delimiter=d), []) for d in DELIMITERS}
    for delimiter, header in found.items():
        if set(columns) <= set(header):
            break
    else:
        delimiter, header = max(found.items(), key=lambda item: len(item[1]))
    check_columns(path, columns, header)
    return header, delimiter


def read_json_lines(path, columns):
    """The same of a file with one JSON object on each line, whose names are the columns; ``""`` where one has none.

    Raises
    ------
    InputError
        If the file is not UTF-8, a line is no object, no line has a column, or a column holds no texts or numbers.
    """
    rows, lines = [], []
    for number, line in enumerate(_decoded(path).split("\n"), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise InputError(
                    f"{path}: line {number} is no JSON ({error}): write one object on each line"
                ) from error
            if not isinstance(rows[-1], dict):
                raise InputError(f"{path}: line {number} is no JSON object: write one on each line, with its columns")
            lines.append(number)
    check_columns(path, columns, list(dict.fromkeys(name for row in rows for name in row)))
    found = {column: pd.Series([row.get(column) for row in rows], dtype=object) for column in columns}
    return {column: as_text(path, column, values, lines) for column, values in found.items()}, lines


def read_parquet(path, columns):
    """Columns of a parquet file as arrays of text, ``""`` where there is none; it has rows, not lines.

    Raises
    ------
    InputError
        If pyarrow is not installed, the file is damaged, lacks a column, or a column holds no texts or numbers.
    """
    try:
        import pyarrow.parquet as parquet  # not everyone has it
    except ImportError as error:
        raise InputError(f"{path}: parquet needs pyarrow: run `pip install 'ocrrlib[parquet]'`") from error
    try:
        file = parquet.ParquetFile(path)
        check_columns(path, columns, file.schema_arrow.names)
        frame = file.read(columns=columns).to_pandas(integer_object_nulls=True)
    except InputError:
        raise
    except (OSError, ValueError) as error:  # pyarrow's own errors are among these
        raise InputError(f"{path} is no parquet file, or damaged ({type(error).__name__}): write it anew") from error
    return {column: as_text(path, column, frame[column]) for column in columns}, None


def read_arrays(path):
    """All arrays of a .npz or .safetensors file, by name.

    Raises
    ------
    InputError
        If the file is damaged or holds Python objects.
    """
    try:
        if path.suffix.lower() == ".npz":
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        with safe_open(path, "numpy") as arrays:
            return {name: arrays.get_tensor(name) for name in arrays.keys()}
    except (SafetensorError, zipfile.BadZipFile, OSError, EOFError, AttributeError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())
        raise InputError(
            f"cannot read {path} ({type(error).__name__}: {why}): write arrays of numbers or text into it, with "
            "numpy.savez or safetensors.numpy.save_file; of Python's objects make text first, y.astype(str)"
        ) from error


TABLES = {".csv": read_csv, ".tsv": read_csv, ".jsonl": read_json_lines, ".parquet": read_parquet}
ARRAYS = (".npz", ".safetensors")


def ending(path):
    """The file's ending, one of those that are known.

    Raises
    ------
    InputError
        If there is no such file or its ending is not known.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}: give one that ends in {', '.join((*TABLES, *ARRAYS))}")
    found = path.suffix.lower()
    if found not in (*TABLES, *ARRAYS):
        raise InputError(f"{path} ends in {found or 'nothing'}: give a file in {', '.join((*TABLES, *ARRAYS))}")
    return found
