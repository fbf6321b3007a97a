"""The embeddings of a dataset in Croissant, with its fields for responsible AI."""

from typing import NamedTuple

import numpy as np
import yaml

from ocrrlib.datasets import DATASETS
from ocrrlib.embeddings import load
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.files import ROOT, sha256
from ocrrlib.memory.review import suspects
from ocrrlib.memory.vectors import LiveVectors, Origin
from ocrrlib.search import Entries
from paper.sources import Vectors, cited, embeddings, latest_date, spdx

FACTS = yaml.safe_load((ROOT / "paper/datasets.yml").read_text(encoding="utf-8"))
BIB = {name: facts["bib"] for name, facts in FACTS["datasets"].items()}
SURE = 0.9  # confidence from which a suspect counts as sure
SPECIFICATIONS = ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"]
FILES = {
    "encoder": ("sc:Text", "Encoder that made the vectors."),
    "revision": ("sc:Text", "Version of the encoder."),
    "file": ("sc:Text", "File of the vectors."),
    "fingerprint": ("sc:Text", "SHA-256 over names, labels and vectors, as results record it."),
    "values": ("sc:Text", "How values are kept: float16, or int8 compressed by zlib."),
    "dimension": ("sc:Integer", "Values a row."),
    "train_rows": ("sc:Integer", "Rows of X_train and y_train."),
    "test_rows": ("sc:Integer", "Rows of X_test and y_test."),
}
CLASSES = {
    "id": ("sc:Integer", "Class id in y_train and y_test."),
    "name": ("sc:Text", "Name of the class."),
}
LABELS = {
    "encoder": ("sc:Text", "Encoder of the vectors."),
    "rows": ("sc:Integer", "Training rows that were judged."),
    "suspects": (
        "sc:Integer",
        "Rows outvoted by five nearest others, or stored under two classes.",
    ),
    "sure": ("sc:Integer", "Suspects with a calibrated confidence of at least the bound."),
    "bound": ("sc:Float", "The bound."),
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
    n, d = data.X_train.shape
    stored = LiveVectors(Entries(np.empty((0, d), np.float32), np.empty(0, np.int64)))
    names = [data.classes[label] for label in data.y_train]
    stored.extend(data.X_train, [Origin(place, 0, name) for place, name in enumerate(names)])
    found = suspects(stored, n)
    sure = [confidence for _, _, confidence in found if confidence >= SURE]
    return LabelCheck(n, len(found), len(sure))


def describe(dataset: str, check: LabelCheck, version: str, maintainer: str) -> dict:
    """The description of all embeddings of a dataset as JSON-LD."""
    source = DATASETS[dataset]
    files = [one for one in embeddings() if one.dataset == dataset]
    classes = files[0].record["classes"]
    label_check = check._asdict() | {"encoder": DEFAULT_ENCODER, "bound": SURE}
    rows = [{"id": number, "name": name} for number, name in enumerate(classes)]
    return {
        "@context": _context(),
        "@type": "sc:Dataset",
        "conformsTo": SPECIFICATIONS,
        "name": f"OCRR embeddings of {source.title}",
        "description": (
            f"Sentence embeddings and class ids of {source.title}, {len(classes)} classes, by "
            f"{len(files)} encoders. Each file in the format safetensors has unit rows X_train and "
            "X_test (n, d), class ids y_train and y_test (n,) int64, and a record of itself under "
            "the metadata key about; ocrrlib.embeddings.read reads it."
        ),
        "version": version,
        "datePublished": latest_date(),
        "license": spdx(source.licence),
        "citeAs": cited(BIB[dataset])["bibtex"],
        "creator": {"@type": "sc:Organization", "name": maintainer},
        "inLanguage": "en",
        "keywords": ["intent classification", "sentence embeddings", "new classes"],
        "isBasedOn": source.url,
        **_responsible(dataset, check),
        "distribution": [_file_object(one, source.licence) for one in files],
        "recordSet": [
            _record_set("files", "The files, by encoder.", FILES, map(_file_row, files)),
            _record_set("classes", "Class ids and names.", CLASSES, rows),
            _record_set("label_check", "Doubtful labels.", LABELS, [label_check]),
        ],
    }


def _responsible(dataset, check):
    """Fields of the RAI vocabulary."""
    own = FACTS["datasets"][dataset]
    shared = FACTS["all"]
    analysis = shared["analysis"].format(
        suspects=f"{check.suspects:,}",
        train=f"{check.rows:,}",
        sure=f"{check.sure:,}",
        bound=SURE,
        encoder=DEFAULT_ENCODER,
    )
    fields = {
        "dataCollection": f"{own['collection']} Source: {DATASETS[dataset].citation}.",
        "dataCollectionType": own["type"],
        "dataCollectionRawData": own["raw"],
        "dataPreprocessingProtocol": shared["preprocessing"],
        "dataAnnotationProtocol": own["annotation"],
        "dataAnnotationAnalysis": analysis,
        "dataUseCases": shared["uses"],
        "dataBiases": own["biases"],
        "dataLimitations": [*own["limitations"], *shared["limitations"], analysis],
        "dataSocialImpact": shared["social"],
        "personalSensitiveInformation": own["personal"],
        "dataReleaseMaintenancePlan": shared["maintenance"],
    }
    return {f"rai:{name}": text for name, text in fields.items()}


def _file_object(one: Vectors, licence):
    path = ROOT / one.path
    return {
        "@type": "cr:FileObject",
        "@id": path.name,
        "name": path.name,
        "description": f"Vectors by {one.encoder}.",
        "contentUrl": path.name,
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": "application/octet-stream",
        "license": spdx(licence),
        "sha256": sha256(path),
    }


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
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": description,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{field}",
                "name": field,
                "description": about,
                "dataType": kind,
            }
            for field, (kind, about) in fields.items()
        ],
        "data": [{f"{name}/{field}": row[field] for field in fields} for row in rows],
    }


def _context():
    """Terms of Croissant 1.0, as its specification lists them."""
    croissant = (
        "citeAs column equivalentProperty extract field fileProperty fileObject fileSet format "
        "includes isLiveDataset jsonPath key md5 parentField path recordSet references regex "
        "repeated replace samplingRate separator source subField transform"
    )
    return {
        "@language": "en",
        "@vocab": "https://schema.org/",
        "sc": "https://schema.org/",
        "cr": "http://mlcommons.org/croissant/",
        "rai": "http://mlcommons.org/croissant/RAI/",
        "dct": "http://purl.org/dc/terms/",
        "conformsTo": "dct:conformsTo",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "examples": {"@id": "cr:examples", "@type": "@json"},
    } | {term: f"cr:{term}" for term in croissant.split()}
