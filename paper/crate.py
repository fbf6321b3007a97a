"""The compendium as an RO-Crate: its files, and which of them were made from which by what.

The Makefile says what each target reads, runs and writes; the files of results and embeddings say
which data, systems, libraries and machine they come from.
"""

import re
from collections.abc import Iterator, Mapping
from mimetypes import MimeTypes
from pathlib import PurePosixPath
from typing import Any

from rocrate.model import ContextEntity, Entity
from rocrate.rocrate import ROCrate

from ocrrlib.datasets import DATASETS
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.files import ROOT, sha256
from ocrrlib.systems import SYSTEMS
from paper.croissant import FACTS
from paper.makefile import Makefile
from paper.sources import Result, Vectors, cited, embeddings, latest_date, results, spdx

FILE = "ro-crate-metadata.json"
VERSION = "1.1"  # of RO-Crate
FOLDERS = {
    "ocrrlib/": "The benchmark, its systems, rivals, and the correction memory.",
    "studies/": "Experiments and statistics that single notebooks need.",
    "notebooks/": "One notebook an experiment.",
    "paper/": "The paper, the claims, and the code that makes figures, tables and numbers.",
    "docs/": "How-tos, the protocol, and the site.",
    "tests/": "The promises, as tests.",
}
TOP = "Makefile README.md LICENSE CITATION.cff pyproject.toml requirements.lock".split()
PUBLISHED_ELSEWHERE = {*DATASETS, *FACTS["others"]}
LEADERS = "data/results/beyond.parquet"  # systems that the leaderboard ranks
# What makes embeddings of datasets that `make embed` does not know.
MAKERS = {"names": "studies/names.py", "trec": "studies/practice.py"}
MAKERS["curekart"] = MAKERS["trec"]
# Python's list, not the system's, which differs from machine to machine.
TYPES = MimeTypes().types_map[True] | {
    ".ipynb": "application/x-ipynb+json",
    ".parquet": "application/vnd.apache.parquet",
    ".safetensors": "application/octet-stream",
    ".md": "text/markdown",
    ".bib": "application/x-bibtex",
    ".yml": "application/yaml",
    ".cff": "application/yaml",
    ".toml": "application/toml",
}


class Crate(ROCrate):
    """A crate in which the first entity of an id stays, and properties that are None or [] fall."""

    def entity(self, identifier: str, kind: str, **properties) -> Entity:
        """Add an entity beside the data, unless it is there."""
        about = {"@type": kind} | _given(properties)
        return self.get(identifier) or self.add(ContextEntity(self, identifier, about))

    def file(self, path: str, **properties) -> Entity:
        """Add a file by its path below the root."""
        suffix = PurePosixPath(path).suffix
        about = {
            "@type": ["File", "SoftwareSourceCode"] if suffix in (".py", ".ipynb") else "File",
            "name": path.rpartition("/")[2],
            "encodingFormat": TYPES.get(suffix, "text/plain"),
        }
        about |= _given(properties)
        return self.get(path) or self.add_file(dest_path=path, properties=about)

    def software(self, name: str, version: str, **properties) -> Entity:
        """Add a library, system, encoder or product by name and version."""
        about = {"name": name, "softwareVersion": version} | properties
        return self.entity(f"#{slug(name)}-{slug(version)}", "SoftwareApplication", **about)

    def value(self, name: str, value) -> Entity:
        """Add a named value."""
        return self.entity(f"#{slug(f'{name}={value}')}", "PropertyValue", name=name, value=value)

    def licence(self, name: str | None) -> Entity | None:
        """Add a licence by its SPDX name."""
        return self.entity(spdx(name), "CreativeWork", name=name) if name else None

    def article(self, key: str | None) -> Entity | None:
        """Add a reference of the paper by its key."""
        if key is None:
            return None
        found = cited(key)
        about = {"name": found["title"], "datePublished": found["year"], "url": found.get("url")}
        about["author"] = [self._person(one) for one in found["author"]]
        return self.entity(found.get("url", f"#{key}"), "ScholarlyArticle", **about)

    def _person(self, person):
        name = f"{person['givenName']} {person['familyName']}"
        names = {key: person[key] for key in ("givenName", "familyName")}
        return self.entity(f"#{slug(name)}", "Person", name=name, **names)

    def origin(self, dataset: str) -> Entity:
        """Add a dataset as its authors published it, with its pinned files if they are known."""
        files = []
        if dataset in DATASETS:
            known = DATASETS[dataset]
            about = {"title": known.title, "licence": known.licence, **FACTS["datasets"][dataset]}
            for name, digest in known.files.items():
                url = f"{known.url}/{name}"
                pinned = {"name": name, "contentUrl": url, "sha256": digest}
                files.append(self.entity(url, "DataDownload", **pinned))
        else:
            about = FACTS["others"][dataset]
        return self.entity(
            f"#{dataset}",
            "Dataset",
            name=about["title"],
            license=self.licence(about["licence"]),
            citation=self.article(about["bib"]),
            distribution=files,
        )

    def action(self, name: str, identifier: str, **roles: list[Entity]) -> None:
        """Add what made the ``result`` from the ``object`` by the ``instrument``."""
        once = {role: [*dict.fromkeys(entities)] for role, entities in roles.items()}
        self.add_action(identifier=identifier, properties={"name": name}, **once)


def slug(text: str) -> str:
    """A text as a part of an id."""
    return re.sub(r"[^\w.=-]+", "-", str(text)).strip("-")


def _given(properties):
    return {name: value for name, value in properties.items() if value not in (None, [])}


def _embedding(crate: Crate, one: Vectors) -> None:
    """Add a file of embeddings, and how it was made."""
    sources = [crate.origin(one.dataset)] if one.dataset in PUBLISHED_ELSEWHERE else []
    file = crate.file(
        one.path,
        description=f"Vectors of {one.dataset} by {one.encoder}.",
        identifier=one.record.get("fingerprint"),
        license=sources[0].get("license") if sources else None,
        isBasedOn=sources,
        **_content(one.path),
    )
    revision = one.record.get("origin", {}).get("revision", "as packaged")
    maker = crate.file(MAKERS.get(one.dataset, "ocrrlib/embeddings.py"))
    crate.action(
        f"Embed {one.dataset} by {one.encoder}",
        f"#embed-{one.dataset}-{one.encoder}",
        instrument=[maker, crate.software(one.encoder, revision)],
        object=sources,
        result=[file],
    )


def _result(crate: Crate, one: Result) -> None:
    """Add a file of results, with what it records of itself."""
    about = {"protocol": one.record["protocol"], "rows": one.rows}
    if "machine" in one.record:
        about["machine"] = one.record["machine"]
    crate.file(
        one.path,
        dateModified=one.record.get("date"),
        variableMeasured=one.columns,
        additionalProperty=[crate.value(*pair) for pair in about.items()],
        **_content(one.path),
    )


def _content(path):
    file = ROOT / path
    return {"contentSize": str(file.stat().st_size), "sha256": sha256(file)}


def _instruments(crate: Crate, one: Result) -> list[Entity]:
    """Systems, libraries and products that a file of results records."""
    record = one.record
    found = []
    for name, declared in sorted(record.get("systems", {}).items()):
        params = [crate.value(*one) for one in _flat(declared["params"])]
        about = {"description": SYSTEMS[name].about, "additionalProperty": params}
        found.append(crate.software(name, str(declared["version"]), **about))
    for kind in ("libraries", "products"):
        found += [crate.software(name, v) for name, v in sorted(record.get(kind, {}).items())]
    return found


def _flat(params: Mapping, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Names and values of parameters, of those in parts, too."""
    for name, value in sorted(params.items()):
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _data(crate: Crate, one: Result) -> list[Entity]:
    """Data that a file of results comes from: embeddings or, for what reads sentences, sources."""
    by_fingerprint = {v.record.get("fingerprint"): v.path for v in embeddings()}
    by_name = {(v.dataset, v.encoder): v.path for v in embeddings()}
    record = one.record
    if "data" in record:
        paths = {name: by_fingerprint.get(found) for name, found in record["data"].items()}
    elif "products" in record:
        paths = {name: None for name, _ in one.cells}
    else:
        paths = {
            (name, encoder): by_name.get((name, encoder or DEFAULT_ENCODER))
            for name, encoder in one.cells
        }
    if "names" in one.columns:
        paths["names"] = by_name["names", DEFAULT_ENCODER]
    found = []
    for key, path in sorted(paths.items(), key=str):
        dataset = key if isinstance(key, str) else key[0]
        if path:
            found.append(crate.get(path))
        elif dataset in PUBLISHED_ELSEWHERE:  # else a study drew it
            found.append(crate.origin(dataset))
    return found


def _target(crate: Crate, name: str, scripts: list[str], reads: list[str], makes: list[str]):
    """Add what a target or notebook does."""
    objects = [crate.file(path) for path in reads if path not in makes]
    instruments = [crate.file(path) for path in scripts]
    for one in results():
        if one.path in makes:
            objects += _data(crate, one)
            instruments += _instruments(crate, one)
    products = [crate.file(path) for path in makes]
    crate.action(name, f"#{slug(name)}", instrument=instruments, object=objects, result=products)


def _targets(crate):
    """Add what notebooks, longer runs and the paper's build do."""
    makefile = Makefile()
    for name, known in makefile.published.items():
        makes = [f"data/results/{one}.parquet" for one in known]
        _target(crate, f"make {name}", makefile.scripts(name), [], makes)
    for name, makes in makefile.made.items():
        reads = makefile.read.get(name, [])
        _target(crate, f"execute {name}", [f"notebooks/{name}.ipynb"], reads, makes)
    ranked = [f"figures/leaderboard{end}" for end in (".csv", ".md", "_log.csv", ".head")]
    _target(crate, "make leaderboard", makefile.scripts("leaderboard"), [LEADERS], ranked)
    for pdf, needed in makefile.typeset.items():
        scripts = [path for path in needed if path.endswith(".py")]
        reads = [path for path in needed if path not in scripts]
        _target(crate, f"make {pdf}", scripts, reads, [pdf])


def describe(about: Mapping, descriptions: list[str]) -> dict:
    """The crate; ``about`` names the compendium, ``descriptions`` are other files of metadata."""
    crate = Crate(version=VERSION)
    for one in embeddings():
        _embedding(crate, one)
    for one in results():
        _result(crate, one)
    _targets(crate)
    for path in (*TOP, *descriptions):
        crate.file(path)
    for path, description in FOLDERS.items():
        crate.add_dataset(dest_path=path, properties={"name": path, "description": description})
    licence = crate.licence(about["license"])
    crate.metadata["license"] = licence
    root = crate.root_dataset
    for name in ("name", "description", "version", "keywords"):
        root[name] = about[name]
    root["datePublished"] = latest_date()
    root["license"] = licence
    root["author"] = crate.entity("#maintainer", "Organization", name=about["maintainer"])
    root["isBasedOn"] = crate.article(about["original"])
    root["mentions"] = crate.get_by_type("CreateAction")
    return crate.metadata.generate()
