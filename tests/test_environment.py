"""The lock, pyproject.toml, conda's environment and Binder's slim one name the same versions."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import metadata, version
from urllib.parse import parse_qs, urlsplit

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from ocrrlib.files import ROOT
from tests.slim import PINS, PYTHON, closure, environment, names

LINES = (ROOT / "requirements.lock").read_text().splitlines()
LOCK = {canonicalize_name(name): version for name, version in (line.split("==") for line in LINES)}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
MEMORY = tomllib.loads((ROOT / "memory/pyproject.toml").read_text())["project"]


def required(project):
    """What a project and its extras ask for, but for ourselves and extras with their own lock."""
    extras = (own for name, own in project["optional-dependencies"].items() if name not in OWN_LOCK)
    asked = {*project["dependencies"], *(one for extra in extras for one in extra)}
    return {one for one in asked if Requirement(one).name not in ("ocrrlib", "corrigible")}


OWN_LOCK = {"onnx"}
REQUIRED = sorted(required(PROJECT) | required(MEMORY))
# What Binder has, to show published results, and what would make it slow to start.
READ = [
    *PROJECT["dependencies"],
    *(one for one in MEMORY["dependencies"] if one != "ocrrlib"),
    *(r for e in ("run", "statistics", "river", "report", "explore") for r in EXTRAS[e]),
]
HEAVY = [
    "papermill",
    *(
        r
        for e in ("text", "lora", "ann", "dask", "metadata", "docs", "paper", "test")
        for r in EXTRAS[e]
    ),
]


@pytest.mark.parametrize("requirement", REQUIRED)
def test_the_lock_satisfies_what_the_project_requires_and_is_installed(requirement):
    wanted = Requirement(requirement)
    locked = LOCK[canonicalize_name(wanted.name)]
    assert wanted.specifier.contains(locked) and version(wanted.name).split("+")[0] == locked


def test_one_extra_brings_all_others():
    (everything,) = map(Requirement, EXTRAS["all"])
    assert (
        everything.name == PROJECT["name"]
        and everything.extras == EXTRAS.keys() - {"all"} - OWN_LOCK
    )


def test_conda_and_binder_use_the_lock_and_a_python_that_project_and_lock_allow():
    assert environment("environment.yml") == (
        PYTHON,
        ["-r requirements.lock", "-e .", "-e memory"],
    ) and set(PINS) <= set(LINES)
    allowed = SpecifierSet(PROJECT["requires-python"])
    pythons = [f"3.{minor}" for minor in range(9, 20) if allowed.contains(f"3.{minor}.0")]
    assert pythons == ["3.11", "3.12"] and PYTHON.removeprefix("python=") in pythons
    for name in LOCK:
        wanted = SpecifierSet(metadata(name).get("Requires-Python") or "")
        assert all(wanted.contains(f"{python}.0") for python in pythons), name


def test_make_takes_a_python_that_has_wheels_or_says_which_in_one_line(tmp_path):
    """With programs of these names that only say a version, or make an environment."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "memory").mkdir()
    for name in ("Makefile", "requirements.lock", "pyproject.toml", "memory/pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    unset = ("CONDA_PREFIX", "NB_PYTHON_PREFIX", "MAKEFLAGS", "MAKEOVERRIDES")
    variables = {name: value for name, value in os.environ.items() if name not in unset}
    variables["PATH"] = f"{programs}:/usr/bin:/bin"

    def make():
        return subprocess.run(
            ["make", ".venv/ready-now"], cwd=tmp_path, env=variables, capture_output=True, text=True
        )

    def program(name, version):
        run = f"import sys; sys.version_info = {version}; exec(sys.argv.pop(1))"
        other = f'echo {name} "$@" >&2; exit 0'
        script = f'#!/bin/sh\n[ "$1" = -c ] && exec {sys.executable} -c "{run}" "$2"\n{other}\n'
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)

    program("python3", (3, 13, 0))
    program("python3.12", (3, 13, 0))
    program("python3.11", (3, 10, 0))
    done = make()
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 2 and "Python 3.11 or 3.12 is needed" in line
    program("python3.11", (3, 11, 0))
    assert "python3.11 -m venv .venv" in make().stderr
    program("python3", (3, 12, 9))
    assert "python3 -m venv .venv" in make().stderr


def test_every_library_that_the_code_imports_is_required():
    imported = set()
    code = [*(ROOT / "ocrrlib").rglob("*.py"), *(ROOT / "ocrr").rglob("*.py")]
    for path in [*code, *(ROOT / "memory/corrigible").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {one.name.split(".")[0] for one in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.split(".")[0])
    packages = {
        "huggingface_hub": "sentence-transformers",
        "pydantic": "fastapi",
        "starlette": "fastapi",
        "sklearn": "scikit-learn",
        "hnswlib": "chroma-hnswlib",
    }
    ours = {"ocrrlib", "ocrr", "corrigible", "system"}  # the last is a contribution's file
    needed = {packages.get(name, name) for name in imported - set(sys.stdlib_module_names) - ours}
    own = {one for extra in OWN_LOCK for one in EXTRAS[extra]}
    assert set(map(canonicalize_name, needed)) <= names(REQUIRED) | names(own)


def test_binder_has_the_project_and_jupyterlab_complete_and_nothing_heavy():
    assert names(PINS) == closure([*READ, "jupyterlab"]) == closure(PINS)
    assert names(PINS).isdisjoint(names(HEAVY))
    script = ROOT / "binder/postBuild"
    assert "pip install --no-deps -e . -e memory" in script.read_text() and os.access(
        script, os.X_OK
    )
    for address in re.findall(
        r"https://mybinder\.org/v2/[^\s)]+", (ROOT / "README.md").read_text()
    ):
        assert parse_qs(urlsplit(address).query)["urlpath"] == ["lab/tree/notebooks"]
