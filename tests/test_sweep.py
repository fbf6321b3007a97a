"""A sweep gives the same bytes however it is run, stopped and resumed, and says what failed."""

import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ocrrlib import results, sweep, workers
from ocrrlib.errors import InputError
from ocrrlib.experiments import Run
from ocrrlib.files import ROOT
from ocrrlib.metrics import final

# Every family, everything random, two scenarios and two policies.
SYSTEMS = ("static_knn", "static_linear", "a_gem", "knn_lm", "river_logreg", "substrate", "bounded_reservoir_100")
RUNS = [
    Run("tiny", "drawn at random", policy, seed, system, cap=20)
    for policy in ("oracle", "random50")
    for seed in (1, 0)
    for system in SYSTEMS
]

# Sweeps pickled runs into a results file; killed on its way when told how many runs it may finish.
DRIVER = """
import os, pickle, signal, sys
from ocrrlib import results, sweep, workers

if __name__ == "__main__":
    job, out, cache, lives = sys.argv[1:]
    move, moved = os.replace, []

    def move_or_die(source, target):  # with the next run's file written, but not in its place
        if len(moved) == int(lives):
            os.kill(os.getpid(), signal.SIGKILL)
        moved.append(target)
        move(source, target)

    if lives != "all":
        os.replace = move_or_die
    with open(job, "rb") as file:
        runs, datasets = pickle.load(file)
    frame, _ = sweep.sweep(runs, datasets, cache=cache, progress=False)
    results.write(frame, {}, out)
"""


@pytest.fixture(scope="module")
def datasets(tiny):
    return {"tiny": tiny}


@pytest.fixture(scope="module")
def reference(datasets, tmp_path_factory):
    """The results of all runs, done one after the other without any cache: frame and file."""
    frame, _ = sweep.sweep(RUNS, datasets, cache=None, progress=False)
    return frame, as_bytes(frame, tmp_path_factory.mktemp("reference"))


def as_bytes(frame, folder):
    results.write(frame, {}, folder / "results.parquet")
    return (folder / "results.parquet").read_bytes()


@pytest.fixture
def counted(monkeypatch):
    """The systems that are really run, in this process, one after the other."""
    ran, stream = [], sweep.run_stream

    def counting(system, scenario, policy):
        ran.append(type(getattr(system, "system", system)).__name__)  # beneath the one that answers ahead
        return stream(system, scenario, policy)

    monkeypatch.setattr(sweep, "run_stream", counting)
    return ran


def drive(folder, datasets, cache, lives="all", **environment):
    """Run the driver in a process of its own; its exit status and its results file."""
    (folder / "driver.py").write_text(DRIVER)
    with open(folder / "job.pickle", "wb") as file:
        pickle.dump((RUNS, datasets), file)
    command = [sys.executable, "driver.py", "job.pickle", "out.parquet", str(cache), lives]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done, folder / "out.parquet"


# --- one result, whoever computes it


def test_results_are_one_row_per_checkpoint_in_the_order_of_the_runs(reference):
    frame, _ = reference
    columns = ["dataset", "encoder", "policy", "seed", "system", "step", "corrections", "novel_acc", "original_acc"]
    assert list(frame.columns) == columns + ["stored_entries", "storage_bytes"]  # no time, no machine
    per_run = frame.groupby(columns[:5], sort=False)
    assert list(per_run.groups) == [(r.dataset, r.encoder, r.policy, r.seed, r.system) for r in RUNS]
    for _, run in per_run:
        assert run["step"].iloc[0] == 0 and run["step"].is_monotonic_increasing
        assert run["corrections"].is_monotonic_increasing
    assert frame["novel_acc"].between(0, 1).all() and frame["novel_acc"].nunique() > 5


def test_the_order_of_runs_decides_the_order_of_rows_and_nothing_else(datasets, reference):
    frame, _ = sweep.sweep(RUNS[::-1], datasets, cache=None, progress=False)
    assert frame["system"].iloc[0] == RUNS[-1].system
    order = ["policy", "seed", "system", "step"]
    ours, theirs = (f.sort_values(order, ignore_index=True) for f in (frame, reference[0]))
    pd.testing.assert_frame_equal(ours, theirs, check_exact=True)


def test_a_run_alone_gives_what_it_gives_among_others(datasets, reference):
    run = RUNS[-1]
    frame, _ = sweep.sweep([run], datasets, cache=None, progress=False)
    pd.testing.assert_frame_equal(frame, reference[0].tail(len(frame)).reset_index(drop=True), check_exact=True)


def test_two_workers_give_the_bytes_of_one_and_fill_the_same_cache(datasets, reference, tmp_path, counted):
    frame, seconds = sweep.sweep(RUNS, datasets, jobs=2, cache=tmp_path / "runs", progress=False)
    assert as_bytes(frame, tmp_path) == reference[1]
    assert len(seconds) == len(RUNS) and all(s > 0 for s in seconds)
    frame, again = sweep.sweep(RUNS, datasets, jobs=1, cache=tmp_path / "runs", progress=False)
    assert as_bytes(frame, tmp_path) == reference[1]
    assert again == seconds and counted == []  # found again, not repeated


@pytest.mark.parametrize("hashseed", ["0", "1"])
def test_results_and_cache_keys_do_not_depend_on_pythons_hash_seed(datasets, reference, tmp_path, counted, hashseed):
    done, out = drive(tmp_path, datasets, tmp_path / "runs", PYTHONHASHSEED=hashseed)
    assert done.returncode == 0, done.stderr
    assert out.read_bytes() == reference[1]
    sweep.sweep(RUNS, datasets, cache=tmp_path / "runs", progress=False)
    assert counted == []  # all found again


def test_a_dask_cluster_of_two_processes_gives_the_same_bytes(datasets, reference, tmp_path):
    distributed = pytest.importorskip("distributed", reason="Dask is optional")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        frame, _ = sweep.sweep(RUNS, datasets, dask=cluster.scheduler_address, cache=tmp_path / "runs", progress=False)
        with distributed.Client(cluster) as client:
            loaded = client.run(lambda: "ocrrlib.sweep" in sys.modules)
    assert as_bytes(frame, tmp_path) == reference[1]
    assert any(loaded.values())  # it was the workers who ran


# --- stopping and resuming


def test_a_killed_sweep_goes_on_where_it_was_and_ends_the_same(datasets, reference, tmp_path, counted):
    cache = tmp_path / "runs"
    done, out = drive(tmp_path, datasets, cache, lives="5")
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not out.exists()
    frame, _ = sweep.sweep(RUNS, datasets, cache=cache, progress=False)
    assert len(counted) == len(RUNS) - 5
    pd.testing.assert_frame_equal(frame, reference[0], check_exact=True)
    assert as_bytes(frame, tmp_path) == reference[1]


def test_a_finished_run_is_not_repeated(datasets, tmp_path, counted):
    first, seconds = sweep.sweep(RUNS[:3], datasets, cache=tmp_path, progress=False)
    assert len(counted) == 3
    frame, again = sweep.sweep(RUNS[2:5] + RUNS[:1], datasets, cache=tmp_path, progress=False)
    assert len(counted) == 5  # two of the four were new
    assert again[0] == seconds[2] and again[3] == seconds[0]
    pd.testing.assert_frame_equal(
        frame[frame["system"] == RUNS[0].system].reset_index(drop=True),
        first[first["system"] == RUNS[0].system],
        check_exact=True,
    )


def test_without_a_cache_every_run_is_repeated(datasets, counted):
    for _ in range(2):
        sweep.sweep(RUNS[:2], datasets, cache=None, progress=False)
    assert len(counted) == 4


@pytest.mark.parametrize(
    "damage",
    [lambda text: text[: len(text) // 2], lambda text: text.replace('"step": 0', '"step": 1', 1)],
    ids=["truncated", "a flipped digit"],
)
def test_a_damaged_entry_is_reported_and_its_run_repeated_with_the_same_result(datasets, tmp_path, counted, damage):
    whole, _ = sweep.sweep(RUNS[:4], datasets, cache=tmp_path, progress=False)
    entry = sorted(path for path in tmp_path.rglob("*.json"))[0]
    entry.write_text(damage(entry.read_text()))
    with pytest.warns(UserWarning, match="damaged: its run is repeated"):
        frame, _ = sweep.sweep(RUNS[:4], datasets, cache=tmp_path, progress=False)
    assert len(counted) == 5
    pd.testing.assert_frame_equal(frame, whole, check_exact=True)
    sweep.sweep(RUNS[:4], datasets, cache=tmp_path, progress=False)  # mended: no warning, no run
    assert len(counted) == 5


def test_changed_data_are_run_anew(datasets, tiny, tmp_path, counted):
    sweep.sweep(RUNS[:1], datasets, cache=tmp_path, progress=False)
    sweep.sweep(RUNS[:1], {"tiny": replace(tiny, y_test=tiny.y_test[::-1])}, cache=tmp_path, progress=False)
    assert len(counted) == 2


# --- failures


def test_a_failing_run_is_named_and_finished_ones_stay(datasets, tmp_path, counted, monkeypatch):
    runs = [replace(RUNS[0], system=system) for system in ("static_knn", "substrate", "knn_lm")]
    make = sweep.make

    def fails(name, seed, encoder):
        if name == "knn_lm":
            raise ZeroDivisionError("no temperature")
        return make(name, seed, encoder)

    monkeypatch.setattr(sweep, "make", fails)
    with pytest.raises(RuntimeError) as caught:
        sweep.sweep(runs, datasets, cache=tmp_path, progress=False)
    assert repr(runs[2]) in str(caught.value) and "no temperature" in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)

    monkeypatch.setattr(sweep, "make", make)
    counted.clear()
    sweep.sweep(runs, datasets, cache=tmp_path, progress=False)
    assert counted == ["KNNLM"]


def test_a_run_that_fails_in_a_worker_is_named_too(tiny):
    broken = {"tiny": replace(tiny, X_train=tiny.X_train * 0)}
    with pytest.raises(InputError, match="run failed: Run.*'tiny'.*row 0 is zero"):
        sweep.sweep(RUNS, broken, jobs=2, cache=None, progress=False)


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(system="substrat"), "unknown system 'substrat' .*'substrate'.*there are: static_knn, .*substrate"),
        (dict(policy="oracel"), "unknown policy 'oracel' .*there are: oracle, random50, random10"),
        (dict(dataset="banking"), "unknown dataset 'banking'; there are: tiny"),
        (dict(draw="stale"), "unknown draw 'stale'; there are: fresh, continued"),
        (dict(cap=0), "cap of 0"),
        (dict(seed=-1), "seed -1"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_run_that_cannot_be_is_an_input_error(datasets, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        sweep.sweep([replace(RUNS[0], **changes)], datasets, cache=tmp_path, progress=False)


def test_a_grid_with_one_unknown_name_runs_nothing(datasets, tmp_path, counted):
    with pytest.raises(InputError):
        sweep.sweep([*RUNS[:3], replace(RUNS[0], system="none")], datasets, cache=tmp_path / "runs", progress=False)
    assert counted == [] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("jobs", [0, -1])
def test_less_than_one_job_is_an_input_error(datasets, jobs):
    with pytest.raises(InputError, match=f"{jobs} jobs .*at least 1"):
        sweep.sweep(RUNS[:1], datasets, jobs=jobs, cache=None, progress=False)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nowhere", "smoke://signals"])
def test_an_address_without_a_dask_scheduler_is_an_input_error_naming_it(datasets, monkeypatch, address):
    pytest.importorskip("distributed", reason="Dask is optional")
    monkeypatch.setattr(workers, "PATIENCE", 0.5)
    with pytest.raises(InputError, match=f"no Dask scheduler answers at {address}: start one"):
        sweep.sweep(RUNS[:1], datasets, dask=address, cache=None, progress=False)


def test_dask_asked_for_but_not_installed_says_how_to_get_it(datasets, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match="pip install 'dask\\[distributed\\]'"):
        sweep.sweep(RUNS[:1], datasets, dask="tcp://127.0.0.1:8786", cache=None, progress=False)


def test_right_answers_add_up_to_the_last_accuracies(tmp_path, datasets):
    finished = sweep.finish(RUNS[:4], datasets, cache=tmp_path, progress=False)
    right = sweep.right_answers(RUNS[:4], finished)
    assert right.equals(sweep.right_answers(RUNS[:4], sweep.finish(RUNS[:4], datasets, cache=tmp_path, progress=False)))
    frame, _ = sweep.sweep(RUNS[:4], datasets, cache=tmp_path, progress=False)
    for row, last in zip(right.itertuples(), final(frame).itertuples()):
        assert (row.system, row.seed, row.policy) == (last.system, last.seed, last.policy)
        bits = np.unpackbits(np.frombuffer(row.right, np.uint8), count=row.n_novel + row.n_original)
        novel, original = np.split(bits, [row.n_novel])
        assert (novel.mean(), original.mean()) == (last.novel_acc, last.original_acc)
