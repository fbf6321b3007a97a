"""What the Makefile declares: which target reads, runs and writes what."""

import os
import re
import subprocess
from functools import cached_property

from ocrrlib.files import ROOT


class Makefile:
    """What the Makefile declares, as make itself reads it."""

    def __init__(self):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
        command = ["make", "--no-print-directory", "-pnq", "help"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        self.database = done.stdout

    def words(self, pattern: str) -> dict[str, list[str]]:
        """Words of the lines that match, by the pattern's only group."""
        lines = re.finditer(rf"(?m)^{pattern}(.*)$", self.database)
        return {line[1]: line[2].split() for line in sorted(lines, key=lambda line: line[1])}

    @cached_property
    def made(self) -> dict[str, list[str]]:
        """Files that notebooks make, by notebook."""
        return {name: files for name, files in self.words(r"made\.(\w+) := ").items() if files}

    @cached_property
    def read(self) -> dict[str, list[str]]:
        """Files below ``data`` and ``paper`` that notebooks read, by notebook."""
        found = {}
        for name, words in self.words(r"build/notebooks/(\w+)\.ipynb: ").items():
            ours = words[: words.index("|")] if "|" in words else words
            found[name] = [
                word for word in ours if word.startswith(("data/", "paper/")) and ".py" not in word
            ]
        return found

    @cached_property
    def published(self) -> dict[str, list[str]]:
        """Results that are shown as published, by the target that runs them again."""
        return self.words(r"published\.(\w+) := ")

    @cached_property
    def typeset(self) -> dict[str, list[str]]:
        """Files that the paper's PDFs are made from, by PDF."""
        rules = self.words(r"(paper/\w+\.pdf): ")
        return {pdf: [word for word in words if word != "|"] for pdf, words in rules.items()}

    def scripts(self, target: str) -> list[str]:
        """Notebooks and modules that the recipe of a target runs."""
        rule = re.search(rf"(?m)^{target}:.*\n(?:[#\t].*\n)+", self.database)[0]
        recipe = "\n".join(line for line in rule.splitlines() if line.startswith("\t"))
        notebooks = re.findall(r" (notebooks/\w+\.ipynb)", recipe)
        modules = re.findall(r" -m ((?:studies|tests|paper)\.[\w.]+)", recipe)
        return notebooks + [f"{module.replace('.', '/')}.py" for module in modules]
