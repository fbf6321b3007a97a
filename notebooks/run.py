"""Execute one numbered notebook with papermill: what `make` calls.

python -m notebooks.run [NAME=value ...] notebooks/02_full_sweep.ipynb build/notebooks/02_full_sweep.ipynb
python -m notebooks.run check [NAME=value ...]    refuses what cannot be used, before anything runs
python -m notebooks.run embed ENCODER=value
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
import papermill
from nbclient import output_widget
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from ocrrlib.datasets import DATASETS, load_texts
from ocrrlib.embeddings import embed, path_of
from ocrrlib.encoders import load_encoder
from ocrrlib.experiments import PROFILES, parse_seeds
from ocrrlib.files import ROOT, InputError, pick
from ocrrlib.tasks import connect
from studies.scale import LIVE, cells, check_memory

SOURCES = ("published", "live")  # as committed, or run now
KNOWN = (
    "ENCODER SEEDS PROFILE BACKBONE BEYOND_SEEDS JOBS DASK SCALES LORA TIMES BEYOND TUNE OUT O SAMPLE SEED SECONDS "
    "SYSTEMS ALL"
).split()

# What an output widget shows stays with the client: telling the kernel, too, can lose the reply that the client
# waits for, and then it waits forever (nbclient issue 312).
output_widget.OutputWidget.send = lambda *told: None


def check(settings):
    """Refuse parameters that cannot be used, with one line that says why.

    Raises
    ------
    InputError
    """
    for name in settings:
        pick("parameter", name, dict.fromkeys(KNOWN))
    if not settings.get("JOBS", "1").isdecimal() or int(settings.get("JOBS", 1)) < 1:
        raise InputError(f"JOBS={settings['JOBS']} is out of range: give a number of processes from 1 up")
    for name in ("SEEDS", "BEYOND_SEEDS"):
        parse_seeds(settings.get(name, "0"))
    pick("profile", settings.get("PROFILE", "paper"), PROFILES)
    for name in ("LORA", "TIMES", "BEYOND", "TUNE"):
        pick(f"value of {name}", settings.get(name, "live"), dict.fromkeys(SOURCES))
    if settings.get("DASK"):
        connect(settings["DASK"]).close()
    scales = cells(settings.get("SCALES", LIVE), settings.get("PROFILE", "paper"))
    check_memory(max((cell.n for cell in scales), default=0))
    encoder = settings.get("ENCODER")
    for dataset in DATASETS if encoder else ():
        if not path_of(dataset, encoder).exists():  # it will be encoded: texts and encoder must be there
            load_encoder(encoder, load_texts(dataset).train)


def execute(notebook, settings, target):
    """Execute a notebook into ``target``; on failure leave no target, and say where it failed.

    Raises
    ------
    InputError
        If the notebook declares a parameter that is not known, or a cell fails.
    """
    declared = papermill.inspect_notebook(notebook)
    own = {name: value for name, value in settings.items() if name in declared}
    own |= {name: int(value) for name, value in own.items() if name == "JOBS"}
    target.unlink(missing_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    folders = tempfile.TemporaryDirectory(dir=target.parent, prefix=".running-"), tempfile.TemporaryDirectory()
    print(f"{notebook.stem} ...", flush=True)
    with folders[0] as folder, folders[1] as sockets:
        running = Path(folder) / notebook.name
        # Sockets in a folder of their own instead of ports: kernels cannot collide.
        transport = Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}})
        how = dict(kernel_name="python3", cwd=ROOT, progress_bar=False, stderr_file=sys.stderr, config=transport)
        try:
            papermill.execute_notebook(notebook, running, own, **how)
        except PapermillExecutionError as error:
            failed = ROOT / "build/failed" / notebook.name
            failed.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(running, failed)
            place = 1 + [cell.source for cell in nbformat.read(notebook, as_version=4).cells].index(error.source)
            raise InputError(
                f"{notebook.name}, cell {place}: {error.ename}: {error.evalue}\n"
                f"  the notebook as far as it came: {failed.relative_to(ROOT)}"
            ) from error
        os.replace(running, target)


def main():
    settings = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    words = [word for word in sys.argv[1:] if "=" not in word]
    try:
        if words == ["check"]:
            check(settings)
        elif words == ["embed"]:
            for name in DATASETS:
                data = embed(name, settings["ENCODER"])
                print(f"{path_of(name, settings['ENCODER'])}: {len(data.y_train)} + {len(data.y_test)} rows")
        else:
            execute(Path(words[0]), settings, Path(words[1]))
    except InputError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped; finished runs are kept, the same command goes on from there")


if __name__ == "__main__":
    main()
