"""Files of texts: every layout gives the rows that were written, or one line with the way out."""

import json
import warnings
import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ocrr.data import limits
from ocrr.data.read import read_data, read_rows
from ocrrlib.files import InputError

ROWS = [
    (f"{word} {n} hélp", queue)
    for n in range(50)
    for word, queue in (
        ("router", "network"),
        ("invoice", "billing"),
        ("wifi", "network"),
        ("card", "billing"),
    )
]
TABLE = pd.DataFrame(ROWS, columns=["text", "label"])


def lines(rows, separator=",", header=("text", "label")):
    return "".join(separator.join(row) + "\n" for row in ([header] if header else []) + rows)


def written(path, content, encoding="utf-8"):
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def read(path, **options):
    texts, labels = read_rows(path, **options)
    return list(zip(texts, labels))


def quoted(separator, places):
    """Rows in which quotes are put before or after a text, without quoting."""
    rows = list(ROWS)
    for place, form in places.items():
        rows[place] = (form.replace("SEP", separator).format(rows[place][0]), rows[place][1])
    return lines(rows, separator)


FAULTS = {
    "two starts": ({3: '"{}', 150: '"{}'}, 3),
    "start and end": ({3: '"{}', 150: '{} 5"'}, 3),
    "first to last row": ({0: '"{}', 199: '{}"'}, 0),
    "two rows": ({10: '"{}', 11: '{}"'}, 10),
    "a quoted word": ({7: '"hello" {}'}, 7),
    "no end": ({198: '"{}'}, 198),
    "a longer row between": ({3: '"{}', 70: "{}SEP", 150: '{}"'}, 3),
    "many odd rows between": (
        {3: '"{}', **dict.fromkeys(range(30, 90), "{}SEP"), 100: "", 150: '{}"'},
        3,
    ),
    "backslash": ({20: '"say \\"hi\\" {}"'}, 20),
}


@pytest.mark.parametrize("separator, suffix", [(",", "csv"), ("\t", "tsv")])
@pytest.mark.parametrize("places, row", FAULTS.values(), ids=FAULTS)
def test_a_quoting_fault_names_the_row_where_it_starts(places, row, separator, suffix, tmp_path):
    text = quoted(separator, places)
    path = written(tmp_path / f"a.{suffix}", text)
    with pytest.raises(InputError, match=rf"quote.* row {row} \(line {row + 2}\).*--no-quotes"):
        read(path)
    whole = [tuple(line.split(separator)) for line in text.splitlines()[1:]]
    if all(len(row) == 2 and row[0] for row in whole):
        assert read(path, no_quotes=True) == whole


def test_a_quote_that_starts_in_a_label_takes_in_no_rows(tmp_path):
    rows = list(ROWS)
    rows[3] = (rows[3][0], f'"{rows[3][1]}')
    rows[150] = (rows[150][0], f'{rows[150][1]}"')
    with pytest.raises(InputError, match="row 3 "):
        read(written(tmp_path / "a.tsv", lines(rows, "\t")))


@pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
def test_quoted_texts_may_have_line_breaks_separators_and_quotes(separator, tmp_path):
    letters = [
        (f'Dear all{separator} hello\nthe {text}\n\nsaid “{text}” and "no"{separator} {n}', label)
        for n, (text, label) in enumerate(ROWS)
    ]
    short = [(f"{text}{separator} hello\nplease", label) for text, label in ROWS]
    indented = [(f"  {text}", label) for text, label in ROWS]
    for rows in (letters, short, indented, ROWS[:100] + short[100:]):
        frame = pd.DataFrame(rows, columns=["text", "label"])
        frame.to_csv(tmp_path / "a.csv", index=False, sep=separator)
        assert read(tmp_path / "a.csv") == rows


LAYOUTS = {
    "quoted header": '"text";"label";"notes (a, b, c, d)"\n'
    + lines([(*row, "x, y, z, 1") for row in ROWS], ";", None),
    "header without quotes": lines([(*row, "x, y") for row in ROWS], ";", ("text", "label", "a,b")),
    "tabs in quotes": '"a\tb\tc",text,label\n' + lines([("q", *row) for row in ROWS], ",", None),
    "pipes": lines(ROWS, "|"),
    "declared": "sep=;\r\n" + lines(ROWS, ";"),
    "declared, odd": "sep=~\n" + lines(ROWS, "~"),
    "blank lines": lines(ROWS).replace("\n", "\n\n"),
    "spaces after separators": '"text", "label"\n'
    + "".join(f'"{text}", "{label}"\n' for text, label in ROWS),
    "old line ends": lines(ROWS).replace("\n", "\r"),
}


@pytest.mark.parametrize("content", LAYOUTS.values(), ids=LAYOUTS)
def test_the_separator_is_found_outside_quotes(content, tmp_path):
    assert read(written(tmp_path / "a.csv", content)) == ROWS


def test_an_odd_separator_is_given(tmp_path):
    path = written(tmp_path / "a.csv", lines(ROWS, "~"))
    assert read(path, sep="~") == ROWS
    assert read(written(path, lines(ROWS, "\t")), sep="\\t") == ROWS
    with pytest.raises(InputError, match="--sep"):
        read(written(path, lines(ROWS, "~")))
    with pytest.raises(InputError, match="no separator"):
        read(path, sep="||")


def test_a_file_without_header_is_told_and_read(tmp_path):
    path = written(tmp_path / "a.csv", lines(ROWS, header=None))
    with pytest.raises(InputError, match="--no-header"):
        read(path)
    assert read(path, no_header=True) == ROWS
    swapped = [row[::-1] for row in ROWS]
    path = written(tmp_path / "a.tsv", lines(swapped, "\t", None))
    assert read(path, no_header=True, text=1, label="0") == ROWS
    with pytest.raises(InputError, match="leave out --no-header"):
        read(written(tmp_path / "a.jsonl", "{}"), no_header=True)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_byte_order_mark_tells_the_encoding(encoding, suffix, tmp_path):
    text = lines(ROWS) if suffix == "csv" else TABLE.to_json(orient="records", lines=True)
    assert read(written(tmp_path / f"a.{suffix}", text, encoding)) == ROWS


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16-le", "utf-16-be"])
def test_an_encoding_without_mark_is_the_way_out_and_is_read(encoding, tmp_path):
    path = written(tmp_path / "a.csv", lines(ROWS), encoding)
    with pytest.raises(InputError, match=f"--encoding {encoding}"):
        read(path)
    assert read(path, encoding=encoding) == ROWS
    plain = lines(ROWS).replace("é", "e")
    if encoding != "cp1252":  # valid UTF-8, full of NUL characters
        with pytest.raises(InputError, match=f"--encoding {encoding}"):
            read(written(path, plain, encoding))


def test_wrong_encodings_are_told(tmp_path):
    path = written(tmp_path / "a.csv", lines(ROWS))
    with pytest.warns(UserWarning, match="valid UTF-8"):
        read(path, encoding="cp1252")
    with pytest.raises(InputError, match="line 2 has a NUL"):
        read(written(path, lines(ROWS).replace("router", "rou\0ter", 1)))


NESTED = [
    {"id": n, "fields": {"description": text, "queue": {"name": label}}}
    for n, (text, label) in enumerate(ROWS)
]


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.json", json.dumps(NESTED, indent=1)),
        ("a.json", "\n".join(map(json.dumps, NESTED))),
        ("a.jsonl", "\n\n".join(json.dumps(row, ensure_ascii=False) for row in NESTED)),
    ],
)
def test_nested_json_has_dotted_names(name, content, tmp_path):
    path = written(tmp_path / name, content)
    assert read(path, text="fields.description", label="fields.queue.name") == ROWS
    with pytest.raises(InputError, match="fields.description, fields.queue.name"):
        read(path)


def test_nested_parquet_has_dotted_names(tmp_path):
    pd.DataFrame(NESTED).to_parquet(tmp_path / "a.parquet")
    found = read(tmp_path / "a.parquet", text="fields.description", label="fields.queue.name")
    assert found == ROWS


def test_half_characters_are_refused(tmp_path):
    half = json.dumps({"text": "half \ud83d", "label": "a"})
    with pytest.raises(InputError, match="in row 1.*surrogate"):
        read(written(tmp_path / "a.jsonl", json.dumps({"text": "a", "label": "b"}) + "\n" + half))


def test_the_first_sheet_of_a_workbook_is_read(tmp_path):
    path = tmp_path / "a.xlsx"
    TABLE.to_excel(path, index=False)
    assert read(path) == ROWS
    TABLE.to_excel(path, index=False, header=False)
    assert read(path, no_header=True) == ROWS
    with pd.ExcelWriter(path) as book:
        TABLE.assign(label=[1.0, 2.0] * 100).to_excel(book, sheet_name="one", index=False)
        TABLE.to_excel(book, sheet_name="two", index=False)
    assert [label for _, label in read(path)] == ["1", "2"] * 100


def test_a_stray_cell_does_not_make_a_workbook_large(tmp_path):
    book = openpyxl.Workbook()
    for row in [("text", "label"), *ROWS[:4]]:
        book.active.append(row)
    book.active["XFD1048576"] = "x"
    book.save(tmp_path / "a.xlsx")
    assert read(tmp_path / "a.xlsx") == ROWS[:4]
    book.active["XFC1"] = "stray"
    book.active["A12"] = "no label"
    book.active["B12"] = "=1/0"
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(InputError, match="'label' is empty in row 10: "):
        read(tmp_path / "a.xlsx")


SHEET = """<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>
<row r="1"><c r="A1" t="inlineStr"><is><t>text</t></is></c><c r="B1" t="inlineStr"><is><t>label</t>
</is></c></row>{}</sheetData></worksheet>"""


def workbook(path, rows):
    """A workbook with a sheet of these rows, in XML."""
    openpyxl.Workbook().save(path.with_suffix(".zip"))
    with zipfile.ZipFile(path.with_suffix(".zip")) as made:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
            for name in made.namelist():
                is_sheet = name == "xl/worksheets/sheet1.xml"
                book.writestr(name, SHEET.format(rows) if is_sheet else made.read(name))


def wide_rows(path):
    rows = (f'<row r="{n}"><c r="XFD{n}"><v>1</v></c></row>' for n in range(2, 5000))
    workbook(path.with_suffix(".xlsx"), "".join(rows))


def rows_far_below(path):
    workbook(path.with_suffix(".xlsx"), '<row r="99000000"><c r="A99000000"><v>1</v></c></row>')


def much_space(path):
    workbook(path.with_suffix(".xlsx"), " " * 2**20)


def many_equal_rows(path):
    cells = pa.DictionaryArray.from_arrays(np.zeros(11_000_000, np.int8), ["a"])
    table = pa.table({"text": cells, "label": cells})
    pq.write_table(table, path.with_suffix(".parquet"), store_schema=False)


def one_long_text(path):
    cells = pa.DictionaryArray.from_arrays(np.zeros(4000, np.int8), ["a" * 2**20])
    table = pa.table({"text": cells, "label": ["a"] * 4000})
    pq.write_table(table, path.with_suffix(".parquet"), store_schema=False)


def long_texts_in_lists(path):
    cells = pa.DictionaryArray.from_arrays(np.zeros(4000, np.int8), ["a" * 2**20])
    lists = pa.ListArray.from_arrays(np.arange(4001, dtype=np.int32), cells)
    table = pa.table({"text": ["a"] * 4000, "label": lists})
    pq.write_table(table, path.with_suffix(".parquet"), store_schema=False)


def zeros(path):
    np.savez_compressed(path.with_suffix(".npz"), X=np.zeros((2**20, 2)), y=np.zeros(2**20))


@pytest.mark.parametrize(
    "write, clue",
    [
        (wide_rows, "more than 20,000,000 cells"),
        (rows_far_below, "more than .* 5,000,000 rows"),
        (much_space, "GB once unpacked"),
        (many_equal_rows, "more than 20,000,000 cells"),
        (one_long_text, "GB once unpacked"),
        (long_texts_in_lists, "GB once unpacked"),
        (zeros, "GB once unpacked"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_files_that_stand_for_more_than_memory_holds_are_refused(
    write, clue, tmp_path, monkeypatch
):
    if write in (much_space, zeros):
        monkeypatch.setattr(limits, "UNPACKED", 2**19)
    write(tmp_path / "a")
    (path,) = (path for path in tmp_path.iterdir() if path.suffix != ".zip")
    assert path.stat().st_size < 2**18
    with pytest.raises(InputError, match=clue):
        read(path)


def test_json_with_another_name_in_each_row_is_read_for_two_of_them(tmp_path):
    rows = [{"text": f"text {n}", "label": "a", f"key {n}": n} for n in range(3000)]
    path = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    assert len(read(path)) == 3000
    with pytest.raises(InputError, match="unknown column 'body'; there are: text, label, key 0"):
        read(path, text="body")


@pytest.mark.parametrize("start, end", ["[]", ("[1,", "]"), ('{"a":', "}")])
def test_json_in_deep_levels_is_refused_in_one_line(start, end, tmp_path):
    for n in (500, 100_000):
        label = f"{start * n}1{end * n}" if start != "[" else f"{start * n}1, 2{end * n}"
        path = written(tmp_path / "a.json", f'[{{"text": "a", "label": {label}}}]')
        with pytest.raises(InputError, match="cannot be"):
            read(path)


def counts(texts):
    """An encoder: how often some letters occur."""
    return np.array([[text.count(letter) + 0.1 for letter in "abcdefhikl0123"] for text in texts])


def classes(table, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*have the same vector")
        return read_data(table, encoder=counts, **options).classes


def test_columns_are_named_by_numbers_and_tuples(tmp_path):
    assert classes(TABLE.set_axis([0, 1], axis=1), text=0, label=1) == ("billing", "network")
    pairs = pd.MultiIndex.from_tuples([("ticket", "text"), ("ticket", "label")])
    table = TABLE.set_axis(pairs, axis=1)
    names = dict(text=("ticket", "text"), label="ticket.label")
    assert classes(table, **names) == ("billing", "network")


def test_labels_follow_one_rule_in_all_formats(tmp_path):
    with_gaps = TABLE.assign(label=[0, 1, 1, 0] * 49 + [0, 1, 1, None])
    for suffix in ("csv", "parquet", "xlsx", "jsonl"):
        path = tmp_path / f"a.{suffix}"
        if suffix == "csv":
            with_gaps.assign(label=with_gaps["label"].astype("Int64")).to_csv(path, index=False)
        elif suffix == "jsonl":
            with_gaps.to_json(path, orient="records", lines=True)
        else:
            getattr(with_gaps, {"xlsx": "to_excel"}.get(suffix, "to_parquet"))(path, index=False)
        assert classes(path, drop_empty=True) == ("0", "1")
    forms = ["e\u0301", "é ", "é\n", "True"]
    assert classes(TABLE.assign(label=forms * 50)) == ("True", "é")
    mixed = TABLE.assign(label=pd.Series([True, np.True_, False, "False"] * 50, dtype=object))
    assert classes(mixed) == ("False", "True")


BIG = 2**53


@pytest.mark.parametrize("suffix", ["jsonl", "json", "parquet"])
def test_whole_numbers_in_a_column_with_a_gap_stay_whole(suffix, tmp_path):
    rows = [{"text": 10**17 + n, "label": BIG + n % 2} for n in range(60)]
    rows[7] = {"text": None, "label": BIG}
    rows[8] = {"text": 3, "label": None}
    path = tmp_path / f"a.{suffix}"
    if suffix == "parquet":
        pd.DataFrame(rows, dtype=object).to_parquet(path, index=False)
    else:
        separator = "\n" if suffix == "jsonl" else ","
        text = separator.join(map(json.dumps, rows))
        written(path, text if suffix == "jsonl" else f"[{text}]")
    encoded = []

    def encoder(texts):
        encoded.extend(texts)
        return np.random.default_rng(0).normal(size=(len(texts), 8))

    data = read_data(path, encoder=encoder, drop_empty=True)
    assert data.classes == (str(BIG), str(BIG + 1))
    assert set(encoded) == {str(10**17 + n) for n in range(60) if n not in (7, 8)}


def test_floats_that_stand_for_several_texts_are_refused():
    texts = [10**17 + n for n in range(199)] + [None]
    with pytest.raises(InputError, match="'text' cannot be used in row 0, 1, 2 .*give strings"):
        classes(TABLE.assign(text=texts), drop_empty=True)


def test_a_label_with_a_nul_is_refused_and_not_taken_for_another(tmp_path):
    rows = [{"text": f"text {n}", "label": "a\0" if n % 2 else "a"} for n in range(8)]
    path = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match="'label' cannot be used in row 1, 3, 5"):
        read(path)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("encoding", ["latin9x", "base64"])
def test_an_unknown_encoding_is_refused_also_beside_a_mark(encoding, mark, tmp_path):
    path = written(tmp_path / "a.csv", mark + lines(ROWS))
    with pytest.raises(InputError, match=f"unknown encoding '{encoding}'"):
        read(path, encoding=encoding)


@pytest.mark.parametrize(
    "reader, options, clue",
    [
        (read_data, {}, r"by --text and --label \(text and label of read_data\), or give --sep"),
        (read_data, dict(split="part"), r"by --text, --label and --split \(text, label and split"),
        (read_rows, {}, "by --text and --label, or give --sep"),
    ],
)
def test_a_missing_column_is_said_with_options_that_there_are(reader, options, clue, tmp_path):
    path = written(tmp_path / "a.csv", lines(ROWS, header=("body", "queue")))
    with pytest.raises(InputError, match=f"there are: body, queue: choose {clue}"):
        reader(path, **options)


def test_two_separators_that_fit_a_file_without_header_are_told(tmp_path):
    rows = [(f"hello, {text}", label) for text, label in ROWS]
    path = written(tmp_path / "a.csv", lines(rows, ";", None))
    with pytest.raises(InputError, match="',' and ';' fit.*--sep"):
        read(path, no_header=True)
    assert read(path, no_header=True, sep=";") == rows
