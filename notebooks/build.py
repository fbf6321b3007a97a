"""Run the numbered notebooks and say what is stale: what `make` calls.

    python notebooks/build.py paper  [NAME=value ...]
    python notebooks/build.py lora | scale | compute [NAME=value ...]
    python notebooks/build.py status [NAME=value ...]
    python notebooks/build.py embed  [ENCODER=value]
    python notebooks/build.py verify

A notebook is stale when the content of anything that it depends on, or that it
made, is not what it was when the notebook last succeeded; times do not matter.
"""

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass, fields, replace
from fnmatch import fnmatch
from pathlib import Path

import nbformat
import papermill
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from ocrrlib import results
from ocrrlib.datasets import DATASETS, load_texts
from ocrrlib.embeddings import embed, path_of
from ocrrlib.encoders import DEFAULT_ENCODER, load_encoder, load_tokeniser, slug
from ocrrlib.errors import InputError, pick
from ocrrlib.experiments import EXPERIMENTS, PROFILES, PUBLISHED_ONLY, SEEDS, grid, parse_seeds
from ocrrlib.files import ROOT, sha256, write_text
from ocrrlib.provenance import digest
from ocrrlib.publish import LOCK, STUDIES, about, made_by
from ocrrlib.scale import check_memory
from ocrrlib.scale_plan import LIVE, PARTS, cells
from ocrrlib.sweep import check_scheduler

NOTEBOOKS = ROOT / "notebooks"
BUILD = ROOT / "build"
SOURCES = {"published": "as committed", "live": "run now"}
# What takes long or measures time is shown as published, unless a target of its own runs it anew.
PUBLISHED = {"LORA": ("lora",), "TIMES": ("scale_costs", "race", "costs", "growth")}
ANEW = {
    "lora": ("04_*", {"LORA": "live"}),
    "scale": ("06_*", {"TIMES": "live", "SCALES": ",".join(PARTS)}),
    "compute": ("07_*", {"TIMES": "live"}),
}
ARTEFACTS = ("data/results", "figures", "paper/tables")


@dataclass(frozen=True)
class Settings:
    """What can be set on the command line, checked before anything runs."""

    ENCODER: str = DEFAULT_ENCODER
    SEEDS: str = ",".join(map(str, SEEDS))
    JOBS: int = os.cpu_count() or 1
    PROFILE: str = "paper"
    DASK: str = ""
    BACKBONE: str = DEFAULT_ENCODER
    LORA: str = "published"
    SCALES: str = LIVE
    TIMES: str = "published"
    OUT: str = ""

    @classmethod
    def parse(cls, words):
        """Settings from ``NAME=value`` words.

        Raises
        ------
        InputError
            If a name is unknown or a value cannot be used.
        """
        given = dict(word.partition("=")[::2] for word in words)
        known = {field.name: field.name for field in fields(cls)}
        for name in given:
            pick("parameter", name, known)
        if not given.get("JOBS", "1").isdecimal() or int(given.get("JOBS", 1)) < 1:
            raise InputError(f"JOBS={given['JOBS']} is out of range: give a number of processes from 1 up")
        given["SEEDS"] = ",".join(map(str, parse_seeds(given.get("SEEDS", SEEDS))))
        settings = cls(**given | {"JOBS": int(given.get("JOBS", cls.JOBS))})
        pick("profile", settings.PROFILE, PROFILES)
        if settings.DASK:
            check_scheduler(settings.DASK)
        pick("source of LoRA's results", settings.LORA, SOURCES)
        if settings.LORA == "live":
            load_texts("banking77")
            load_tokeniser(settings.BACKBONE)
        pick("source of times", settings.TIMES, SOURCES)
        check_memory(max((cell.n for cell in cells(settings.SCALES, settings.PROFILE)), default=0))
        for dataset in DATASETS:
            if not path_of(dataset, settings.ENCODER).exists():
                load_texts(dataset)  # they must be encoded, so the texts and the encoder must be there
                load_encoder(settings.ENCODER)
        return settings

    @property
    def variant(self):
        """Empty for the published settings; else a name for everything that these settings make."""
        usual = Settings()
        if self == replace(usual, **{n: getattr(self, n) for n in ("JOBS", "DASK", "LORA", "SCALES", "TIMES", "OUT")}):
            return ""
        backbone = "" if self.BACKBONE == usual.BACKBONE else f"_{slug(self.BACKBONE)}"
        return f"{slug(self.ENCODER)}{backbone}_seeds-{self.SEEDS.replace(',', '-')}_{self.PROFILE}"

    @property
    def out(self):
        """Where results, tables and figures go; only the published settings write the published ones."""
        return Path(self.OUT) if self.OUT else BUILD / "variants" / self.variant if self.variant else ROOT


def notebooks():
    """The numbered notebooks, in order."""
    return sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


def artefacts(out):
    """Files that notebooks make under ``out``."""
    return sorted(path for folder in ARTEFACTS for path in (out / folder).rglob("*") if path.is_file())


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
    return hashes(files, ROOT) | {"parameters": json.dumps(parameters)}


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
    return reasons


def declared(notebook, settings):
    """The parameters that a notebook declares, of those set here.

    Raises
    ------
    InputError
        If the notebook declares one that is not known.
    """
    values = asdict(settings) | {"OUT": "" if settings.out == ROOT else str(settings.out)}
    return {name: pick("notebook parameter", name, values) for name in papermill.inspect_notebook(notebook)}


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


def paper(settings, which="*"):
    """Run every stale notebook, in order, or those whose names match."""
    where = settings.out
    for notebook in (path for path in notebooks() if fnmatch(path.stem, which)):
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
        made = [path for path in artefacts(where) if before.get(path) != _version(path)]
        write_text(stamp, json.dumps(content | {"outputs": hashes(made, where)}, indent=1))
    if where == ROOT:
        refresh_readme()
    print(f"results, figures and tables: {where}/{{{','.join(ARTEFACTS)}}}")


def refresh_readme():
    """Put the headline table as it was just made into the README."""
    readme = ROOT / "README.md"
    table = (ROOT / "paper/tables/table1_headline.md").read_text(encoding="utf-8").split("\n\n")[0]
    before, _, rest = readme.read_text(encoding="utf-8").partition("<!-- table1 -->")
    _, _, after = rest.partition("<!-- /table1 -->")
    write_text(readme, f"{before}<!-- table1 -->\n{table}\n<!-- /table1 -->{after}")


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


def follows(path):
    """Why a published result file does not follow from what is checked out; empty if it does."""
    frame, kept = results.read(path)
    if path.stem in STUDIES:
        old = frame[frame["made_by"] != digest(made_by(path.stem))[:12]]
        return [f"{len(old)} of {len(frame)} rows were made by other code"] if len(old) else []
    now, reasons = about(grid(path.stem)), []
    known = ("lock",) if path.stem in PUBLISHED_ONLY else ()  # the versions that matter are in ``libraries``
    for part in sorted((kept | now).keys() - known):
        a, b = kept.get(part), now.get(part)
        if isinstance(a, dict) and isinstance(b, dict):
            reasons += [f"{part}: {key} differs" for key in sorted(a | b) if a.get(key) != b.get(key)]
        elif a != b:
            reasons.append(f"{part} differs")
    return reasons


def verify(settings):
    """Rebuild everything beside the published artefacts and compare; name each one that differs."""
    different = 0
    for path in sorted((ROOT / "data/results").glob("*.parquet")):
        if path.stem in (*EXPERIMENTS, *STUDIES):
            for reason in follows(path):
                different += 1
                print(f"{path.relative_to(ROOT)} does not follow from what is checked out: {reason}")
    again = BUILD / "verify"
    shutil.rmtree(again, ignore_errors=True)
    paper(Settings(JOBS=settings.JOBS, OUT=str(again)))
    published, rebuilt = hashes(artefacts(ROOT), ROOT), hashes(artefacts(again), again)
    for name in sorted(published | rebuilt):
        if published.get(name) != rebuilt.get(name):
            different += 1
            kind = "not published" if name not in published else "not rebuilt" if name not in rebuilt else "differs"
            print(f"{name}: {kind}")
    if different:
        raise InputError(f"{different} differences; `make paper` writes what the code that is checked out says")
    print(f"all {len(published)} published artefacts come out byte for byte")


def encode(settings):
    """Encode both datasets anew with the encoder that is set."""
    for name in DATASETS:
        data = embed(name, settings.ENCODER)
        print(f"{path_of(name, settings.ENCODER)}: {len(data.y_train)} + {len(data.y_test)} rows")


def main():
    commands = {"paper": paper, **dict.fromkeys(ANEW, paper), "status": status, "embed": encode, "verify": verify}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=commands)
    parser.add_argument("settings", nargs="*", metavar="NAME=value")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    try:
        which, live = ANEW.get(arguments.command, ("*", {}))
        settings = Settings.parse([*(f"{name}={value}" for name, value in live.items()), *arguments.settings])
        commands[arguments.command](settings, **({"which": which} if live else {}))
    except InputError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped; finished runs are kept, the same command goes on from there")


if __name__ == "__main__":
    main()
