"""The compendium as an RO-Crate: its files, and which of them were made from which by what.

The Makefile says what each target reads, runs and writes; the files of results and embeddings say
which data, systems, libraries and machine they come from.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from ocrrlib.datasets import DATASETS
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.files import ROOT, sha256
from ocrrlib.systems import SYSTEMS
from paper.croissant import FACTS
from paper.entities import Crate, slug
from paper.makefile import Makefile
from paper.sources import Result, Vectors, embeddings, latest_date, results

FILE = "ro-crate-metadata.json"
SPECIFICATION = "https://w3id.org/ro/crate/1.1"
FOLDERS = {
    "ocrrlib/": "The benchmark, its systems, rivals, and the correction memory.",
    "studies/": "Experiments and statistics that single notebooks need.",
    "notebooks/": "One notebook an experiment.",
    "paper/": "The paper, the claims, and the code that makes figures, tables and numbers.",
    "docs/": "How-tos, the protocol, and the site.",
    "tests/": "The promises, as tests.",
}
PUBLISHED_ELSEWHERE = {*DATASETS, *FACTS["others"]}
LEADERS = "data/results/beyond.parquet"  # systems that the leaderboard ranks
# What makes embeddings of datasets that `make embed` does not know.
MAKERS = {"names": "studies/names.py", "trec": "studies/elsewhere.py"}
MAKERS["curekart"] = MAKERS["trec"]


def _embedding(crate: Crate, one: Vectors) -> dict:
    """Add a file of embeddings, and how it was made."""
    licence = None
    objects = []
    if one.dataset in PUBLISHED_ELSEWHERE:
        source = crate.sources(one.dataset)
        licence = crate.entities[source["@id"]].get("license")
        objects = [source]
    revision = one.record.get("origin", {}).get("revision", "as packaged")
    path = ROOT / one.path
    file = crate.file(
        one.path,
        description=f"Vectors of {one.dataset} by {one.encoder}.",
        identifier=one.record.get("fingerprint"),
        contentSize=str(path.stat().st_size),
        sha256=sha256(path),
        license=licence,
        isBasedOn=objects,
    )
    instruments = [
        crate.file(MAKERS.get(one.dataset, "ocrrlib/embeddings.py")),
        crate.software(one.encoder, revision),
    ]
    name = f"Embed {one.dataset} by {one.encoder}"
    roles = {"instrument": instruments, "object": objects, "result": [file]}
    crate.action(f"#embed-{one.dataset}-{one.encoder}", name, **roles)
    return file


def _result(crate: Crate, one: Result) -> dict:
    """Add a file of results, with what it records of itself."""
    record = one.record
    known = [crate.value("protocol", record["protocol"]), crate.value("rows", one.rows)]
    if "machine" in record:
        known.append(crate.value("machine", record["machine"]))
    path = ROOT / one.path
    return crate.file(
        one.path,
        contentSize=str(path.stat().st_size),
        sha256=sha256(path),
        dateModified=record.get("date"),
        variableMeasured=one.columns,
        additionalProperty=known,
    )


def _instruments(crate: Crate, one: Result) -> list[dict]:
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


def _data(crate: Crate, one: Result) -> list[dict]:
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
            found.append({"@id": path})
        elif dataset in PUBLISHED_ELSEWHERE:  # else a study drew it
            found.append(crate.sources(dataset))
    return found


@lru_cache(maxsize=1)
def _by_path():
    return {one.path: one for one in results()}


def _target(crate: Crate, name: str, scripts: list[str], reads: list[str], makes: list[str]):
    """Add what a target or notebook does."""
    known = [_by_path()[path] for path in makes if path in _by_path()]
    objects = [crate.file(path) for path in reads if path not in makes]
    instruments = [crate.file(path) for path in scripts]
    for one in known:
        objects += _data(crate, one)
        instruments += _instruments(crate, one)
    products = [crate.file(path) for path in makes]
    roles = {"instrument": instruments, "object": objects, "result": products}
    return crate.action(f"#{slug(name)}", name, **roles)


def describe(about: Mapping, descriptions: list[str]) -> dict:
    """The crate; ``about`` names the compendium, ``descriptions`` are other files of metadata."""
    crate = Crate()
    makefile = Makefile()
    root = crate.add("./", "Dataset")
    crate.add(
        FILE,
        "CreativeWork",
        conformsTo={"@id": SPECIFICATION},
        about=root,
        license=crate.licence(about["license"]),
    )
    for one in embeddings():
        _embedding(crate, one)
    for one in results():
        _result(crate, one)
    actions = _actions(crate, makefile)
    for path in ("Makefile", "README.md", "LICENSE", "CITATION.cff", "pyproject.toml"):
        crate.file(path)
    for path in ("requirements.lock", *descriptions):
        crate.file(path)
    for path, description in FOLDERS.items():
        crate.add(path, "Dataset", name=path, description=description)
    maintainer = crate.add("#maintainer", "Organization", name=about["maintainer"])
    files = [one["@id"] for one in crate.entities.values() if "File" in one["@type"]]
    crate.entities["./"] |= {
        "name": about["name"],
        "description": about["description"],
        "version": about["version"],
        "datePublished": latest_date(),
        "license": crate.licence(about["license"]),
        "author": maintainer,
        "keywords": about["keywords"],
        "isBasedOn": crate.article(about["original"]),
        "hasPart": [{"@id": path} for path in [*files, *FOLDERS]],
        "mentions": actions,
    }
    ordered = [crate.entities.pop(FILE), *crate.entities.values()]
    return {"@context": f"{SPECIFICATION}/context", "@graph": ordered}


def _actions(crate, makefile):
    """Add what notebooks, longer runs and the paper's build do, and return references."""
    for name, known in makefile.published.items():
        makes = [f"data/results/{one}.parquet" for one in known]
        _target(crate, f"make {name}", makefile.scripts(name), [], makes)
    for name, makes in makefile.made.items():
        reads = makefile.read.get(name, [])
        _target(crate, f"execute {name}", [f"notebooks/{name}.ipynb"], reads, makes)
    ranked = ["figures/leaderboard.csv", "figures/leaderboard.md"]
    _target(crate, "make leaderboard", makefile.scripts("leaderboard"), [LEADERS], ranked)
    for pdf, needed in makefile.typeset.items():
        scripts = [path for path in needed if path.endswith(".py")]
        reads = [path for path in needed if path not in scripts]
        _target(crate, f"make {pdf}", scripts, reads, [pdf])
    made = [one for one in crate.entities.values() if one["@type"] == "CreateAction"]
    return [{"@id": one["@id"]} for one in made]
