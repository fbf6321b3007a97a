"""What the page needs on which the benchmark runs in the reader's browser."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors import safe_open

from ocrrlib.embeddings import Embedded, load, path_of
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.files import write_text
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import PAPER_CAP, make_scenario

DATASET = "banking77"
LIVE_SEEDS = range(10)
LIVE_HELD_OUT = (2, 5, 10)  # with more, a run takes longer than one likes to wait
DIRECTIONS = 64  # with most of the rows' length: enough to rule out most entries
TESTS = {"all": None, "capped": PAPER_CAP}  # test rows of an axis


def numbered(data: Embedded) -> Embedded:
    """The dataset with row numbers in place of rows, test rows after the others.

    A scenario of it tells which rows it has.
    """
    train = len(data.y_train)
    numbers = np.arange(train + len(data.y_test))[:, None]
    return replace(data, X_train=numbers[:train], X_test=numbers[train:])


def scenarios(data: Embedded) -> dict[str, dict]:
    """Scenarios by ``seed/held out/tests``: held-out classes, and the numbers of rows to predict.

    The first ``n`` of these are the stream, the next ``novel`` the test rows of held-out classes.
    """
    rows = numbered(data)
    found = {}
    for seed in LIVE_SEEDS:
        for held_out in LIVE_HELD_OUT:
            for tests, cap in TESTS.items():
                drawn = make_scenario(rows, seed, cap=cap, held_out=held_out)
                found[f"{seed}/{held_out}/{tests}"] = {
                    "held": drawn.held_out.tolist(),
                    "rows": drawn.queries[:, 0].tolist(),
                    "n": len(drawn.y_stream),
                    "novel": len(drawn.y_novel),
                }
    return found


def coins(longest: int) -> dict[str, list[str]]:
    """A 1 for each stream position that a policy corrects if it is wrong, else 0, by seed.

    ``longest`` is the length of the longest stream; a shorter one has the first of them.
    """
    return {
        name: ["".join(map(str, policy.draws(seed, longest).astype(int))) for seed in LIVE_SEEDS]
        for name, policy in POLICIES.items()
    }


def axes(data: Embedded) -> np.ndarray:
    """Orthonormal rows (DIRECTIONS, d): where most of the training rows' length lies.

    They change no answer: the page's search rules entries out by them, and compares the others.
    """
    X = data.X_train.astype(np.float64)
    _, vectors = np.linalg.eigh(X.T @ X)
    return vectors.T[: -DIRECTIONS - 1 : -1]


def content() -> dict:
    """All that the page knows: embeddings as committed, scenarios and policies.

    ``embeddings`` has float16 values of training rows, then of test rows, ``axes`` float32 ones,
    both in base64. Of ``labels``, class ids of these rows, the first ``train`` are for training.
    """
    data = load(DATASET)
    with safe_open(path_of(DATASET, DEFAULT_ENCODER), "numpy") as file:
        halves = np.concatenate([file.get_tensor("X_train"), file.get_tensor("X_test")])
    drawn = scenarios(data)
    return {
        "classes": data.classes,
        "labels": np.concatenate([data.y_train, data.y_test]).tolist(),
        "train": len(data.y_train),
        "scenarios": drawn,
        "coins": coins(max(one["n"] for one in drawn.values())),
        "axes": base64_of(axes(data), "<f4"),
        "embeddings": base64_of(halves, "<f2"),
    }


def base64_of(values: np.ndarray, dtype: str) -> str:
    """The bytes of values of a type."""
    return base64.b64encode(values.astype(dtype).tobytes()).decode()


def write(path: Path) -> None:
    """Write the content as a script; a page that is opened from a folder cannot fetch JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, f"window.ocrr = {json.dumps(content(), separators=(',', ':'))};\n")
