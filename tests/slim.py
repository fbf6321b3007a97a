"""A Python that finds only some of the packages that are installed, as if the others were not."""

import os
import re
import subprocess
import sys
from importlib.metadata import distribution, packages_distributions

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ocrrlib.files import ROOT

# Takes the place of Python's own finder, so that all else about a missing package is as if it were
# not installed.
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


def environment(path):
    """The version of Python and pip's lines in an environment file."""
    parts = yaml.safe_load((ROOT / path).read_text())["dependencies"]
    python = next(part for part in parts if str(part).startswith("python="))
    return python, next(part["pip"] for part in parts if isinstance(part, dict))


PYTHON, PINS = environment("binder/environment.yml")


def names(requirements):
    """Names of the distributions that these requirements ask for."""
    return {canonicalize_name(Requirement(requirement).name) for requirement in requirements}


def closure(requirements):
    """Names of all distributions that these requirements bring, by the metadata installed."""
    found = set()
    todo = [Requirement(requirement) for requirement in requirements]
    while todo:
        wanted = todo.pop()
        key = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if key not in found:
            found.add(key)
            for more in map(Requirement, distribution(wanted.name).requires or ()):
                if not more.marker or any(
                    more.marker.evaluate({"extra": e}) for e in {"", *wanted.extras}
                ):
                    todo.append(more)
    return {name for name, _ in found}


def only(kept, folder, *roots):
    """Environment variables with which Python finds only these distributions and the project.

    The project is looked for in the folders ``roots``, by default those of the checkout.
    """
    kept = kept | {"ocrrlib", "corrigible"}
    roots = roots or (ROOT, ROOT / "memory")
    owners = packages_distributions().items()
    hidden = {module for module, owned in owners if kept.isdisjoint(map(canonicalize_name, owned))}
    (folder / "sitecustomize.py").write_text(HOOK.format(hidden=hidden, kept=kept))
    return {"PYTHONPATH": os.pathsep.join(map(str, (folder, *roots)))}


def run(variables, program, cwd=ROOT):
    """What a program prints in such a Python."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=cwd,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def installed_bytes(kept):
    """Size of all files of these distributions."""
    files = [
        file
        for name in kept
        for file in distribution(name).files or ()
        if not re.search(r"\.pyc$", file.name)
    ]
    return sum(path.stat().st_size for path in {file.locate() for file in files} if path.is_file())
