"""Descriptions of the compendium for machines, written by ``make metadata``.

CodeMeta and Zenodo describe the software, RO-Crate what was made from what, Croissant the datasets'
embeddings. Names, versions and licences come from ``CITATION.cff``, ``pyproject.toml`` and
``ocrrlib.datasets``.
"""

import json
import tomllib
from collections.abc import Mapping

import ocrrlib
from ocrrlib.experiments import THREE
from ocrrlib.files import ROOT, write_text
from paper import crate, croissant
from paper.sources import CFF, cited, latest_date, spdx

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ORIGINAL = "grassi2026ocrr"
MAINTAINER = CFF["authors"][0]["name"]


def codemeta() -> dict:
    """The software in CodeMeta 3.0."""
    original = cited(ORIGINAL)
    extras = PROJECT["optional-dependencies"]
    suggested = {one for name, extra in extras.items() if name != "all" for one in extra}
    found = {
        "@context": "https://w3id.org/codemeta/3.0",
        "@type": "SoftwareSourceCode",
        "name": CFF["title"],
        "identifier": PROJECT["name"],
        "description": PROJECT["description"],
        "version": ocrrlib.__version__,
        "license": spdx(CFF["license"]),
        "author": {"@type": "Organization", "name": MAINTAINER},
        "dateModified": latest_date(),
        "keywords": CFF["keywords"],
        "programmingLanguage": {
            "@type": "ComputerLanguage",
            "name": "Python",
            "version": PROJECT["requires-python"],
        },
        "operatingSystem": "Linux",
        "softwareRequirements": _requirements(PROJECT["dependencies"]),
        "softwareSuggestions": _requirements(suggested),
        "readme": "README.md",
        "buildInstructions": "docs/getting-started.md",
        "softwareHelp": {"@type": "CreativeWork", "name": "How-tos", "url": "docs/index.md"},
        "referencePublication": {
            "@type": "ScholarlyArticle",
            "name": original["title"],
            "author": original["author"],
            "url": original["url"],
        },
    }
    if "repository-code" in CFF:
        found["codeRepository"] = CFF["repository-code"]
    if "date-released" in CFF:
        found["datePublished"] = str(CFF["date-released"])
    return found


def _requirements(requirements):
    return [
        {"@type": "SoftwareApplication", "identifier": one, "runtimePlatform": "Python"}
        for one in sorted(requirements)
    ]


def zenodo() -> dict:
    """What Zenodo reads of a release: the form of its deposits."""
    related = [{"relation": "isSupplementTo", "identifier": cited(ORIGINAL)["url"]}]
    for dataset in THREE:
        source = cited(croissant.FACTS["datasets"][dataset]["bib"])
        if "url" in source:
            related.append({"relation": "isDerivedFrom", "identifier": source["url"]})
    found = {
        "upload_type": "software",
        "title": CFF["title"],
        "version": ocrrlib.__version__,
        "creators": [{"name": MAINTAINER}],
        "description": f"<p>{PROJECT['description']}.</p>",
        "access_right": "open",
        "license": CFF["license"],
        "language": "eng",
        "keywords": CFF["keywords"],
        "related_identifiers": related,
    }
    if "date-released" in CFF:
        found["publication_date"] = str(CFF["date-released"])
    return found


def documents(checks: Mapping[str, croissant.LabelCheck]) -> dict[str, dict]:
    """All files by path below the root, as JSON; ``checks`` are those of the labels, by dataset."""
    found = {
        "codemeta.json": codemeta(),
        ".zenodo.json": zenodo(),
    }
    for dataset in THREE:
        found[croissant.path_of(dataset)] = croissant.describe(
            dataset, checks[dataset], ocrrlib.__version__, MAINTAINER
        )
    about = {
        "name": CFF["title"],
        "description": PROJECT["description"],
        "version": ocrrlib.__version__,
        "license": CFF["license"],
        "maintainer": MAINTAINER,
        "keywords": CFF["keywords"],
        "original": ORIGINAL,
    }
    found[crate.FILE] = crate.describe(about, [*found])
    return found


def as_text(document: Mapping) -> str:
    """A description as it stands in its file."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Measure the labels, and write all files."""
    checks = {dataset: croissant.check_labels(dataset) for dataset in THREE}
    for path, document in documents(checks).items():
        write_text(ROOT / path, as_text(document))
        print(path)


if __name__ == "__main__":
    main()
