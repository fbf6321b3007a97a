"""The command that makes the numbers of a card's cell again."""

import shlex

from ocrrlib.datasets import DATASETS
from ocrrlib.own_data.sources import IN_MEMORY


def repeat(card, cell):
    """The command as text; what it cannot name is in capitals. None for data that no file or name stands for."""
    system, data, words = card["system"], cell["dataset"], ["ocrr", "card"]
    words.append(system.get("registry") or system.get("given") or _importable(system) or "MODULE:NAME")
    if IN_MEMORY in data.get("sources", {}):
        return None
    if "split" in data:
        words += ["--data", *data["sources"]]
        words += _given(data, "columns", text="--text", label="--label")
        words += _given(data, "split", column="--split", test_share="--test-share", seed="--split-seed")
    elif data["name"] in DATASETS:
        words += ["--dataset", data["name"]]
    else:
        return None
    encoder = cell["encoder"]
    if encoder["name"] != "vectors":
        # a function's name is made of its module, its name and a hash of what it does
        known = encoder["revision"] is None or not encoder["revision"].startswith(
            encoder["name"].rpartition("-")[0] + " "
        )
        words += ["--encoder", encoder["name"] if known else "ENCODER"]
    seeds = ",".join(map(str, cell["seeds"]))
    words += ["--policy", cell["policy"], "--held-out", str(cell["held_out"]), "--seeds", seeds]
    words += ["--every", str(cell["every"])] if "every" in cell else []
    called = system.get("registry") or system.get("factory", "").rpartition(":")[2] or system["class"]
    words += ["--name", system["name"]] if system["name"] != called else []
    return shlex.join([*words, "--out", "again.json"])


def _importable(system):
    """``module:name`` of what made a system, if that is at the top of a module that can be imported."""
    module, _, name = system.get("factory", "").partition(":")
    return f"{module}:{name}" if name.isidentifier() and module != "__main__" else ""


def _given(data, part, **options):
    """Options for what a part of the card says, in their order."""
    said = data.get(part, {})
    return [
        word for name, option in options.items() if said.get(name) is not None for word in (option, str(said[name]))
    ]
