"""Execute one numbered notebook with papermill: what `make` calls.

    python -m notebooks.run [NAME=value ...] NOTEBOOK TARGET
    python -m notebooks.run check [GOAL ...] [NAME=value ...]
    python -m notebooks.run embed ENCODER=value

``check`` refuses what goals of `make` do not take or cannot use, before anything runs.
"""

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import nbformat
import papermill
from jupyter_client import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from ocrrlib.files import ROOT, InputError, pick

SOURCES = ("published", "live")  # as committed, or run now
OUTCOME = ("ENCODER", "SEEDS", "PROFILE", "BACKBONE", "BEYOND_SEEDS")
OTHER = ("JOBS", "DASK", "SCALES", "LORA", "TIMES", "BEYOND")
NOTEBOOK = (*OUTCOME, *OTHER, "OUT")  # parameters of a notebook
GOAL = (*OUTCOME, *OTHER, "O")  # and of a goal of `make`, unless it is one of these
TAKEN = {"embed": ("ENCODER",), "arxiv": OTHER}
TAKEN |= dict.fromkeys(("paper/ocrr.pdf", "paper/supplement.pdf"), OTHER)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_names(settings: dict[str, str], names: Iterable[str]) -> None:
    """Raise ``InputError`` for a parameter that is not one of these."""
    for name in settings:
        pick("parameter", name, dict.fromkeys(names))


def jobs_of(settings: dict[str, str]) -> int:
    """Number of processes; raise ``InputError`` if it is none."""
    jobs = settings.get("JOBS", "1")
    if jobs.isdecimal() and int(jobs):
        return int(jobs)
    raise InputError(f"JOBS={jobs} is out of range: give a number of processes from 1 up")


def check(settings: dict[str, str], goals: Iterable[str] = ()) -> None:
    """Raise ``InputError``, in one line, for parameters that the goals cannot use."""
    # Not needed to execute a notebook, and slow to import.
    from ocrrlib.datasets import DATASETS, load_texts
    from ocrrlib.embeddings import path_of
    from ocrrlib.encoders import load_backbone, load_encoder, load_tokeniser
    from ocrrlib.experiments import PROFILES, parse_seeds
    from ocrrlib.tasks import connect
    from studies.scale import LIVE, cells, check_memory

    check_names(settings, GOAL)
    for goal in goals:
        check_names(settings, TAKEN.get(goal, GOAL))
    jobs_of(settings)
    if "O" in settings and Path(settings["O"]).resolve() in (ROOT, ROOT / "build"):
        raise InputError(f"O={settings['O']} holds published runs: give a folder of its own")
    for name in ("SEEDS", "BEYOND_SEEDS"):
        parse_seeds(settings.get(name, "0"))
    pick("profile", settings.get("PROFILE", "paper"), PROFILES)
    for name in ("LORA", "TIMES", "BEYOND"):
        pick(f"value of {name}", settings.get(name, "live"), dict.fromkeys(SOURCES))
    if settings.get("DASK"):
        connect(settings["DASK"]).close()
    scales = cells(settings.get("SCALES", LIVE), settings.get("PROFILE", "paper"))
    check_memory(max((cell.n for cell in scales), default=0))
    encoder = settings.get("ENCODER")
    for dataset in DATASETS if encoder else ():
        # Otherwise it will be encoded: texts and encoder must be there.
        if not path_of(dataset, encoder).exists():
            load_encoder(encoder, load_texts(dataset).train)
    backbone = settings.get("BACKBONE")
    if backbone:
        load_tokeniser(backbone)
        load_backbone(backbone)


def embed(encoder: str) -> None:
    """Encode the datasets' texts into their files."""
    from ocrrlib import embeddings
    from ocrrlib.datasets import DATASETS

    for name in DATASETS:
        data = embeddings.embed(name, encoder)
        print(f"{embeddings.path_of(name, encoder)}: {len(data.y_train)} + {len(data.y_test)} rows")


class Kernel(AsyncKernelManager):
    """A kernel that is interrupted with the build only.

    One that has just answered would log an interrupt as an error.
    """

    async def _async_interrupt_kernel(self):
        if isinstance(sys.exception(), KeyboardInterrupt):
            await super()._async_interrupt_kernel()


def execute(notebook: Path, settings: dict[str, str], target: Path) -> None:
    """Execute a notebook into ``target``, with those of the settings that it declares.

    Raises ``InputError``, and leaves no target, if a cell fails or the kernel dies, and if there is
    no such notebook or the target is beside sources; ``OSError`` if the notebook cannot be written,
    as on a full disk.
    """
    sources = (notebook.resolve().parent, ROOT / "notebooks")
    if target.suffix != ".ipynb" or target.resolve().parent in sources:
        place = f"build/notebooks/{notebook.name}"
        raise InputError(f"{target} cannot be a target: give another folder's, as {place}")
    if notebook.suffix != ".ipynb" or not notebook.is_file():
        raise InputError(f"there is no notebook {notebook}: give a .ipynb file")
    try:
        declared = papermill.inspect_notebook(notebook)
    except (ValueError, nbformat.ValidationError) as error:
        raise InputError(f"{notebook} is no notebook that can be executed") from error
    own = {name: value for name, value in settings.items() if name in declared}
    if "JOBS" in own:
        own["JOBS"] = jobs_of(own)
    target.unlink(missing_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    print(f"{notebook.stem} ...", flush=True)
    # Sockets in a folder of their own instead of ports: kernels cannot collide.
    with (
        tempfile.TemporaryDirectory() as sockets,
        tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as folder,
    ):
        running = Path(folder) / notebook.name
        transport = Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}})
        how = dict(
            kernel_name="python3",
            kernel_manager_class=Kernel,
            config=transport,
            stderr_file=sys.stderr,
        )
        try:
            papermill.execute_notebook(notebook, running, own, cwd=ROOT, progress_bar=False, **how)
        except PapermillExecutionError as error:
            failed = ROOT / "build/failed" / notebook.name
            failed.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(running, failed)
            cells = nbformat.read(notebook, as_version=4).cells
            place = 1 + [cell.source for cell in cells].index(error.source)
            raise InputError(
                f"{notebook.name}, cell {place}: {error.ename}: {error.evalue}\n"
                f"  the notebook as far as it came: {failed.relative_to(ROOT)}"
            ) from error
        except DeadKernelError as error:
            raise InputError(
                f"{notebook.name}: the kernel was killed, perhaps for lack of memory: try JOBS=1"
            ) from error
        os.replace(running, target)


def run(words: list[str], settings: dict[str, str]) -> None:
    """Check, embed or execute, as the command's words and settings say."""
    if words[:1] == ["check"]:
        check(settings, words[1:])
    elif words == ["embed"]:
        check_names(settings, TAKEN["embed"])
        if not settings.get("ENCODER"):
            raise InputError("embed needs an encoder: give ENCODER=name")
        embed(settings["ENCODER"])
    elif len(words) == 2:
        check_names(settings, NOTEBOOK)
        execute(Path(words[0]), settings, Path(words[1]))
    else:
        raise InputError("give a notebook and its target, or check, or embed ENCODER=name")


def main() -> None:
    # A path may have a "=", too.
    given = [word for word in sys.argv[1:] if word.partition("=")[0].isidentifier() and "=" in word]
    words = [word for word in sys.argv[1:] if word not in given]
    try:
        run(words, dict(word.split("=", 1) for word in given))
    except InputError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        way_out = "; make room and run it again" if error.errno in FULL else ""
        sys.exit(f"error: {' '.join(words)}: {error}{way_out}")
    except KeyboardInterrupt:
        sys.exit("stopped; finished runs are kept, the same command goes on from there")


if __name__ == "__main__":
    main()
