"""Entities of an RO-Crate: files, software, datasets, articles, and actions that link them."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from ocrrlib.datasets import DATASETS
from paper.croissant import FACTS
from paper.sources import cited, spdx

# The system's own list of types differs from machine to machine.
TYPES = {
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".csv": "text/csv",
    ".json": "application/json",
    ".tex": "application/x-tex",
    ".typ": "text/plain",
    ".html": "text/html",
    ".py": "text/x-python",
    ".ipynb": "application/x-ipynb+json",
    ".parquet": "application/vnd.apache.parquet",
    ".safetensors": "application/octet-stream",
    ".md": "text/markdown",
    ".bib": "application/x-bibtex",
    ".yml": "application/yaml",
    ".cff": "application/yaml",
    ".lock": "text/plain",
    ".toml": "application/toml",
    "": "text/plain",
}


class Crate:
    """Entities by id, in the order in which they came; the same id is one entity."""

    def __init__(self):
        self.entities: dict[str, dict] = {}

    def add(self, identifier: str, kind: str | list[str], /, **properties) -> dict:
        """Add an entity, unless it is there, and return a reference to it."""
        named = {name: value for name, value in properties.items() if value not in (None, [])}
        self.entities.setdefault(identifier, {"@id": identifier, "@type": kind} | named)
        return {"@id": identifier}

    def file(self, path: str, **properties) -> dict:
        """Add a file by its path below the root."""
        suffix = PurePosixPath(path).suffix
        kind = TYPES[suffix]
        types = ["File", "SoftwareSourceCode"] if suffix in (".py", ".ipynb") else "File"
        name = path.rpartition("/")[2]
        return self.add(path, types, **{"name": name, "encodingFormat": kind} | properties)

    def software(self, name: str, version: str, **properties) -> dict:
        """Add a library, system, encoder or product by name and version."""
        about = {"name": name, "softwareVersion": version} | properties
        return self.add(f"#{slug(name)}-{slug(version)}", "SoftwareApplication", **about)

    def value(self, name: str, value) -> dict:
        """Add a named value."""
        return self.add(f"#{slug(f'{name}={value}')}", "PropertyValue", name=name, value=value)

    def licence(self, name: str | None) -> dict | None:
        """Add a licence by its SPDX name."""
        return self.add(spdx(name), "CreativeWork", name=name) if name else None

    def article(self, key: str | None) -> dict | None:
        """Add a reference of the paper by its key."""
        if key is None:
            return None
        found = cited(key)
        authors = [self._person(one) for one in found["author"]]
        about = {"name": found["title"], "author": authors, "datePublished": found["year"]}
        about["url"] = found.get("url")
        return self.add(found.get("url", f"#{key}"), "ScholarlyArticle", **about)

    def _person(self, person):
        name = f"{person['givenName']} {person['familyName']}"
        names = {key: person[key] for key in ("givenName", "familyName")}
        return self.add(f"#{slug(name)}", "Person", name=name, **names)

    def sources(self, dataset: str) -> dict:
        """Add a dataset as its authors published it, with its pinned files if they are known."""
        known = DATASETS.get(dataset)
        if known is None:
            other = FACTS["others"][dataset]
            about = {"name": other["title"], "license": self.licence(other["licence"])}
            return self.add(f"#{dataset}", "Dataset", **about, citation=self.article(other["bib"]))
        files = [
            self.add(
                f"{known.url}/{file}",
                "DataDownload",
                name=file,
                contentUrl=f"{known.url}/{file}",
                sha256=digest,
            )
            for file, digest in known.files.items()
        ]
        return self.add(
            f"#{dataset}",
            "Dataset",
            name=known.title,
            license=self.licence(known.licence),
            citation=self.article(FACTS["datasets"][dataset]["bib"]),
            distribution=files,
        )

    def action(self, identifier: str, name: str, **roles: Iterable[dict]) -> dict:
        """Add what made the ``result`` from the ``object`` by the ``instrument``."""
        once = {role: _unique(references) for role, references in roles.items()}
        return self.add(identifier, "CreateAction", name=name, **once)


def slug(text: str) -> str:
    """A text as a part of an id."""
    return re.sub(r"[^\w.=-]+", "-", str(text)).strip("-")


def _unique(references):
    return [{"@id": one} for one in dict.fromkeys(one["@id"] for one in references)]
