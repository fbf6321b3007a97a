"""CSV files: separator, strict quoting, and rows as long as the header."""

import csv
import io
import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from ocrrlib.files import InputError
from ocrrlib.own.decoding import decoded
from ocrrlib.own.findings import Findings

SEPARATORS = ",;\t|"
SAMPLE = 50  # rows by which the separator is guessed


@dataclass(frozen=True)
class Layout:
    """How a file is to be read.

    ``encoding`` and ``sep`` are found out where they are None. ``no_header`` means that the first
    line is a row, and ``no_quotes`` that quotes are part of the texts. ``text`` and ``label`` are
    the names of the columns in question.
    """

    text: str = "text"
    label: str = "label"
    encoding: str | None = None
    sep: str | None = None
    no_header: bool = False
    no_quotes: bool = False


class Record(NamedTuple):
    """Fields of a row of a CSV file, with its first and last line, from 1."""

    first: int
    last: int
    fields: list[str]


def read_csv(path: Path, layout: Layout, findings: Findings) -> pd.DataFrame:
    """Read separated values as strings; the first line may declare the separator (``sep=;``).

    Rows with another number of fields than the header are left out and added to ``findings``.
    Raises ``InputError`` if the text cannot be decoded, or a quoted field does not end where a
    field ends.
    """
    text = decoded(path, layout.encoding)
    before = 0
    declared = re.match(r'"?sep=([^\r\n"])"?\r?\n', text, re.IGNORECASE)  # by Excel
    if declared:
        text = text[declared.end() :]
        before = 1
    separator = _given_separator(layout.sep) or (declared and declared[1])
    if not separator:
        order = "\t,;|" if path.suffix.lower() == ".tsv" else SEPARATORS
        fits = {one: _fit(text, one, layout) for one in order}
        best = max(fits.values())
        separator, *others = (one for one in order if fits[one] == best)
        if others and any(best) and layout.no_header:  # no names to decide by
            raise InputError(f"{separator!r} and {others[0]!r} fit as separators: give --sep")
    records = _records(text, separator, layout, before)
    if not records:
        raise InputError("it is empty: give a file with rows")
    if layout.no_header:
        names = [str(place) for place in range(len(records[0].fields))]
    else:
        names = [name.strip() for name in records.pop(0).fields]
    if layout.label in names:
        _check_quotes(text, separator, records, names, layout.label, before)
    return _even(names, [record.fields for record in records], findings)


def _given_separator(sep):
    """A separator as the shell can give it."""
    one = {"\\t": "\t", "tab": "\t"}.get(sep, sep)
    if one is not None and (len(one) != 1 or one in '"\r\n'):
        raise InputError(f"sep {sep!r} is no separator: give one character, or tab")
    return one


def _reader(text, separator, no_quotes):
    # Spaces before a quote are not text; a doubled quote is inside a quoted text.
    spaced = separator != " " and re.search(re.escape(separator) + ' +"(?!")', text)
    return csv.reader(
        io.StringIO(text, newline=""),
        delimiter=separator,
        quoting=csv.QUOTE_NONE if no_quotes else csv.QUOTE_MINIMAL,
        skipinitialspace=bool(spaced),
        strict=True,
    )


@contextmanager
def _long_fields(text):
    """Let the csv module read fields of any length."""
    before = csv.field_size_limit(max(len(text), csv.field_size_limit()))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _fit(text, separator, layout):
    """How well a separator fits: wanted names in the header, rows as long as it, its length."""
    rows = []
    try:
        with _long_fields(text):
            for row in islice(_reader(text, separator, layout.no_quotes), SAMPLE):
                rows += [row] if row else []
    except csv.Error:  # not with this separator, or a fault that is named later
        pass
    if not rows or len(rows[0]) < 2:
        return 0, 0, 0
    names = {name.strip() for name in rows[0]}
    wanted = len(names & {layout.text, layout.label}) if not layout.no_header else 0
    return wanted, sum(len(row) == len(rows[0]) for row in rows), len(rows[0])


def _records(text, separator, layout, before):
    """All records that are not blank; ``before`` lines are above the text."""
    reader = _reader(text, separator, layout.no_quotes)
    records = []
    first = 1
    try:
        with _long_fields(text):
            for fields in reader:
                if len(fields) > 1 or "".join(fields).strip():
                    records.append(Record(first, reader.line_num, fields))
                first = reader.line_num + 1
    except csv.Error as error:
        if "unexpected end" in str(error):
            what = "does not end"
        else:
            what = f"ends inside a field in line {reader.line_num + before}"
        row = len(records) - (not layout.no_header)
        raise _quoting_fault(row, first + before, what) from error
    return records


def _quoting_fault(row, line, what):
    place = f"row {row}" if row >= 0 else "the header"
    return InputError(
        f"a quote that starts in {place} (line {line}) {what}: close it, or double quotes inside "
        "of quoted texts; if quotes are part of the texts, give --no-quotes"
    )


def _check_quotes(text, separator, records, names, label, before):
    """Refuse quoted fields over several lines of which most would be rows if quotes were none.

    Such a line has as many fields as the header, and its label is that of another line of the
    field, or of a row on one line.
    """
    several = [row for row, record in enumerate(records) if record.first < record.last]
    if not several:
        return
    column = names.index(label)
    plain = [record.fields for record in records if record.first == record.last]
    known = {fields[column].strip() for fields in plain if len(fields) == len(names)}
    with _long_fields(text):
        lines = list(_reader(text, separator, no_quotes=True))
    for row in several:
        first, last, _ = records[row]
        covered = [line for line in lines[first - 1 : last] if line]
        even = [line for line in covered if len(line) == len(names)]
        labels = Counter(line[column].strip('" ') for line in even)
        shared = sum(n for one, n in labels.items() if one and (n > 1 or one in known))
        if len(covered) > 1 and 2 * shared > len(covered):
            raise _quoting_fault(row, first + before, f"takes in rows up to line {last + before}")


def _even(names, rows, findings):
    """Rows that have as many fields as the header, as a table."""
    longer = [place for place, row in enumerate(rows) if len(row) > len(names)]
    shorter = [place for place, row in enumerate(rows) if len(row) < len(names)]
    way_out = "quote texts with separators or line breaks, or give --sep"
    findings.add(longer, "more fields than the header in row", way_out)
    findings.add(shorter, "fewer fields than the header in row", way_out)
    even = [place for place, row in enumerate(rows) if len(row) == len(names)]
    return pd.DataFrame([rows[place] for place in even], even, names, dtype=object)
