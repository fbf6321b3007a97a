"""What each published artefact came from, and which of them no longer follow from what is checked out."""

import ast
import json
import shutil

import nbformat

from notebooks.run import artefacts, hashes, inputs, notebooks, run_stale, stamp_path
from notebooks.settings import BUILD, Settings
from notebooks.typeset import SOURCES, typeset
from ocrrlib import results
from ocrrlib.errors import InputError
from ocrrlib.experiments import EXPERIMENTS, PUBLISHED_ONLY, grid
from ocrrlib.files import ROOT, sha256, write_text
from ocrrlib.provenance import closure, digest
from ocrrlib.publish import LOCK, STUDIES, about, made_by

MANIFEST = "paper/provenance.json"
# Made before a change of code that leaves them as they are; each goes when it is run anew.
OLDER = {
    "lora": "since then the loop can deliver corrections late; the run of `lora`, seed 0, was repeated: the same rows",
}
OF_THE_PAPER = ("paper/ocrr.pdf",)


def origin(notebook, settings):
    """What a notebook's artefacts come from: hashes of code, data and lock; parameters, seeds among them."""
    given, code = inputs(notebook, settings), "\n".join(_code(notebook))
    imports = {
        name
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and node.module.startswith("ocrrlib")
        for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        if name != "ocrrlib" and _is_module(name)
    }
    data = {name: value for name, value in given.items() if name.startswith(("data/", "paper/"))}
    return {
        "parameters": json.loads(given["parameters"]),
        "source": digest(code),
        "code": {module: value[:12] for module, value in closure(*sorted(imports))[0].items()},
        "data": data,
        "lock": given["requirements.lock"],
    }


def origins(settings):
    """The same for all notebooks by name, and for the paper, which is set from what they made."""
    own = [path for path in sorted((ROOT / "paper").glob("*.*")) if path.suffix in (".py", ".typ", ".html", ".tex")]
    paper = {
        "parameters": {},
        "source": digest(hashes([ROOT / "paper" / name for name in SOURCES], ROOT)),
        "code": {path.name: sha256(path)[:12] for path in own if path.stem != "ocrr"},
        "data": {},
        "lock": sha256(LOCK),
    }
    return {notebook.stem: origin(notebook, settings) for notebook in notebooks()} | {"paper": paper}


def _code(notebook):
    return [cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]


def _is_module(name):
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def record(settings):
    """Write what every artefact under ``settings.out`` came from, as the last build has left it."""
    made = {"paper": hashes([settings.out / name for name in OF_THE_PAPER], settings.out)}
    for notebook in notebooks():
        made[notebook.stem] = json.loads(stamp_path(notebook, settings).read_text(encoding="utf-8"))["outputs"]
    manifest = {name: about | {"made": made[name]} for name, about in origins(settings).items()}
    write_text(settings.out / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def changes(settings):
    """Why published artefacts may not be what would be made now: reasons by notebook, the paper among them."""
    manifest, found = json.loads((ROOT / MANIFEST).read_text(encoding="utf-8")), {}
    for name, now in origins(settings).items():
        kept = manifest.get(name, {"made": {}})
        reasons = differences(kept, now)
        reasons += [f"{path} is not as it was made" for path in _not_as_made(kept["made"])]
        if reasons:
            found[name] = reasons
    return found


def _not_as_made(made):
    here = hashes([path for name in made if (path := ROOT / name).exists()], ROOT)
    return [name for name, value in made.items() if here.get(name) != value]


def differences(kept, now):
    """What differs between two accounts of where something came from."""
    reasons = []
    for part in sorted(now):
        a, b = kept.get(part), now[part]
        if isinstance(a, dict) and isinstance(b, dict):
            reasons += [f"{part}: {key} differs" for key in sorted(a | b) if a.get(key) != b.get(key)]
        elif a != b:
            reasons.append(f"{part} differs")
    return reasons


def follows(path):
    """Why a published result file does not follow from what is checked out; empty if it does."""
    frame, kept = results.read(path)
    if path.stem in STUDIES:
        old = frame[frame["made_by"] != digest(made_by(path.stem))[:12]]
        return [f"{len(old)} of {len(frame)} rows were made by other code"] if len(old) else []
    now = about(grid(path.stem))
    if path.stem in PUBLISHED_ONLY:
        now.pop("lock")  # the versions that matter are in ``libraries``
    return differences(kept, now)


def verify(settings):
    """Say what may not follow and why; then rebuild everything beside the published artefacts and compare.

    Raises
    ------
    InputError
        If anything published does not follow, or is not what comes out now.
    """
    different = 0
    for path in sorted((ROOT / "data/results").glob("*.parquet")):
        if path.stem in (*EXPERIMENTS, *STUDIES):
            for reason in follows(path):
                different += path.stem not in OLDER
                known = f" (known: {OLDER[path.stem]})" if path.stem in OLDER else ""
                print(f"{path.relative_to(ROOT)} does not follow from what is checked out: {reason}{known}")
    for name, reasons in changes(Settings(JOBS=settings.JOBS)).items():
        print(f"what {name} made may not follow: {'; '.join(reasons)}", flush=True)
    again = Settings(JOBS=settings.JOBS, OUT=str(BUILD / "verify"))
    shutil.rmtree(again.out, ignore_errors=True)
    run_stale(again)
    typeset(again.out)
    published, rebuilt = hashes(artefacts(ROOT), ROOT), hashes(artefacts(again.out), again.out)
    for name in sorted(published | rebuilt):
        if published.get(name) != rebuilt.get(name):
            different += 1
            kind = "not published" if name not in published else "not rebuilt" if name not in rebuilt else "differs"
            print(f"{name}: {kind}")
    if different:
        raise InputError(f"{different} differences; `make paper` writes what the code that is checked out says")
    print(f"all {len(published)} published artefacts come out byte for byte")
