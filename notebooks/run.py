"""Run the numbered notebooks that are stale, in order.

A notebook is stale when the content of anything that it depends on, or that it
made, is not what it was when the notebook last succeeded; times do not matter.
"""

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path

import nbformat
import papermill
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from notebooks.settings import BUILD, PUBLISHED
from ocrrlib.claims import MEASURED, OF_THE_PAPER
from ocrrlib.datasets import DATASETS
from ocrrlib.embeddings import path_of
from ocrrlib.errors import InputError, pick
from ocrrlib.files import ROOT, sha256, write_text
from ocrrlib.provenance import digest
from ocrrlib.publish import LOCK
from ocrrlib.report import values

NOTEBOOKS = ROOT / "notebooks"
VALUES = "paper/values.json"  # all notebooks write into it
ARTEFACTS = ("data/results", "figures", "paper/tables", "paper/claims.json", VALUES, "paper/ocrr.pdf")
# What `make leaderboard` makes, from cards that anyone may add.
RANKED = ("data/results/cards", "figures/leaderboard.csv", "figures/leaderboard.md")
SHOWN = re.compile(r"(<!--\{([\w.]+)\}-->).*?(<!---->)")  # a value in the README
# What a notebook reads that others make, or that is written by hand.
READS = {
    "00_from_scratch": ("data/results/full_sweep.parquet", "data/results/beyond.parquet"),
    "03_*": ("data/results/full_sweep.parquet",),
    "04_*": ("data/results/full_sweep.parquet", "data/results/storage_pareto.parquet"),
    "08_*": (
        *(f"data/results/{name}.parquet" for name in (*OF_THE_PAPER, *MEASURED, "costs")),
        "paper/tables/table_parameters.csv",
        "paper/tables/table_file_order.csv",
        "paper/claims.yml",
    ),
    "09_*": ("data/results/costs.parquet",),
    "10_*": ("data/embeddings/banking77.tfidf-svd.safetensors",),
    "12_*": ("data/results/beyond.parquet",),
}
AS_PUBLISHED = {"08_*": "data/results/beyond.parquet"}  # read so, whatever folder later notebooks write it to
# Notebooks to play with: they make no artefacts, and have parameters of their own, which the build leaves as they are.
PLAYED = {
    "00_from_scratch": ("DATASET", "SEED", "POLICIES"),
    "00_tour": ("DATASET", "SYSTEMS", "QUERY", "SIMILAR"),
    "12_explore": ("DATASET", "POLICY", "SYSTEMS", "SEED"),
}


def notebooks():
    """The numbered notebooks, in order."""
    return sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


def artefacts(out):
    """Files that notebooks make under ``out``."""
    places, others = [out / name for name in ARTEFACTS], [out / name for name in RANKED]
    files = {path for place in places for path in (place, *place.rglob("*")) if path.is_file()}
    return sorted(path for path in files if not {path, *path.parents} & set(others))


def hashes(paths, base):
    """SHA-256 of files, by path relative to ``base``."""
    return {path.relative_to(base).as_posix(): sha256(path) for path in paths}


def inputs(notebook, settings):
    """Hashes of all that a notebook may depend on, and its parameters."""
    files = [notebook, LOCK, *(ROOT / "ocrrlib").rglob("*.py")]
    files += [path for d in DATASETS if (path := path_of(d, settings.ENCODER)).exists()]
    parameters = {n: v for n, v in declared(notebook, settings).items() if n not in ("JOBS", "DASK", "OUT")}
    shown = [name for source, names in PUBLISHED.items() if parameters.get(source) == "published" for name in names]
    files += [path for name in shown if (path := ROOT / f"data/results/{name}.parquet").exists()]
    patterns = [name for stem, names in READS.items() if fnmatch(notebook.stem, stem) for name in names]
    files += [path for name in patterns for path in ROOT.glob(name)]
    files += [ROOT / name for stem, name in AS_PUBLISHED.items() if fnmatch(notebook.stem, stem)]
    read = {path.relative_to(settings.out): path for name in patterns for path in settings.out.glob(name)}
    made = {f"made/{name.as_posix()}": sha256(path) for name, path in read.items()} if settings.out != ROOT else {}
    return hashes(files, ROOT) | made | {"parameters": json.dumps(parameters)}


def stamp_path(notebook, settings):
    name = hashlib.sha256(str(settings.out).encode()).hexdigest()[:8]
    return BUILD / "stamps" / name / f"{notebook.stem}.json"


def stale(notebook, settings):
    """Why a notebook must run; empty if all is as it was when it last succeeded."""
    path = stamp_path(notebook, settings)
    if not path.exists():
        return ["never run here"]
    stamp = json.loads(path.read_text(encoding="utf-8"))
    now, reasons = inputs(notebook, settings), []
    for name in sorted(stamp["inputs"] | now):
        if stamp["inputs"].get(name) != now.get(name):
            change = "is new" if name not in stamp["inputs"] else "is gone" if name not in now else "changed"
            reasons.append(f"{name} {change}")
    for name, value in stamp["outputs"].items():
        path = settings.out / name
        if not path.exists():
            reasons.append(f"{name} is missing")
        elif sha256(path) != value:
            reasons.append(f"{name} is not as it was made")
    if own_values(notebook, settings) != stamp.get("values"):
        reasons.append(f"{VALUES} is not as it was made")
    return reasons


def own_values(notebook, settings):
    """Hash of what the notebook has in the file of values."""
    entries = values.read(settings.out / VALUES)
    return digest({key: entry for key, entry in entries.items() if entry["notebook"] == notebook.stem})


def declared(notebook, settings):
    """The parameters that a notebook declares and the build sets.

    Raises
    ------
    InputError
        If the notebook declares one that is not known.
    """
    given = asdict(settings) | {"OUT": "" if settings.out == ROOT else str(settings.out)}
    names = [name for name in papermill.inspect_notebook(notebook) if name not in PLAYED.get(notebook.stem, ())]
    return {name: pick("notebook parameter", name, given) for name in names}


def execute(notebook, parameters, target):
    """Run a notebook into ``target``; on failure leave no target, and say where it failed.

    Raises
    ------
    InputError
        If a parameter is not declared by the notebook, or a cell fails.
    """
    known = papermill.inspect_notebook(notebook)
    for name in parameters:
        pick(f"parameter of {notebook.name}", name, known)
    target.unlink(missing_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    folders = tempfile.TemporaryDirectory(dir=target.parent, prefix=".running-"), tempfile.TemporaryDirectory()
    with folders[0] as folder, folders[1] as sockets:
        running = Path(folder) / notebook.name
        # Sockets in a folder of their own instead of ports: kernels cannot collide.
        transport = Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}})
        try:
            papermill.execute_notebook(
                notebook,
                running,
                parameters,
                kernel_name="python3",
                cwd=ROOT,
                progress_bar=False,
                stderr_file=sys.stderr,
                config=transport,
            )
        except PapermillExecutionError as error:
            failed = BUILD / "failed" / notebook.name
            failed.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(running, failed)
            place = 1 + [cell.source for cell in nbformat.read(notebook, as_version=4).cells].index(error.source)
            raise InputError(
                f"{notebook.name}, cell {place}: {error.ename}: {error.evalue}\n"
                f"  the notebook as far as it came: {failed.relative_to(ROOT)}"
            ) from error
        os.replace(running, target)


def run_stale(settings, which="*"):
    """Run every stale notebook, in order, or those whose names match."""
    where = settings.out
    patterns = which.split("|")
    for notebook in (path for path in notebooks() if any(fnmatch(path.stem, pattern) for pattern in patterns)):
        reasons = stale(notebook, settings)
        if not reasons:
            print(f"{notebook.stem}: up to date", flush=True)
            continue
        more = f" (and {len(reasons) - 1} more reasons)" if len(reasons) > 1 else ""
        print(f"{notebook.stem}: running, since {reasons[0]}{more}", flush=True)
        stamp = stamp_path(notebook, settings)
        stamp.unlink(missing_ok=True)
        content = {"inputs": inputs(notebook, settings)}  # as they are now: a change while it runs makes it stale
        before = {path: _version(path) for path in artefacts(where)}
        execute(notebook, declared(notebook, settings), executed(notebook, settings))
        made = [path for path in artefacts(where) if before.get(path) != _version(path) and path != where / VALUES]
        content |= {"outputs": hashes(made, where), "values": own_values(notebook, settings)}
        write_text(stamp, json.dumps(content, indent=1))
    if where == ROOT:
        refresh_readme()
    print(f"results, figures and tables: {where}/{{data/results,figures,paper/tables}}")


def refresh_readme():
    """Put the headline table and the values as they were just made into the README."""
    readme = ROOT / "README.md"
    table = (ROOT / "paper/tables/table1_headline.md").read_text(encoding="utf-8").split("\n\n")[0]
    before, _, rest = readme.read_text(encoding="utf-8").partition("<!-- table1 -->")
    _, _, after = rest.partition("<!-- /table1 -->")
    text, entries = f"{before}<!-- table1 -->\n{table}\n<!-- /table1 -->{after}", values.read()
    write_text(readme, SHOWN.sub(lambda match: f"{match[1]}{entries[match[2]]['text']}{match[3]}", text))


def _version(path):
    """Changes whenever a file is written, be it with the same content."""
    about = path.stat()
    return about.st_ino, about.st_mtime_ns


def executed(notebook, settings):
    """Where the executed notebook goes."""
    return BUILD / "notebooks" / settings.variant / notebook.name


def status(settings):
    """Print each notebook's state."""
    for notebook in notebooks():
        reasons = stale(notebook, settings)
        print(f"{notebook.stem}: {'stale' if reasons else 'up to date'}")
        for reason in reasons:
            print(f"  {reason}")
