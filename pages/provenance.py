"""What every result file, figure and table was made from."""

import json
from types import SimpleNamespace

from ocrrlib import results
from ocrrlib.errors import InputError
from ocrrlib.files import sha256
from ocrrlib.provenance import digest


def read(source):
    """All result files of a checkout by name, with their sizes and the hashes that they carry."""
    lock, shown = source / "requirements.lock", []
    for path in sorted((source / "data/results").glob("*.parquet")):
        frame, about = results.read(path)
        seeds = about.get("seeds") or (sorted({int(s) for s in frame["seed"]}) if "seed" in frame else [])
        facts = {key: about.get(key, {}) for key in ("code", "data", "libraries")}
        facts |= {key: about.get(key, "") for key in ("runs", "parameters", "lock")}
        facts |= {"sha256": sha256(path), "all_code": digest(about.get("code"))}
        facts["same_lock"] = lock.exists() and sha256(lock) == about.get("lock")
        shown.append(SimpleNamespace(name=path.stem, rows=len(frame), seeds=seeds, **facts))
    return shown


def artefacts(source):
    """Everything that notebooks of a checkout made, by file: which one, with what parameters, code and lock.

    Raises
    ------
    InputError
        If the record of it is damaged.
    """
    path, shown = source / "paper/provenance.json", []
    try:
        origins = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for notebook, origin in sorted(origins.items()):
            about = {"notebook": notebook, "lock": origin["lock"], "code": digest([origin["code"], origin["source"]])}
            about["parameters"] = ", ".join(f"{name}={value}" for name, value in origin["parameters"].items())
            shown += [SimpleNamespace(name=name, sha256=value, **about) for name, value in origin["made"].items()]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged ({type(error).__name__}): make it anew with `make paper`") from error
    return shown
