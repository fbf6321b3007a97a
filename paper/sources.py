"""What the descriptions for machines take from elsewhere: citations, embeddings, results."""

import json
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pybtex.database
import yaml
from safetensors import safe_open

from ocrrlib.embeddings import FOLDER
from ocrrlib.files import ROOT

RESULTS = ROOT / "data/results"
CFF = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def spdx(licence: str) -> str:
    """Address of a licence by its SPDX name."""
    return f"https://spdx.org/licenses/{licence}"


@lru_cache(maxsize=1)
def _references():
    return pybtex.database.parse_file(str(ROOT / "paper/references.bib")).entries


def cited(key: str) -> dict:
    """A reference of the paper: title, ``author`` entities, year, address and BibTeX text."""
    entry = _references()[key]
    fields = entry.fields
    authors = [
        {
            "@type": "Person",
            "givenName": " ".join([*person.first_names, *person.middle_names]),
            "familyName": " ".join([*person.prelast_names, *person.last_names]),
        }
        for person in entry.persons["author"]
    ]
    found = {
        "title": _plain(fields["title"]),
        "author": authors,
        "year": fields["year"],
        "bibtex": " ".join(entry.to_string("bibtex").split()),
    }
    if "doi" in fields:
        found["url"] = f"https://doi.org/{fields['doi']}"
    elif "url" in fields:
        found["url"] = fields["url"]
    return found


def _plain(text):
    return text.replace("{", "").replace("}", "")


class Vectors(NamedTuple):
    """A file of embeddings, by what it records of itself."""

    path: str  # below the root
    dataset: str
    encoder: str
    record: dict  # empty for the names of classes, which has no record
    types: dict[str, str]  # of its tensors, as stored


@lru_cache(maxsize=1)
def embeddings() -> tuple[Vectors, ...]:
    """All files of embeddings, by name."""
    found = []
    for path in sorted(FOLDER.glob("[!.]*.safetensors")):
        with safe_open(path, "numpy") as handle:
            about = json.loads((handle.metadata() or {}).get("about", "{}"))
            types = {name: handle.get_slice(name).get_dtype() for name in handle.keys()}
        dataset, encoder = path.stem.split(".", 1)
        place = _below_root(path)
        found.append(Vectors(place, dataset, encoder, about, types))
    return tuple(found)


class Result(NamedTuple):
    """A file of results, by what it records of itself."""

    path: str  # below the root
    record: dict
    columns: list[str]
    rows: int
    cells: list[tuple[str, str | None]]  # datasets and encoders of its rows, if it has columns


@lru_cache(maxsize=1)
def results() -> tuple[Result, ...]:
    """All files of results, by name."""
    found = []
    for path in sorted(RESULTS.glob("[!.]*.parquet")):
        file = pq.ParquetFile(path)
        record = json.loads(file.schema_arrow.metadata[b"ocrr"])
        columns = file.schema_arrow.names
        cells = _cells(path, [name for name in ("dataset", "encoder") if name in columns])
        rows = file.metadata.num_rows
        found.append(Result(_below_root(path), record, columns, rows, cells))
    return tuple(found)


def _cells(path, columns):
    if "dataset" not in columns:
        return []
    pairs = pq.read_table(path, columns=columns).group_by(columns).aggregate([]).to_pylist()
    return sorted((pair["dataset"], pair.get("encoder")) for pair in pairs)


def latest_date() -> str:
    """The day of the release, or a later one that a published result records.

    No description is of a later state.
    """
    dates = [one.record["date"] for one in results() if "date" in one.record]
    if "date-released" in CFF:
        dates.append(str(CFF["date-released"]))
    return max(dates)


def _below_root(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
