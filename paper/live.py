"""What the page needs on which the benchmark runs in the reader's browser."""

import base64
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors import safe_open

from ocrrlib.embeddings import Embedded, load, path_of
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import OURS, SUBSTRATE
from ocrrlib.files import ROOT, write_text
from ocrrlib.metrics import best_known_and_new
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import PAPER_CAP, make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from ocrrlib.tasks import CACHE, Task, run_tasks

DATASET = "banking77"
SYSTEMS = (SUBSTRATE, OURS)
LIVE_SEEDS = range(5)
LIVE_HELD_OUT = (2, 5, 10)  # with more, a run takes longer than one likes to wait
TESTS = {"all": None, "capped": PAPER_CAP}  # test rows of an axis
FIRST = dict(seed=0, held_out=10)  # the run that the page opens with, under FIRST_POLICY
FIRST_POLICY = "oracle"
POINT_EVERY = 25  # stream items
MOST_LEAD = 99  # where only a new class, or only a known one, is possible
REQUESTS = ROOT / "data/requests.csv"


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


def nearest(data: Embedded) -> np.ndarray:
    """Place (m, C) uint8, among the training rows of a class, of the one nearest to each row.

    Rows are those of training, then of tests. Classes have fewer than 256 training rows.
    """
    X = np.concatenate([data.X_train, data.X_test]).astype(np.float64)
    places = np.empty((len(X), len(data.classes)), np.uint8)
    for label in range(len(data.classes)):
        members = data.X_train[data.y_train == label].astype(np.float64)
        places[:, label] = (X @ members.T).argmax(axis=1)
    return places


def fitted(seed: int, held_out: int) -> dict:
    """What the proposed system fits to the initial rows, for the page to go on from.

    ``weights`` are alpha, beta, rho, sigma and eta, ``head`` weights (K, d), then biases (K,) in
    base64, float32. Means and covariance are soon computed; the page does that itself.
    """
    drawn = make_scenario(load(DATASET), seed, held_out=held_out)
    system = make(OURS, seed).fit(drawn.X_initial, drawn.y_initial, drawn.classes)
    head = np.concatenate([system.head[:, :-1].ravel(), system.head[:, -1]])
    return {"weights": [*system.apart, *system.among], "head": base64_of(head, "<f4")}


def readers() -> dict[str, dict]:
    """``fitted`` of each seed and number of held-out classes, by ``seed/held out``."""
    tasks = [
        Task({"seed": seed, "held_out": held_out}, (seed, held_out))
        for seed in LIVE_SEEDS
        for held_out in LIVE_HELD_OUT
    ]
    found = run_tasks(fitted, tasks, os.cpu_count() or 1, CACHE, progress=False)
    return {f"{task.key['seed']}/{task.key['held_out']}": one for task, one in zip(tasks, found)}


def first_run(sentences: bool) -> dict:
    """A finished run, which the page shows at once: points, items and leads, as it would make them.

    ``sentences`` says whether the page has an encoder for texts of the reader's own.
    """
    data = load(DATASET)
    drawn = make_scenario(data, cap=None, **FIRST)
    policy = POLICIES[FIRST_POLICY]
    points = []
    given = []
    for name in SYSTEMS:
        system = make(name, FIRST["seed"])
        checkpoints = [*run_stream(system, drawn, policy, POINT_EVERY)]
        points.append([point_of(one) for one in checkpoints])
        given.append(checkpoints[-1].given)
    answers = np.stack(given, axis=1)
    coins = policy.draws(drawn.seed, len(answers))
    corrected = (answers != drawn.y_stream[:, None]) & coins[:, None]
    near = neighbours(drawn, corrected[:, 0])
    rows = make_scenario(numbered(data), cap=None, **FIRST).queries[:, 0]
    items = [
        dict(truth=truth, answers=said, corrected=due, votes=votes, near=entries)
        for truth, said, due, (votes, entries) in zip(
            drawn.y_stream.tolist(), answers.tolist(), corrected.tolist(), near
        )
    ]
    return {
        "classes": data.classes,
        "held": drawn.held_out.tolist(),
        "rows": rows[: len(items)].tolist(),
        "n": len(items),
        "tests": [len(drawn.y_novel), len(drawn.y_original)],
        "points": [*zip(*points)],
        "items": items,
        "leads": leads(system, drawn),
        "requests": pd.read_csv(REQUESTS)["text"].tolist(),
        "sentences": sentences,
    }


def point_of(checkpoint) -> dict:
    """What the page shows of a checkpoint."""
    return {
        "step": checkpoint.step,
        "corrections": checkpoint.corrections,
        "novel": checkpoint.novel_acc,
        "original": checkpoint.original_acc,
    }


def neighbours(drawn, corrected) -> list[tuple[int, list]]:
    """How many of the nearest entries of each item vote, and these: cosine, class, row number.

    Row numbers are those of the stream, from 1; 0 is an entry that was known from the start.
    """
    system = make(SUBSTRATE).fit(drawn.X_initial, drawn.y_initial, drawn.classes)
    places = [0] * len(drawn.y_initial)
    found = []
    for i, (x, y) in enumerate(zip(drawn.X_stream, drawn.y_stream)):
        cosines, slots = system.entries.nearest(x[None], system.k)
        votes = int((cosines[0] >= cosines[0, 0] - system.margin).sum())
        entries = [
            [round(cosine, 4), int(system.entries.y[slot]), places[slot]]
            for cosine, slot in zip(cosines[0].tolist(), slots[0].tolist())
        ]
        found.append((votes, entries))
        if corrected[i]:
            system.correct(x, int(y))
            places.append(i + 1)
    return found


def leads(system, drawn) -> list[list[float]]:
    """Leads of the best new class over the best known one, of test rows that can be right.

    First of novel rows whose best new class is theirs, then of original ones whose best known class
    is; a threshold above or below makes them right.
    """
    tests = np.concatenate([drawn.X_novel, drawn.X_original])
    truth = np.concatenate([drawn.y_novel, drawn.y_original])
    log_p = system.watch(tests).log_probabilities(np.arange(len(tests)))
    new = np.isin(np.arange(len(drawn.classes)), drawn.held_out)
    known, other, lead = best_known_and_new(log_p, new)
    n = len(drawn.y_novel)
    lead = np.clip(np.round(lead, 4), -MOST_LEAD, MOST_LEAD)
    novel = lead[:n][other[:n] == truth[:n]]
    original = lead[n:][known[n:] == truth[n:]]
    return [novel.tolist(), original.tolist()]


def content() -> dict:
    """All that a run needs: embeddings as committed, scenarios, policies, what is fitted.

    ``embeddings`` has float16 values of training rows, then of test rows, ``nearest`` the uint8 of
    that function, both in base64. Of ``labels``, class ids of these rows, the first ``train`` are
    for training.
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
        "readers": readers(),
        "nearest": base64_of(nearest(data), "u1"),
        "embeddings": base64_of(halves, "<f2"),
    }


def base64_of(values: np.ndarray, dtype: str) -> str:
    """The bytes of values of a type."""
    return base64.b64encode(values.astype(dtype).tobytes()).decode()


def write_script(path: Path, name: str, value: object) -> None:
    """Write a value as a script; a page that is opened from a folder cannot fetch JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, f"window.{name} = {json.dumps(value, separators=(',', ':'))};\n")


def write(folder: Path, sentences: bool) -> None:
    """Write what the page opens with, and what its runs need, into a folder."""
    write_script(folder / "live-first.js", "ocrrFirst", first_run(sentences))
    write_script(folder / "live-data.js", "ocrr", content())
