"""Descriptions for machines: up to date, complete, and read by the libraries of their formats."""

import json
import subprocess
from importlib.resources import files

import mlcroissant
import pytest
import yaml
from rocrate.rocrate import ROCrate

import ocrrlib
from ocrrlib.embeddings import load
from ocrrlib.experiments import THREE
from ocrrlib.files import ROOT, sha256
from paper import crate, croissant, metadata

CFFCONVERT = ROOT / "build/citation/bin/cffconvert"


def committed(path):
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def label_check(dataset):
    """The judgement of labels that a committed description states."""
    sets = {one["name"]: one for one in committed(croissant.path_of(dataset))["recordSet"]}
    row = sets["label_check"]["data"]
    fields = croissant.LabelCheck._fields
    return croissant.LabelCheck(*(row[f"label_check/{name}"] for name in fields))


def test_committed_descriptions_are_up_to_date():
    made = metadata.documents({dataset: label_check(dataset) for dataset in THREE})
    stale = [
        path
        for path, document in made.items()
        if (ROOT / path).read_text(encoding="utf-8") != metadata.as_text(document)
    ]
    assert stale == [], "run `make metadata`"


def test_citation_and_project_agree_on_version_and_licence():
    assert metadata.CFF["version"] == ocrrlib.__version__
    assert metadata.CFF["license"] == metadata.PROJECT["license"]


def test_everything_published_is_made_by_an_action_from_something():
    actions = [one for one in committed(crate.FILE)["@graph"] if one["@type"] == "CreateAction"]
    made = {result["@id"] for action in actions for result in action["result"]}
    published = [
        *ROOT.glob("data/embeddings/[!.]*.safetensors"),
        *ROOT.glob("data/results/[!.]*.parquet"),
        *ROOT.glob("figures/[!.]*"),
        *ROOT.glob("paper/tables/[!.]*"),
        *ROOT.glob("paper/[!.]*.pdf"),
    ]
    assert {path.relative_to(ROOT).as_posix() for path in published} <= made
    assert all(action["instrument"] for action in actions)


def test_results_come_from_the_embeddings_whose_fingerprint_they_record():
    graph = {one["@id"]: one for one in committed(crate.FILE)["@graph"]}
    read = {one["@id"] for one in graph["#execute-02_full_sweep"]["object"]}
    embedded = {f"data/embeddings/{name}.all-MiniLM-L6-v2.safetensors" for name in THREE[:2]}
    assert read == embedded | {"paper/claims.yml"}


@pytest.mark.slow
@pytest.mark.parametrize("dataset", THREE)
def test_suspects_are_as_many_as_described(dataset):
    assert croissant.check_labels(dataset) == label_check(dataset)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("dataset", THREE)
def test_mlcroissant_reads_a_description_without_complaint(dataset):
    read = mlcroissant.Dataset(str(ROOT / croissant.path_of(dataset)))
    issues = read.metadata.ctx.issues
    assert not issues.errors and not issues.warnings
    names = [row["classes/name"] for row in read.records("classes")]
    assert tuple(names) == load(dataset).classes
    for file in read.metadata.distribution:
        assert sha256(ROOT / "data/embeddings" / file.content_url) == file.sha256
    assert read.metadata.personal_sensitive_information and read.metadata.data_biases


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_rocrate_loads_the_crate_and_every_reference_leads_to_an_entity():
    read = ROCrate(ROOT)
    known = {one["@id"] for one in committed(crate.FILE)["@graph"]}
    assert known == {one.id for one in read.get_entities()}
    assert references(committed(crate.FILE)["@graph"]) <= known | {read.metadata.profile}
    here = [one.id for one in read.data_entities if "://" not in one.id]
    assert here and all((ROOT / path).exists() for path in here)


def references(part):
    """Ids that JSON refers to."""
    if isinstance(part, list):
        return set().union(*map(references, part))
    if not isinstance(part, dict):
        return set()
    if part.keys() == {"@id"}:
        return {part["@id"]}
    return references(list(part.values()))


@pytest.mark.slow
def test_codemeta_has_terms_of_its_vocabulary_alone():
    """RO-Crate's context holds the terms of schema.org and of CodeMeta 3.0."""
    context = files("rocrate") / "data/ro-crate.jsonld"
    terms = json.loads(context.read_text(encoding="utf-8"))["@context"]
    found = committed("codemeta.json")
    used = {key for key in keys(found) if not key.startswith("@")}
    assert used <= terms.keys() and found["@context"].endswith("codemeta/3.0")


def keys(part):
    """All keys of JSON."""
    if isinstance(part, list):
        return set().union(*map(keys, part))
    return {*part, *keys(list(part.values()))} if isinstance(part, dict) else set()


@pytest.mark.slow
def test_cffconvert_validates_the_citation_and_reads_its_title():
    assert CFFCONVERT.exists(), "`make test-slow` makes the environment of cffconvert"
    where = ["-i", str(ROOT / "CITATION.cff")]
    done = subprocess.run([CFFCONVERT, "--validate", *where], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    told = subprocess.run([CFFCONVERT, "-f", "zenodo", *where], capture_output=True, text=True)
    assert yaml.safe_load(told.stdout)["title"] == committed(".zenodo.json")["title"]
