"""Binder's environment: slim, of the locked versions, and enough for the notebooks that are read there."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, packages_distributions
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from notebooks.run import NOTEBOOKS, declared, execute
from notebooks.settings import Settings
from ocrrlib.errors import InputError
from ocrrlib.files import ROOT

# Profiles in which they run; 01 and 04 load torch's models, 06 searches with hnswlib.
READING = {
    "00_tour": "paper",
    "01_embed": "quick",
    "02_full_sweep": "quick",
    "03_storage_pareto": "quick",
    "04_lora": "quick",
    "05_vote_ablation": "quick",
    "07_compute": "paper",  # shown as published; the quick profile measures hnswlib
    "08_claims": "quick",
    "10_streams": "paper",  # shown as published
    "12_explore": "paper",
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
HEAVY = [r for extra in EXTRAS.keys() - {"notebooks", "explore"} for r in EXTRAS[extra]] + ["papermill"]
MISSING = (
    "torch transformers sentence_transformers peft faiss hnswlib usearch dask distributed papermill pytest".split()
)
# Takes the place of Python's own finder, so that all else about a missing package is as if it were not installed.
HOOK = """
import re
import sys
from importlib.machinery import PathFinder

HIDDEN = {hidden!r}
KEPT = {kept!r}


class Slim(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else super().find_spec(name, path, target)

    @classmethod
    def find_distributions(cls, *context):
        found = super().find_distributions(*context)
        return (d for d in found if re.sub("[-_.]+", "-", d.metadata["Name"]).lower() in KEPT)


sys.meta_path[sys.meta_path.index(PathFinder)] = Slim
"""


def names(requirements):
    return {canonicalize_name(Requirement(requirement).name) for requirement in requirements}


def closure(requirements):
    """Names of all distributions that these requirements bring, as the metadata of the installed ones say."""
    found, todo = set(), [Requirement(requirement) for requirement in requirements]
    while todo:
        wanted = todo.pop()
        key = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if key not in found:
            found.add(key)
            for more in map(Requirement, distribution(wanted.name).requires or ()):
                if not more.marker or any(more.marker.evaluate({"extra": e}) for e in {"", *wanted.extras}):
                    todo.append(more)
    return {name for name, _ in found}


def environment(path):
    """The version of Python and pip's lines in an environment file."""
    parts = yaml.safe_load(path.read_text())["dependencies"]
    (python,) = [part for part in parts if str(part).startswith("python=")]
    (pip,) = [part["pip"] for part in parts if isinstance(part, dict)]
    return python, pip


PYTHON, PINS = environment(ROOT / "binder/environment.yml")


def test_python_is_that_of_the_whole_environment():
    assert PYTHON == environment(ROOT / "environment.yml")[0]


def test_every_line_is_one_of_the_lock():
    assert len(set(PINS)) == len(PINS) and set(PINS) <= set((ROOT / "requirements.lock").read_text().splitlines())


def test_all_that_the_project_and_jupyterlab_need_is_pinned_and_nothing_heavy_comes_along():
    needed = closure([*PROJECT["dependencies"], *EXTRAS["explore"], "jupyterlab"])
    assert names(PINS) == needed == closure(PINS)
    assert needed.isdisjoint(names(HEAVY))


def test_the_project_is_installed_without_what_else_it_asks_for():
    script = ROOT / "binder/postBuild"
    assert "pip install --no-deps -e ." in script.read_text() and os.access(script, os.X_OK)


def test_the_badge_of_the_readme_opens_a_folder_that_exists():
    readme = (ROOT / "README.md").read_text()
    assert "[![Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/" in readme
    for address in re.findall(r"https://mybinder\.org/v2/[^\s)]+", readme):
        query = parse_qs(urlsplit(address).query)
        (target,) = query.get("labpath") or [path.removeprefix("lab/tree/") for path in query["urlpath"]]
        assert target == "notebooks" and (ROOT / target).is_dir()


@pytest.fixture(scope="module")
def slim(tmp_path_factory):
    """Environment variables with which Python finds only what Binder installs, and the project."""
    kept = names(PINS) | {"ocrrlib"}
    owners = packages_distributions().items()
    hidden = {module for module, owned in owners if kept.isdisjoint(map(canonicalize_name, owned))}
    folder = tmp_path_factory.mktemp("slim")
    (folder / "sitecustomize.py").write_text(HOOK.format(hidden=hidden, kept=kept))
    return {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}


def in_slim(slim, program):
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=os.environ | slim, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_packages_that_binder_lacks_are_hidden_and_others_are_not(slim):
    assert all(importlib.util.find_spec(module) for module in MISSING)
    program = f"""if True:
        from importlib.metadata import PackageNotFoundError, version
        from importlib.util import find_spec

        import ipywidgets, jupyterlab, matplotlib, pandas, river, ocrrlib, yaml

        assert version("pandas")
        for module in {MISSING}:
            assert find_spec(module) is None, module
            try:
                __import__(module)
            except ModuleNotFoundError as error:
                print(error.name)
        try:
            version("torch")
        except PackageNotFoundError:
            print("no version")
    """
    assert in_slim(slim, program).split() == [*MISSING, "no", "version"]


def test_systems_of_the_reading_notebooks_are_there_and_others_say_what_they_need(slim):
    program = """if True:  # notebooks may take finished runs from the cache, without making a system
        import numpy as np

        from ocrrlib.errors import InputError
        from ocrrlib.experiments import EXPERIMENTS
        from ocrrlib.systems import make

        for name in {s for e in ("full_sweep", "storage_pareto", "vote_ablation") for s in EXPERIMENTS[e].systems}:
            make(name)
        try:
            make("substrate_hnsw").fit(np.eye(4), np.arange(4), range(4))
        except InputError as error:
            print(error)
    """
    assert in_slim(slim, program).strip() == "this needs the optional library hnswlib: pip install hnswlib"


@pytest.fixture(scope="module")
def errors(slim, tmp_path_factory):
    """What went wrong in each notebook; all run in order, since later ones read what earlier ones write."""
    out, found = tmp_path_factory.mktemp("read"), {}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in slim.items():
            patch.setenv(name, value)
        for stem, profile in READING.items():
            notebook = NOTEBOOKS / f"{stem}.ipynb"
            settings = Settings.parse([f"PROFILE={profile}", "SEEDS=0", "JOBS=1", f"OUT={out}"])
            try:
                execute(notebook, declared(notebook, settings), out / notebook.name)
            except InputError as error:
                found[stem] = error
    return found


@pytest.mark.parametrize("stem", READING)
def test_a_reading_notebook_runs(stem, errors):
    assert stem not in errors, errors[stem]
