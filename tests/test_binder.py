"""Binder's environment: slim, of the locked versions, and enough for the notebooks that are read there."""

import importlib.util
import os
import re
import tomllib
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from slim import closure, names, only, run

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
    "11_your_own": "paper",
    "12_explore": "paper",
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
READING_EXTRAS = ("parquet", "statistics", "river", "report", "explore")
READ = [*PROJECT["dependencies"], *(r for extra in READING_EXTRAS for r in EXTRAS[extra])]
HEAVY = [r for extra in ("text", "lora", "ann", "dask", "paper", "test") for r in EXTRAS[extra]] + ["papermill"]
MISSING = (
    "torch transformers sentence_transformers peft faiss hnswlib usearch dask distributed papermill pytest".split()
)


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
    needed = closure([*READ, "jupyterlab"])
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
    return only(names(PINS), tmp_path_factory.mktemp("slim"))


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
    assert run(slim, program).split() == [*MISSING, "no", "version"]


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
    assert run(slim, program).strip() == "this needs the optional library hnswlib: pip install hnswlib"


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
