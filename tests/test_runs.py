"""Runs give the same bytes however they are run, stopped and resumed; published files hold them; bad input is named."""

import errno
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ocrrlib import files, runs, tasks
from ocrrlib.experiments import EXPERIMENTS, PROFILES, Run, check_runs, grid, parse_seeds
from ocrrlib.files import ROOT, InputError, atomic, write_text
from ocrrlib.metrics import RUN, final
from ocrrlib.runs import checkpoints, publish_study, published, read_about, read_results, right_answers, run_grid, sweep
from ocrrlib.tasks import Task, run_tasks

# Every family, everything random, two scenarios and two policies.
SYSTEMS = ("static_knn", "static_linear", "a_gem", "knn_lm", "river_logreg", "substrate", "bounded_reservoir_100")
RUNS = [
    Run("tiny", "drawn at random", policy, seed, system, cap=20)
    for policy in ("oracle", "random50")
    for seed in (1, 0)
    for system in SYSTEMS
]
# Runs a pickled grid into a results file; is killed when it would write another finished run than so many.
DRIVER = """
import os, pickle, signal, sys
from ocrrlib import runs, tasks

if __name__ == "__main__":
    job, out, cache, lives = sys.argv[1:]
    keep, kept = tasks._keep, []

    def keep_or_die(*args):
        if len(kept) == int(lives):
            os.kill(os.getpid(), signal.SIGKILL)
        kept.append(keep(*args))

    tasks._keep = keep_or_die
    with open(job, "rb") as file:
        grid, datasets = pickle.load(file)
    runs.write_results(runs.sweep(grid, datasets, cache=cache, progress=False), out)
"""


@pytest.fixture(scope="module")
def datasets(tiny):
    return {"tiny": tiny}


@pytest.fixture(scope="module")
def reference(datasets, tmp_path_factory):
    """The results of all runs, one after the other and without any cache: frame and file."""
    frame = sweep(RUNS, datasets, cache=None, progress=False)
    return frame, as_bytes(frame, tmp_path_factory.mktemp("reference"))


def as_bytes(frame, folder):
    runs.write_results(frame, folder / "results.parquet")
    return (folder / "results.parquet").read_bytes()


@pytest.fixture
def ran(monkeypatch):
    """The systems that are really run, in this process, one after the other."""
    systems, make = [], runs.make
    monkeypatch.setattr(runs, "make", lambda name, *more: systems.append(name) or make(name, *more))
    return systems


def drive(folder, datasets, cache, lives=10**6, **environment):
    """Run the driver in a process of its own; its exit status and its results file."""
    (folder / "driver.py").write_text(DRIVER)
    with open(folder / "job.pickle", "wb") as file:
        pickle.dump((RUNS, datasets), file)
    command = [sys.executable, "driver.py", "job.pickle", "out.parquet", str(cache), str(lives)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True), folder / "out.parquet"


# --- one result, whoever computes it


def test_results_are_one_row_per_checkpoint_in_the_order_of_the_runs(reference):
    frame, _ = reference
    assert list(frame.columns[:5]) == RUN and not {"seconds", "date", "machine"} & set(frame.columns)
    per_run = frame.groupby(RUN, sort=False)
    assert list(per_run.groups) == [tuple(getattr(run, name) for name in RUN) for run in RUNS]
    for _, run in per_run:
        assert run["step"].iloc[0] == 0 and run["step"].is_monotonic_increasing
        assert run["corrections"].is_monotonic_increasing
    assert frame["novel_acc"].between(0, 1).all() and frame["novel_acc"].nunique() > 5


def test_a_run_alone_gives_what_it_gives_among_others(datasets, reference):
    frame = sweep(RUNS[-1:], datasets, cache=None, progress=False)
    pd.testing.assert_frame_equal(frame, reference[0].tail(len(frame)).reset_index(drop=True), check_exact=True)


def test_two_workers_give_the_bytes_of_one_and_fill_the_same_cache(datasets, reference, tmp_path, ran):
    assert as_bytes(sweep(RUNS, datasets, 2, cache=tmp_path / "runs", progress=False), tmp_path) == reference[1]
    assert as_bytes(sweep(RUNS, datasets, 1, cache=tmp_path / "runs", progress=False), tmp_path) == reference[1]
    assert ran == []  # found again, not repeated


@pytest.mark.parametrize("hashseed", ["0", "1"])
def test_results_and_cache_keys_do_not_depend_on_pythons_hash_seed(datasets, reference, tmp_path, ran, hashseed):
    done, out = drive(tmp_path, datasets, tmp_path / "runs", PYTHONHASHSEED=hashseed)
    assert done.returncode == 0, done.stderr
    assert out.read_bytes() == reference[1]
    sweep(RUNS, datasets, cache=tmp_path / "runs", progress=False)
    assert ran == []


@pytest.mark.slow
def test_a_dask_cluster_of_two_processes_gives_the_same_bytes(datasets, reference, tmp_path):
    distributed = pytest.importorskip("distributed", reason="Dask is optional")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        frame = sweep(RUNS, datasets, dask=cluster.scheduler_address, cache=tmp_path / "runs", progress=False)
        with distributed.Client(cluster) as client:
            loaded = client.run(lambda: "ocrrlib.runs" in sys.modules)
    assert as_bytes(frame, tmp_path) == reference[1] and any(loaded.values())  # it was the workers who ran
    assert as_bytes(sweep(RUNS, datasets, cache=tmp_path / "runs", progress=False), tmp_path) == reference[1]


def test_right_answers_add_up_to_the_last_accuracies(datasets):
    finished = run_grid(RUNS[:4], datasets, cache=None, progress=False)
    last = final(checkpoints(RUNS[:4], finished))
    for row, end in zip(right_answers(RUNS[:4], finished).itertuples(), last.itertuples()):
        bits = np.unpackbits(np.frombuffer(row.right, np.uint8), count=row.n_novel + row.n_original)
        novel, original = np.split(bits, [row.n_novel])
        assert (row.system, novel.mean(), original.mean()) == (end.system, end.novel_acc, end.original_acc)


# --- stopping and resuming


def test_a_killed_sweep_goes_on_where_it_was_and_ends_the_same(datasets, reference, tmp_path, ran):
    done, out = drive(tmp_path, datasets, tmp_path / "runs", lives=5)
    assert done.returncode == -signal.SIGKILL and not out.exists()
    frame = sweep(RUNS, datasets, cache=tmp_path / "runs", progress=False)
    assert len(ran) == len(RUNS) - 5 and as_bytes(frame, tmp_path) == reference[1]


def test_a_damaged_entry_is_reported_and_its_run_repeated(datasets, tmp_path, ran):
    whole = sweep(RUNS[:4], datasets, cache=tmp_path, progress=False)
    entry = sorted(tmp_path.rglob("*.json"))[0]
    entry.write_text(entry.read_text()[:-20])
    with pytest.warns(UserWarning, match="damaged: its run is repeated"):
        frame = sweep(RUNS[:4], datasets, cache=tmp_path, progress=False)
    assert len(ran) == 5
    pd.testing.assert_frame_equal(frame, whole, check_exact=True)


@pytest.mark.parametrize("module, is_run_again", [("systems/base.py", True), ("scenario.py", True), ("cli.py", False)])
def test_whoever_edits_the_benchmark_or_a_system_is_not_shown_old_runs(tmp_path, monkeypatch, module, is_run_again):
    for name in ("systems/base.py", "scenario.py", "cli.py"):
        write_text(tmp_path / "ocrrlib" / name, "x = 1\n")
    monkeypatch.setattr(tasks, "__file__", str(tmp_path / "ocrrlib/tasks.py"))
    tasks._code.cache_clear()
    before = tasks._code(None)
    write_text(tmp_path / "ocrrlib" / module, "x = 2\n")
    tasks._code.cache_clear()
    assert (tasks._code(None) != before) == is_run_again
    tasks._code.cache_clear()


def test_changed_data_and_declared_versions_are_run_anew(datasets, tiny, tmp_path, ran, monkeypatch):
    sweep(RUNS[:1], datasets, cache=tmp_path, progress=False)
    sweep(RUNS[:1], {"tiny": replace(tiny, y_test=tiny.y_test[::-1])}, cache=tmp_path, progress=False)
    assert len(ran) == 2
    monkeypatch.setitem(runs.SYSTEMS, "static_knn", replace(runs.SYSTEMS["static_knn"], version=2))
    sweep(RUNS[:1], datasets, cache=tmp_path, progress=False)
    assert len(ran) == 3


# --- tasks


def square(x):
    if x == 5:
        raise InputError("5 is odd: give an even number")
    if x == 7:
        raise ZeroDivisionError("no seven")
    return {"x": x, "square": x * x}


@pytest.mark.parametrize("jobs", [1, 2, 1000])
def test_results_come_in_the_order_of_their_tasks_and_each_key_is_done_once(jobs, tmp_path):
    given = [Task({"x": x}, (x,), group=x % 2) for x in (3, 1, 2, 3)]
    assert run_tasks(square, given, jobs, tmp_path, progress=False) == [square(x) for x in (3, 1, 2, 3)]
    assert len(list(tmp_path.rglob("*.json"))) == 3


@pytest.mark.parametrize(
    "x, kind, said", [(5, InputError, "{'x': 5}: 5 is odd"), (7, RuntimeError, "{'x': 7}: no seven")]
)
def test_a_failing_task_is_named_and_finished_ones_stay(tmp_path, x, kind, said):
    with pytest.raises(kind, match=f"run failed: {said}"):
        run_tasks(square, [Task({"x": 2}, (2,)), Task({"x": x}, (x,))], 1, tmp_path, progress=False)
    assert len(list(tmp_path.rglob("*.json"))) == 1


@pytest.mark.parametrize(
    "how, said",
    [(dict(jobs=0), "0 jobs .*at least 1"), (dict(dask="tcp://127.0.0.1:1"), "no Dask scheduler answers at tcp")],
)
def test_workers_that_cannot_be_are_refused(how, said, monkeypatch):
    monkeypatch.setattr(tasks, "PATIENCE", 0.5)
    with pytest.raises(InputError, match=said):
        run_tasks(square, [Task({}, (1,))], cache=None, progress=False, **how)


@pytest.mark.parametrize(
    "changes, said",
    [
        (dict(system="substrat"), "unknown system 'substrat' .*'substrate'"),
        (dict(policy="oracel"), "unknown policy 'oracel' .*oracle"),
        (dict(dataset="banking"), "unknown dataset 'banking'; there are: tiny"),
        (dict(draw="stale"), "unknown draw 'stale'; there are: fresh, continued"),
    ],
)
def test_a_grid_with_one_run_that_cannot_be_runs_nothing(datasets, tmp_path, ran, changes, said):
    with pytest.raises(InputError, match=said):
        sweep([replace(RUNS[0], **changes)], datasets, cache=tmp_path, progress=False)
    assert ran == []


# --- grids


@pytest.mark.parametrize(
    "name, size, draw", [("full_sweep", 162, "fresh"), ("storage_pareto", 36, "continued"), ("beyond", 3120, "fresh")]
)
def test_grids_have_the_papers_sizes_without_repeats(name, size, draw):
    found = grid(name)
    check_runs(found)
    assert len(found) == len(set(found)) == size and {run.draw for run in found} == {draw}
    assert {run.cap for run in found} == {None if name == "beyond" else 400}
    quick = grid(name, profile="quick")
    assert all(run.cap == PROFILES["quick"]["cap"] and run.thin > 1 for run in quick) and len(quick) == size


@pytest.mark.parametrize("given", ["0,1,2", "0-2", " 0, 1 - 2", [0, 1, 2], range(3), np.arange(3)])
def test_seeds_are_read_from_text_and_sequences(given):
    assert parse_seeds(given) == (0, 1, 2)


@pytest.mark.parametrize(
    "given", ["a", "2-0", "0-1-2", "", "0,,1", "0,0", "0-2,1", "-1", str(2**32), "0-99999999999", None]
)
def test_seeds_that_are_no_list_of_different_integers_are_refused(given):
    with pytest.raises(InputError, match="seeds .*integers"):
        parse_seeds(given)


# --- files


def test_published_results_are_read_back_and_the_same_content_gives_the_same_bytes(tmp_path, reference):
    frame, raw = reference
    runs.write_results(frame, tmp_path / "a.parquet", {"data": {"tiny": "00"}})
    again = read_results(tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(again, frame, check_exact=True)
    assert read_about(tmp_path / "a.parquet") == {"data": {"tiny": "00"}, "protocol": 1}
    assert as_bytes(frame, tmp_path) == raw


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "data/results").glob("*.parquet")))
def test_no_published_byte_names_code(name):
    frame, about = published(name), read_about(ROOT / f"data/results/{name}.parquet")
    assert not {"made_by", "code"} & {*frame.columns, *about}
    if name.removesuffix("_rows") in EXPERIMENTS:
        assert set(about["systems"]) == set(frame["system"])


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-9], lambda raw: raw[:300] + b"\0\0\0" + raw[303:], lambda raw: b"x"]
)
def test_a_damaged_results_file_is_named(tmp_path, reference, damage):
    (tmp_path / "a.parquet").write_bytes(damage(reference[1]))
    with pytest.raises(InputError, match=r"a\.parquet is damaged"):
        read_results(tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"b\.parquet is missing"):
        read_results(tmp_path / "b.parquet")


def test_fresh_rows_of_a_study_replace_published_ones_and_the_others_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "ROOT", tmp_path)
    monkeypatch.setattr(runs, "_path", lambda name, out=tmp_path: out / f"{name}.parquet")

    def write(*rows, **more):
        return publish_study("growth", pd.DataFrame(rows, columns=["system", "entries", "us"]), tmp_path, **more)

    write(("substrate", 1000, 1.0), ("substrate", 100, 2.0), keep=False)
    joined = write(("substrate", 1000, 3.0), ("hnsw", 100, 4.0))
    assert joined.to_numpy().tolist() == [["hnsw", 100, 4.0], ["substrate", 100, 2.0], ["substrate", 1000, 3.0]]
    about = read_about(tmp_path / "growth.parquet")
    assert (
        about.keys() == {"protocol", "machine", "libraries", "date"} and about["libraries"]["numpy"] == np.__version__
    )


def test_a_rerun_of_an_experiment_leaves_the_published_bytes(tmp_path):
    runs.run_experiment("vote_ablation", jobs=2, out=tmp_path, cache=tmp_path / "runs")
    name = "data/results/vote_ablation.parquet"
    assert (tmp_path / name).read_bytes() == (ROOT / name).read_bytes()


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_a_failed_write_leaves_the_old_file_whole_and_nothing_beside_it(tmp_path, failure):
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(failure), atomic(tmp_path / "a.txt") as temporary:
        temporary.write_text("half of the n")
        assert [path.name for path in tmp_path.glob("*.txt")] == ["a.txt"]  # a reader does not see it
        raise failure
    assert (tmp_path / "a.txt").read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_what_a_killed_write_left_goes_with_a_later_write(tmp_path):
    left = tmp_path / ".a.txt.killed~"
    left.mkdir()
    os.utime(left, (0, 0))
    write_text(tmp_path / "a.txt", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_two_writers_of_one_file_leave_one_of_the_two_versions(tmp_path):
    with atomic(tmp_path / "a.txt") as first, atomic(tmp_path / "a.txt") as second:
        first.write_text("first")
        second.write_text("second")
    assert (tmp_path / "a.txt").read_text() == "first" and len(list(tmp_path.iterdir())) == 1  # the last to finish


def test_a_full_disk_is_one_line_with_the_files_name(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(InputError, match=r"^cannot write .*a\.txt: No space left on device.*$"):
        write_text(tmp_path / "a.txt", "text")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a.txt").touch()
    with pytest.raises(InputError, match=r"cannot write .*b\.txt"):
        write_text(tmp_path / "a.txt/b.txt", "text")
