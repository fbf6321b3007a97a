"""Files as labelling tools write them: options that docs/your-data.md has for each read it."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ocrr.data.read import read_data, read_rows
from ocrrlib.files import ROOT, InputError

FORMATS = ROOT / "tests/formats"
ROWS = [
    ("My card is lost", "card"),
    ("Why was I charged a fee?", "fee"),
    ("The card does not work", "card"),
    ("What is this fee for?", "fee"),
]
PAGE = (ROOT / "docs/your-data.md").read_text(encoding="utf-8")
TABLE = re.findall(r"^\| .* \| `tests/formats/(.*?)` \| (.*) \|$", PAGE, re.MULTILINE)


def read(path, **options):
    texts, labels = read_rows(path, **options)
    return list(zip(texts, labels))


def written(path, rows):
    """JSON Lines, or an array of objects, of rows."""
    lines = [json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) if path.suffix == ".jsonl" else f"[{','.join(lines)}]")
    return path


def test_the_page_has_every_file():
    assert sorted(file for file, _ in TABLE) == sorted(path.name for path in FORMATS.iterdir())


@pytest.mark.parametrize("file, options", TABLE, ids=[file for file, _ in TABLE])
def test_a_file_is_read_by_the_options_that_the_page_has_for_it(file, options):
    words = shlex.split(options.replace("`", "").replace("none needed", ""))
    names = [word.removeprefix("--") for word in words[::2]]
    assert read(FORMATS / file, **dict(zip(names, words[1::2]))) == ROWS


def test_a_number_in_a_path_chooses_one_of_a_list(tmp_path):
    tasks = json.loads((FORMATS / "label_studio.json").read_text())
    tasks[1]["annotations"].append({"result": [{"value": {"choices": ["card", "fee"]}}]})
    tasks[3]["annotations"][0]["result"].insert(0, {"value": {"text": ["a note"]}})
    path = written(tmp_path / "a.json", tasks)
    with pytest.raises(InputError, match="'annotations.result.value.choices' cannot .* in row 1"):
        read(path, text="data.text", label="annotations.result.value.choices")
    assert read(path, text="data.text", label="annotations.0.result.value.choices") == ROWS
    numbers = "annotations.0.result.0.value.choices.0"
    with pytest.raises(InputError, match=f"'{numbers}' is empty in row 3"):
        read(path, text="data.text", label=numbers)


JUDGED = {
    "prodigy.jsonl": ({}, "row 1, 5", "answer=accept"),
    "prodigy_choice.jsonl": (dict(label="accept"), "row 1", "answer=accept"),
    "argilla_datasets.jsonl": (
        dict(label="intent.responses"),
        "row 2",
        "intent.responses.status=submitted",
    ),
}


@pytest.mark.parametrize("file", JUDGED)
def test_rejected_labels_are_said_with_the_option_that_leaves_them_out(file):
    columns, rows, option = JUDGED[file]
    with pytest.raises(InputError, match=f"does not count in {rows}: .*--where {option}"):
        read(FORMATS / file, **columns)
    assert read(FORMATS / file, **columns, where=option) == ROWS


def test_cancelled_annotations_are_said(tmp_path):
    tasks = json.loads((FORMATS / "label_studio.json").read_text())
    tasks[1]["annotations"][0]["was_cancelled"] = True
    path = written(tmp_path / "a.json", tasks)
    columns = dict(text="data.text", label="annotations.0.result.0.value.choices.0")
    option = "annotations.0.was_cancelled=false"
    with pytest.raises(InputError, match=f"in row 1: .*--where {option}"):
        read(path, **columns)
    assert read(path, **columns, where=option) == [ROWS[0], *ROWS[2:]]


def test_a_column_of_answers_that_are_no_verdicts_is_left_alone(tmp_path):
    rows = [{"text": text, "label": label, "answer": "reject it"} for text, label in ROWS]
    assert read(written(tmp_path / "a.jsonl", rows)) == ROWS
    labels = [{"text": text, "answer": answer} for text, answer in zip("ab", ("accept", "reject"))]
    path = written(tmp_path / "b.jsonl", labels)
    assert read(path, label="answer") == [("a", "accept"), ("b", "reject")]


def test_conditions_on_one_column_are_alternatives_and_on_two_both_hold(tmp_path):
    table = pd.DataFrame(ROWS * 8, columns=["text", "label"])
    table["text"] += [f" {n}" for n in range(32)]
    table["lang"] = ["en", "DE", "fr", "en"] * 8
    table["spam"] = [False] * 28 + [True] * 4
    table.to_csv(tmp_path / "a.csv", index=False)
    where = ["lang=en", "lang=de", "spam=false"]
    wanted = [row for row in range(28) if row % 4 != 2]
    found = read(tmp_path / "a.csv", where=where)
    assert [text for text, _ in found] == [table["text"][row] for row in wanted]
    for data in (table, tmp_path / "a.csv"):
        found = read_data(data, where=where, encoder=counts)
        assert len(found.y_train) + len(found.y_test) == len(wanted)


def counts(texts):
    """An encoder: how often some letters and digits occur."""
    return np.array(
        [[text.count(one) + 0.1 for one in "abcdefhiklrmwty0123456789"] for text in texts]
    )


@pytest.mark.parametrize(
    "where, clue",
    [
        ("answer", "'answer' is no condition"),
        ("lang=xx", "unknown value of 'lang' 'xx'; there are: en"),
        ("language=en", "unknown column 'language' .*did you mean 'lang'"),
    ],
)
def test_conditions_that_cannot_hold_are_refused(where, clue, tmp_path):
    path = written(tmp_path / "a.jsonl", [{"text": "a", "label": "b", "lang": "en"}])
    with pytest.raises(InputError, match=clue):
        read(path, where=where)


def test_a_list_of_one_is_its_value_and_two_are_refused_with_their_rows(tmp_path):
    rows = [{"text": text, "label": [label]} for text, label in ROWS]
    path = written(tmp_path / "a.jsonl", rows)
    assert read(path) == ROWS
    pd.DataFrame(rows).to_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == ROWS
    rows[1]["label"] = []
    rows[2]["label"] = ["card", "fee"]
    written(path, rows)
    with pytest.raises(InputError, match=r"is empty in row 1: .*in row 2: \['card', 'fee'\]"):
        read(path)
    assert read(path, label="label.0", drop_empty=True) == [ROWS[0], *ROWS[2:]]


def test_two_choices_are_refused_and_not_taken_for_empty(tmp_path):
    tasks = json.loads((FORMATS / "label_studio_min.json").read_text())
    for row in (0, 3):
        tasks[row]["intent"] = {"choices": ["card", "fee"]}
    path = written(tmp_path / "a.json", tasks)
    for options in ({}, dict(drop_empty=True)):
        with pytest.raises(InputError, match="'intent' cannot be used in row 0, 3.*card.*fee"):
            read(path, label="intent", **options)


LISTS = ['{"choices":["card","fee"]}', "['card', 'fee']", "['card' 'fee']", "[3 7]", "[]"]


@pytest.mark.parametrize("label", LISTS)
def test_a_label_that_is_the_text_of_a_list_is_refused(label, tmp_path):
    rows = [*ROWS, ("Both", label)]
    pd.DataFrame(rows, columns=["text", "label"]).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(InputError, match="'label' cannot be used in row 4: .*one label"):
        read(tmp_path / "a.csv")
    rows[4] = ("Both", "[SPAM]")
    pd.DataFrame(rows, columns=["text", "label"]).to_csv(tmp_path / "a.csv", index=False)
    assert read(tmp_path / "a.csv") == rows


@pytest.mark.parametrize("joint", ["#", ", ", "|"])
def test_labels_that_are_others_joined_are_named(joint, tmp_path):
    rows = [*ROWS, (f"A lost card{joint} a fee", f"card{joint}fee")]
    pd.DataFrame(rows, columns=["text", "label"]).to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(UserWarning, match=re.escape(f"several labels: card{joint}fee")):
        assert read(tmp_path / "a.csv") == rows
    many = pd.DataFrame([(f"{text} {n}", label) for text, label in rows for n in range(4)])
    with pytest.warns(UserWarning, match=re.escape(f"several labels: card{joint}fee")):
        read_data(many, text=0, label=1, encoder=counts)


def test_a_file_of_one_object_has_rows_in_a_list_and_tells_its_paths(tmp_path):
    path = tmp_path / "a.json"
    rows = [{"row": {"text": text, "intent": {"name": label}}} for text, label in ROWS]
    path.write_text(json.dumps({"version": "1", "data": {"rows": rows}}, indent=1))
    columns = dict(text="data.rows.row.text", label="data.rows.row.intent.name")
    with pytest.raises(InputError, match=", ".join(columns.values())):
        read(path)
    assert read(path, **columns) == ROWS
    path.write_text(json.dumps({"train": ROWS}))
    assert read(path, text="train.0", label="train.1") == ROWS


NAMES = [f"topic {chr(ord('a') + n)}" for n in range(12)]
CLASSES = {"names": NAMES, "_type": "ClassLabel"}


@pytest.mark.parametrize(
    "wrap, feature",
    [
        (lambda n: n, CLASSES),
        (lambda n: [n], {"feature": CLASSES, "_type": "Sequence"}),
        (lambda n: [n], [CLASSES]),
        (lambda n: {"coarse": n}, {"coarse": CLASSES}),
    ],
    ids=["column", "sequence", "list", "nested"],
)
def test_class_names_in_the_metadata_of_parquet_replace_numbers(wrap, feature, tmp_path):
    ids = [*range(12), -1]
    table = pa.table({"text": [f"text {n}" for n in ids], "label": [wrap(n) for n in ids]})
    info = {"info": {"features": {"text": {"_type": "Value"}, "label": feature}}}
    path = tmp_path / "a.parquet"
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(info)}), path)
    label = "label.coarse" if "coarse" in feature else "label"
    with pytest.raises(InputError, match="is empty in row 12"):  # -1 stands for no label
        read(path, label=label)
    assert [name for _, name in read(path, label=label, drop_empty=True)] == NAMES


@pytest.mark.parametrize("kind", ["frame", "vectors"])
def test_numbers_that_stay_labels_are_in_order_of_numbers(kind):
    y = np.arange(-1, 12).repeat(4)
    X = np.random.default_rng(0).normal(size=(len(y), 25))
    table = pd.DataFrame({"text": [f"text {n}" for n in range(len(y))], "label": y})
    if kind == "vectors":
        found = read_data({"X": X, "y": y})
    else:
        found = read_data(table, encoder=lambda texts: X[: len(texts)])
    assert found.classes == tuple(str(n) for n in range(-1, 12))
    mixed = read_data({"X": X, "y": np.where(y < 0, "none", y.astype(str))})
    assert mixed.classes == tuple(sorted([*map(str, range(12)), "none"]))
