"""The embeddings of a dataset in Croissant, with its fields for responsible AI."""

from typing import NamedTuple

import mlcroissant as mlc
import yaml

from corrigible import suspects_of
from ocrrlib.datasets import DATASETS
from ocrrlib.embeddings import load
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.files import ROOT, sha256
from paper.sources import Vectors, cited, embeddings, latest_date, spdx

FACTS = yaml.safe_load((ROOT / "paper/datasets.yml").read_text(encoding="utf-8"))
SURE = 0.9  # confidence from which a suspect counts as sure
SPECIFICATIONS = ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"]
TEXT = mlc.DataType.TEXT
INTEGER = mlc.DataType.INTEGER
FILES = {
    "encoder": (TEXT, "Encoder that made the vectors."),
    "revision": (TEXT, "Version of the encoder."),
    "file": (TEXT, "File of the vectors."),
    "fingerprint": (TEXT, "SHA-256 over names, labels and vectors, as results record it."),
    "values": (TEXT, "How values are kept: float16, or int8 compressed by zlib."),
    "dimension": (INTEGER, "Values a row."),
    "train_rows": (INTEGER, "Rows of X_train and y_train."),
    "test_rows": (INTEGER, "Rows of X_test and y_test."),
}
CLASSES = {
    "id": (INTEGER, "Class id in y_train and y_test."),
    "name": (TEXT, "Name of the class."),
}
LABELS = {
    "encoder": (TEXT, "Encoder of the vectors."),
    "rows": (INTEGER, "Training rows that were judged."),
    "suspects": (INTEGER, "Rows outvoted by five nearest others, or stored under two classes."),
    "sure": (INTEGER, "Suspects with a calibrated confidence of at least the bound."),
    "bound": (mlc.DataType.FLOAT, "The bound."),
}


class LabelCheck(NamedTuple):
    """How many training rows others contradict, and how many of these surely."""

    rows: int
    suspects: int
    sure: int


def path_of(dataset: str) -> str:
    """Path of a dataset's description below the root, beside its vectors."""
    return f"data/embeddings/{dataset}.croissant.json"


def check_labels(dataset: str) -> LabelCheck:
    """Judge the training labels of a dataset as a correction memory judges its entries."""
    data = load(dataset, DEFAULT_ENCODER)
    names = [data.classes[label] for label in data.y_train]
    found = suspects_of(data.X_train, names, len(names))
    sure = [one for one in found if one.confidence >= SURE]
    return LabelCheck(len(names), len(found), len(sure))


def describe(dataset: str, check: LabelCheck, version: str, maintainer: str) -> dict:
    """The description of all embeddings of a dataset as JSON-LD."""
    source = DATASETS[dataset]
    files = [one for one in embeddings() if one.dataset == dataset]
    classes = files[0].record["classes"]
    label_check = check._asdict() | {"encoder": DEFAULT_ENCODER, "bound": SURE}
    rows = [{"id": number, "name": name} for number, name in enumerate(classes)]
    found = mlc.Metadata(
        conforms_to=SPECIFICATIONS,
        name=f"OCRR embeddings of {source.title}",
        description=(
            f"Sentence embeddings and class ids of {source.title}, {len(classes)} classes, by "
            f"{len(files)} encoders. Each file in the format safetensors has unit rows X_train and "
            "X_test (n, d), class ids y_train and y_test (n,) int64, and a record of itself under "
            "the metadata key about; ocrrlib.embeddings.read reads it."
        ),
        version=version,
        date_published=latest_date(),
        license=spdx(source.licence),
        cite_as=cited(FACTS["datasets"][dataset]["bib"])["bibtex"],
        creators=[mlc.Organization(name=maintainer)],
        in_language=["en"],
        keywords=["intent classification", "sentence embeddings", "new classes"],
        extra_properties={"isBasedOn": source.url},
        distribution=[_file_object(one, source.licence) for one in files],
        record_sets=[
            _record_set("files", "The files, by encoder.", FILES, map(_file_row, files)),
            _record_set("classes", "Class ids and names.", CLASSES, rows),
            _record_set("label_check", "Doubtful labels.", LABELS, [label_check]),
        ],
        **_responsible(dataset, check),
    )
    return found.to_json()


def _responsible(dataset, check):
    """Fields of the RAI vocabulary: those of all datasets, and those of this one."""
    own = {name: text for name, text in FACTS["datasets"][dataset].items() if name != "bib"}
    shared = FACTS["all"]
    analysis = shared["data_annotation_analysis"].format(
        suspects=f"{check.suspects:,}",
        train=f"{check.rows:,}",
        sure=f"{check.sure:,}",
        bound=SURE,
        encoder=DEFAULT_ENCODER,
    )
    return (
        shared
        | own
        | {
            "data_collection": f"{own['data_collection']} Source: {DATASETS[dataset].citation}.",
            "data_annotation_analysis": analysis,
            "data_limitations": [*own["data_limitations"], *shared["data_limitations"], analysis],
        }
    )


def _file_object(one: Vectors, licence):
    path = ROOT / one.path
    return mlc.FileObject(
        id=path.name,
        name=path.name,
        description=f"Vectors by {one.encoder}.",
        content_url=path.name,
        content_size=f"{path.stat().st_size} B",
        encoding_formats=["application/octet-stream"],
        sha256=sha256(path),
        extra_properties={"license": spdx(licence)},
    )


def _file_row(one: Vectors):
    data = load(one.dataset, one.encoder)
    return {
        "encoder": one.encoder,
        "revision": one.record["origin"]["revision"],
        "file": one.path.rpartition("/")[2],
        "fingerprint": one.record["fingerprint"],
        "values": "float16" if one.types["X_train"] == "F16" else "int8, zlib",
        "dimension": data.X_train.shape[1],
        "train_rows": len(data.y_train),
        "test_rows": len(data.y_test),
    }


def _record_set(name, description, fields, rows):
    """A table that stands in the description itself, as these are small."""
    columns = [
        mlc.Field(id=f"{name}/{field}", name=field, description=about, data_types=[kind])
        for field, (kind, about) in fields.items()
    ]
    data = [{f"{name}/{field}": row[field] for field in fields} for row in rows]
    return mlc.RecordSet(id=name, name=name, description=description, fields=columns, data=data)
