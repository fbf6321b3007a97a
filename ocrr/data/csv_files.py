"""Read CSV files: encoding, separator, strict quoting, and rows as long as the header."""

import codecs
import csv
import io
import re
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from ocrr.data.findings import Findings
from ocrrlib.files import InputError

SEPARATORS = ",;\t|"
SAMPLE = 50  # rows by which the separator is guessed
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class Layout:
    """How a file is to be read.

    ``encoding`` and ``sep`` are found out where they are None. ``no_header`` means that the first
    line is a row, and ``no_quotes`` that quotes are part of the texts. ``text`` and ``label`` are
    the names of the columns in question, ``where`` conditions on rows, as ``answer=accept``.
    """

    text: str = "text"
    label: str = "label"
    encoding: str | None = None
    sep: str | None = None
    no_header: bool = False
    no_quotes: bool = False
    where: tuple[str, ...] = ()


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
    """Refuse a quoted field over several lines if most of them are rows without the quotes.

    Such a line has as many fields as the header, and its label is that of another line of the
    field, or of a row on one line.
    """
    column = names.index(label)
    single = [record.fields for record in records if record.first == record.last]
    known = {fields[column].strip() for fields in single if len(fields) == len(names)}
    if len(single) == len(records):
        return
    with _long_fields(text):
        lines = list(_reader(text, separator, no_quotes=True))
    for row, (first, last, _) in enumerate(records):
        covered = [line for line in lines[first - 1 : last] if line]
        labels = Counter(line[column].strip('" ') for line in covered if len(line) == len(names))
        n_rows = sum(n for one, n in labels.items() if one and (n > 1 or one in known))
        if first < last and 2 * n_rows > len(covered):
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


def decoded(path: Path, encoding: str | None = None) -> str:
    """A file's text: by its byte-order mark, else in ``encoding``, else in UTF-8.

    Raises ``InputError`` if there is no such encoding, or that names the encoding to give, if the
    bytes are not in that one. Warns of UTF-8 that is read in another encoding.
    """
    if encoding:
        _check_known(encoding)
    content = path.read_bytes()
    marked = next((name for mark, name in MARKS.items() if content.startswith(mark)), None)
    codec = marked or encoding or "utf-8"
    try:
        if codec == "utf-8" and b"\0" in content:
            _refuse_unmarked(content)
        text = content.decode(codec)
        if codec == encoding:
            _warn_of_utf8(path, content, codec)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"line {line} is not {codec} (UnicodeDecodeError): {_other_encoding(content, error)}"
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"line {line} has a NUL character: remove it, or give --encoding")
    return text.removeprefix("\ufeff")


def _check_known(encoding):
    """Refuse what is no encoding of texts, also where a byte-order mark decides."""
    try:
        "".encode(encoding)
    except LookupError as error:
        raise InputError(
            f"unknown encoding {encoding!r}: give one such as utf-8, cp1252 or utf-16"
        ) from error


def _warn_of_utf8(path, content, codec):
    """Warn of a file whose bytes are UTF-8, and are read as another encoding."""
    if codec.lower().startswith(("utf", "u8")) or content.isascii():
        return
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return
    warnings.warn(f"{path}: it is valid UTF-8, and is read as {codec}: leave out --encoding")


def _refuse_unmarked(content):
    """Refuse UTF-16 without a byte-order mark, which is often valid UTF-8, too."""
    for codec in ("utf-16-le", "utf-16-be"):
        text = content.decode(codec, errors="replace")
        if re.search("[\r\n]", text) and not set("\0\ufffd") & set(text):
            raise InputError(f"it has no byte-order mark: give --encoding {codec}")


def _other_encoding(content, error):
    """The way out of bytes that are not of an encoding."""
    if error.encoding != "utf-8":
        return "give another --encoding"
    around = content[max(0, error.start - 12) : error.start + 12]
    try:
        content.decode("cp1252")
    except UnicodeDecodeError:
        return "give its --encoding, as cp1250, shift_jis or gb18030"
    line = " ".join(around.decode("cp1252").split())
    return f"give --encoding cp1252, by which it reads {line!r}, or the right one"
