"""Binder's environment: slim, of the locked versions, and enough for the notebooks that show published results."""

import os
import re
import tomllib
from urllib.parse import parse_qs, urlsplit

import nbformat
import pytest
import yaml
from nbclient import NotebookClient
from slim import closure, names, only

import notebooks.run  # noqa: F401 - with its nbclient, which cannot wait forever
from ocrrlib.files import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
READING = {"parquet", "statistics", "river", "report", "explore"} & EXTRAS.keys()
READ = [*PROJECT["dependencies"], *(r for e in READING for r in EXTRAS[e])]
HEAVY = ["papermill", *(r for e in ("text", "lora", "ann", "dask", "docs", "paper", "test") for r in EXTRAS[e])]


def environment(path):
    """The version of Python and pip's lines in an environment file."""
    parts = yaml.safe_load(path.read_text())["dependencies"]
    python = next(part for part in parts if str(part).startswith("python="))
    return python, next(part["pip"] for part in parts if isinstance(part, dict))


PYTHON, PINS = environment(ROOT / "binder/environment.yml")


def test_versions_are_those_of_the_lock():
    assert PYTHON == environment(ROOT / "environment.yml")[0]
    assert set(PINS) <= set((ROOT / "requirements.lock").read_text().splitlines())


def test_the_project_and_jupyterlab_are_complete_and_nothing_heavy_comes_along():
    assert names(PINS) == closure([*READ, "jupyterlab"]) == closure(PINS)
    assert names(PINS).isdisjoint(names(HEAVY))


def test_the_project_is_installed_without_further_packages():
    script = ROOT / "binder/postBuild"
    assert "pip install --no-deps -e ." in script.read_text() and os.access(script, os.X_OK)


def test_addresses_in_the_readme_open_the_notebooks():
    for address in re.findall(r"https://mybinder\.org/v2/[^\s)]+", (ROOT / "README.md").read_text()):
        assert parse_qs(urlsplit(address).query)["urlpath"] == ["lab/tree/notebooks"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ("00_tour", "11_your_own", "12_explore"))
def test_a_notebook_on_published_results_runs(name, tmp_path, monkeypatch):
    for variable, value in only(names(PINS), tmp_path).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv("OCRR_DATA_DIR", raising=False)
    notebook = nbformat.read(ROOT / f"notebooks/{name}.ipynb", as_version=4)
    NotebookClient(notebook, resources={"metadata": {"path": ROOT}}, timeout=300).execute()
