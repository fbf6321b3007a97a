"""Prepare a release: ``make release VERSION=1.0.0`` (``DRY=1``: without commit and tag here).

All of it is done in a fresh clone of the last commit, in ``build/release``; a step that fails
leaves the checkout as it was. A list of what a person has to do by hand ends it.
"""

import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ocrrlib.files import ROOT, InputError, pick, write_text
from paper.metadata import CFF

FOLDER = ROOT / "build/release"
DEFAULTS = {"VERSION": "1.0.0", "SAMPLE": "300", "DRY": ""}
VERSION = re.compile(r"\d+\.\d+\.\d+")
# Where the version stands; all other descriptions are made from these.
DECLARED = {
    "CITATION.cff": "version: {}",
    "ocrrlib/__init__.py": '__version__ = "{}"',
    "memory/corrigible/__init__.py": '__version__ = "{}"',
}
# What a new installation has to do, from an empty folder.
TRIED = """
import numpy as np
import ocrr
from corrigible import CorrectionMemory

print(ocrr.evaluate("substrate", seeds=[0], policy="random10", progress=False))
with CorrectionMemory.open("memory.sqlite") as memory:
    memory.learn(np.eye(2), ["left", "right"])
    print(memory.predict(np.array([0.6, 0.8])).label)
"""


def changes(version: str, changelog: str) -> str:
    """What the changelog says of a version; ``InputError`` if it says nothing."""
    for section in changelog.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        if title.split()[:1] == [version] and text.strip():
            return text.strip()
    raise InputError(f"CHANGELOG.md has no section ## {version}: say there what changed")


def declare(root: Path, version: str, day: str) -> None:
    """Write version and date where they are declared."""
    for name, line in DECLARED.items():
        path = root / name
        pattern = re.escape(line).replace(r"\{\}", r'[^"\n]*')
        said = line.format(version)
        if name == "CITATION.cff":
            pattern += r"(\ndate-released: .*)?"
            said += f"\ndate-released: {day}"
        text, times = re.subn(f"^{pattern}$", said, path.read_text("utf-8"), flags=re.MULTILINE)
        if times != 1:
            raise InputError(f"{path} declares its version {times} times: once is right")
        write_text(path, text)


def by_hand(
    version: str, archive: Path, wheels: list[Path], address: str | None, is_signed: bool
) -> str:
    """List what a person has to do after the release was made here.

    ``address`` is that of the repository, if it is known; ``is_signed`` tells of the leaderboard.
    """
    steps = []
    if address is None:
        steps.append(
            "Say where the repository is: repository-code in CITATION.cff, on GitHub for Binder's "
            "button; then `make metadata site`, and release again."
        )
    if not is_signed:
        steps.append(
            "Sign the leaderboard: make a key with `corrigible key FILE --name ocrr`, keep it "
            "elsewhere, run `OCRR_BOARD_KEY=FILE make leaderboard`, commit, and release again."
        )
    steps += [
        f"Push the branch and the tag v{version}.",
        "Open Binder once, so that its image is there for others; click through 00_tour.",
        f"Deposit {archive.name} with the fields of .zenodo.json; write the DOI into CITATION.cff "
        "(doi: ...) and run `make metadata`.",
        f"Upload {' and '.join(wheel.name for wheel in wheels)}, in this order.",
        "Send the paper: `make arxiv` packs it.",
    ]
    lines = [f"{number}. {step}" for number, step in enumerate(steps, 1)]
    return "\n".join(["By hand:", *lines]) + "\n"


def run(command: list[str], folder: Path) -> str:
    """What a command prints; ``InputError`` with its last lines if it fails."""
    here = {"PYTHONPATH": f"{folder}{os.pathsep}{folder / 'memory'}"}
    done = subprocess.run(
        command, cwd=folder, env=os.environ | here, capture_output=True, text=True
    )
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise InputError(f"{' '.join(command[:4])} failed:\n{said}")
    return done.stdout.strip()


def git(folder: Path, *words: str) -> str:
    """What git prints in a folder."""
    return run(["git", *words], folder)


def try_wheels(wheels: list[Path]) -> str:
    """Install wheels into an empty environment and use them there; say what came out."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = str(folder / "venv/bin/python")
        wanted = [f"{wheels[0]}[run]", str(wheels[1])]
        run([sys.executable, "-m", "venv", "venv"], folder)
        run([python, "-m", "pip", "install", "--quiet", *wanted], folder)
        said = run([python, "-c", TRIED], folder)
        files = [path for path in (folder / "venv").rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files if not path.is_symlink())
    return f"{said}\n{size / 1e6:.0f} MB with all that they need"


def prepare(settings: dict[str, str]) -> str:
    """Make the release; return what is left to do by hand.

    Raises ``InputError`` if there is anything uncommitted, the tag is there already, the changelog
    says nothing, or a step fails.
    """
    version = settings["VERSION"]
    tag = f"v{version}"
    if not VERSION.fullmatch(version):
        raise InputError(f"VERSION={version} is no version: give one as 1.0.0")
    if git(ROOT, "status", "--porcelain"):
        raise InputError("there is something uncommitted: commit it, or put it aside")
    if git(ROOT, "tag", "--list", tag):
        raise InputError(f"the tag {tag} is there already: give another version")
    changes(version, (ROOT / "CHANGELOG.md").read_text("utf-8"))
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    clone = FOLDER / "checkout"
    git(ROOT, "clone", "--quiet", str(ROOT), str(clone))

    print(f"repeating {settings['SAMPLE']} published runs ...", flush=True)
    sample = [f"SAMPLE={settings['SAMPLE']}", f"SEED={git(clone, 'rev-parse', 'HEAD')}"]
    print(run([sys.executable, "-m", "studies.check", "ALL=1", *sample], clone), flush=True)

    print("declaring version and date ...", flush=True)
    declare(clone, version, datetime.date.today().isoformat())
    run([sys.executable, "-m", "paper.metadata"], clone)
    run([sys.executable, "-m", "pytest", "-qm", "not slow", "tests/test_metadata.py"], clone)

    print("building both wheels, and using them in an empty environment ...", flush=True)
    for source in (".", "./memory"):
        how = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(FOLDER)]
        run([sys.executable, "-m", "pip", "wheel", *how, source], clone)
    wheels = [*FOLDER.glob("ocrrlib-*.whl"), *FOLDER.glob("corrigible-*.whl")]
    print(try_wheels(wheels), flush=True)

    git(clone, "commit", "--quiet", "--all", "--message", f"Release {version}")
    git(clone, "tag", "--annotate", tag, "--message", f"Release {version}")
    archive = FOLDER / f"ocrr-compendium-{version}.tar.gz"
    git(clone, "archive", f"--prefix={archive.name[:-7]}/", "--output", str(archive), tag)
    shutil.copy(clone / ".zenodo.json", FOLDER)
    print(f"{archive} has {archive.stat().st_size / 1e6:.0f} MB", flush=True)
    if not settings["DRY"]:
        git(ROOT, "pull", "--quiet", "--ff-only", str(clone), "HEAD")
        git(ROOT, "fetch", "--quiet", str(clone), "tag", tag)
    is_signed = (ROOT / "figures/leaderboard.key").exists()
    return by_hand(version, archive, wheels, CFF.get("repository-code"), is_signed)


def main() -> None:
    settings = dict(word.partition("=")[::2] for word in sys.argv[1:])
    try:
        for name in settings:
            pick("parameter", name, DEFAULTS)
        left = prepare(DEFAULTS | settings)
    except InputError as error:
        sys.exit(f"error: {error}")
    write_text(FOLDER / "by-hand.txt", left)
    print(left, end="")


if __name__ == "__main__":
    main()
