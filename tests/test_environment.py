"""The lock, pyproject.toml and environment.yml name one and the same environment; the build's files agree."""

import ast
import re
import sys
import tomllib
from importlib.metadata import metadata, version

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from ocrrlib.files import ROOT

LOCK = {
    canonicalize_name(line.split("==")[0]): line.split("==")[1]
    for line in (ROOT / "requirements.lock").read_text().splitlines()
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
REQUIRED = [*PROJECT["dependencies"], *(r for name in EXTRAS.keys() - {"all"} for r in EXTRAS[name])]
REQUIRED = sorted(set(REQUIRED))


def test_the_lock_has_plain_pinned_lines_only():
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line), line


@pytest.mark.parametrize("requirement", REQUIRED)
def test_the_lock_satisfies_what_the_project_requires(requirement):
    wanted = Requirement(requirement)
    assert wanted.specifier.contains(LOCK[canonicalize_name(wanted.name)])


def test_one_extra_brings_all_others():
    (everything,) = map(Requirement, EXTRAS["all"])
    assert everything.name == PROJECT["name"] and everything.extras == EXTRAS.keys() - {"all"}


def test_the_environment_that_runs_this_is_the_locked_one():
    for name in map(canonicalize_name, (Requirement(r).name for r in REQUIRED)):
        assert version(name).split("+")[0] == LOCK[name], name


def test_conda_reads_the_same_lock_and_a_python_that_the_project_allows():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (pip,) = [part["pip"] for part in environment["dependencies"] if isinstance(part, dict)]
    assert pip == ["-r requirements.lock", "-e ."]
    (python,) = [part for part in environment["dependencies"] if str(part).startswith("python=")]
    assert Requirement(f"python{PROJECT['requires-python']}").specifier.contains(python.split("=")[1])
    assert python.split("=")[1] == f"{sys.version_info.major}.{sys.version_info.minor}"


def test_every_library_that_the_code_imports_is_required():
    imported = set()
    for path in (ROOT / "ocrrlib").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {one.name.split(".")[0] for one in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.split(".")[0])
    names = {"sentence_transformers": "sentence-transformers", "huggingface_hub": "sentence-transformers"}
    names |= {"yaml": "pyyaml", "sklearn": "scikit-learn", "hnswlib": "chroma-hnswlib"}
    required = {canonicalize_name(Requirement(r).name) for r in REQUIRED}
    for name in imported - set(sys.stdlib_module_names) - {"ocrrlib"}:
        assert canonicalize_name(names.get(name, name)) in required, name


def test_each_make_target_has_a_line_of_help():
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)$", makefile, re.MULTILINE)[1].replace("\\\n", " ").split()
    for target in set(phony) - {"settings", "active"}:  # what others need first
        assert re.search(rf"^{target}:.*## \w", makefile, re.MULTILINE), target


def test_continuous_integration_calls_the_test_command_of_the_readme():
    commands = (ROOT / ".ci/run").read_text().splitlines()[-2:]
    assert commands == ["make test", "make test-slow"] and "make test " in (ROOT / "README.md").read_text()


def test_every_locked_package_runs_on_the_oldest_python_that_the_project_allows():
    oldest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    for name in LOCK:
        wanted = metadata(name).get("Requires-Python")
        assert wanted is None or SpecifierSet(wanted).contains(oldest), name


def test_no_process_builds_a_grammar_that_nothing_uses():
    # jsonschema from 4.25 on asks the kernels' libraries for rfc3987-syntax, which takes a second or more to import.
    assert "rfc3987-syntax" not in LOCK and "lark" not in LOCK
