"""Runs give the same bytes however they are run, stopped and resumed; files hold them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest

from notebooks import output
from ocrrlib import runs, tasks
from ocrrlib.experiments import Run, grid, parse_names, parse_seeds
from ocrrlib.files import ROOT, InputError, atomic, write_text
from ocrrlib.metrics import DATASET_POLICY_SYSTEM, RUN, final, summary
from ocrrlib.runs import read_about, read_results, run_grid, same_fit, sweep
from ocrrlib.scenario import make_scenario
from ocrrlib.tasks import Task, run_tasks
from studies import grids
from studies.costs import GROWTH
from tests.samples import git

# Every family, everything random, two scenarios and two policies.
SYSTEMS = (
    "static_knn",
    "static_linear",
    "a_gem",
    "knn_lm",
    "river_logreg",
    "substrate",
    "bounded_reservoir_100",
)
RUNS = [
    Run("tiny", "drawn at random", policy, seed, system, cap=20)
    for policy in ("oracle", "random50")
    for seed in (1, 0)
    for system in SYSTEMS
]
FITS = set(map(same_fit, RUNS))


@pytest.fixture(scope="module")
def datasets(tiny):
    return {"tiny": tiny}


@pytest.fixture(scope="module")
def reference(datasets):
    """The results of all runs, one after the other and without any cache."""
    return sweep(RUNS, datasets, cache=None, progress=False)


@pytest.fixture
def ran(monkeypatch):
    """The systems that are really run, in this process, one after the other."""
    systems = []
    make = runs.make
    monkeypatch.setattr(runs, "make", lambda name, *more: systems.append(name) or make(name, *more))
    return systems


def assert_same(frame, expected):
    pd.testing.assert_frame_equal(
        frame.reset_index(drop=True), expected.reset_index(drop=True), check_exact=True
    )


# --- one result, whoever computes it


def test_results_are_one_row_per_checkpoint_in_the_order_of_the_runs(reference):
    assert list(reference.columns[:5]) == RUN and not {"seconds", "date", "machine"} & set(
        reference.columns
    )
    per_run = reference.groupby(RUN, sort=False)
    assert list(per_run.groups) == [tuple(run.names.values()) for run in RUNS]
    for _, run in per_run:
        assert run["step"].iloc[0] == 0 and run["step"].is_monotonic_increasing
        assert run["corrections"].is_monotonic_increasing
    assert reference["novel_acc"].between(0, 1).all() and reference["novel_acc"].nunique() > 5


def test_two_workers_give_the_results_of_one_and_fill_the_same_cache(
    datasets, reference, tmp_path, ran
):
    assert_same(sweep(RUNS, datasets, jobs=2, cache=tmp_path, progress=False), reference)
    assert_same(sweep(RUNS, datasets, jobs=1, cache=tmp_path, progress=False), reference)
    assert ran == []  # found again, not repeated


@pytest.mark.slow
def test_a_dask_cluster_of_two_processes_gives_the_same_results(datasets, reference, tmp_path):
    distributed = pytest.importorskip("distributed", reason="Dask is optional")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        frame = sweep(
            RUNS, datasets, dask=cluster.scheduler_address, cache=tmp_path, progress=False
        )
        with distributed.Client(cluster) as client:
            loaded = client.run(lambda: "ocrrlib.runs" in sys.modules)
    assert_same(frame, reference)
    assert any(loaded.values())  # the workers ran
    assert len(list(tmp_path.iterdir())) == len(FITS)  # the cache is here


def test_policies_of_one_fit_come_out_as_if_each_was_fitted_alone(datasets, reference):
    alone = [sweep([run], datasets, cache=None, progress=False) for run in RUNS]
    assert_same(pd.concat(alone), reference)


def test_right_answers_and_heights_add_up_to_the_last_accuracies_and_areas(datasets):
    checkpoints, rows = run_grid(RUNS[:4], datasets, cache=None, progress=False)
    for row, end in zip(rows.itertuples(), final(checkpoints).itertuples()):
        assert summary(np.frombuffer(row.heights, "<i4"), row.n_original) == {
            "ausuc": end.ausuc,
            "best_hm": end.best_hm,
        }
        bits = np.unpackbits(np.frombuffer(row.right, np.uint8), count=row.n_novel + row.n_original)
        novel, original = np.split(bits, [row.n_novel])
        assert (row.system, novel.mean(), original.mean()) == (
            end.system,
            end.novel_acc,
            end.original_acc,
        )


def test_the_joint_fit_is_that_of_all_training_rows(tiny, datasets):
    checkpoints, _ = run_grid(
        [replace(RUNS[0], policy="joint", system="ncm", cap=None)], datasets, cache=None
    )
    system = runs.make("ncm", 1).fit(tiny.X_train, tiny.y_train, tiny.classes)
    s = make_scenario(tiny, 1, cap=None)
    right = [
        np.mean(system.predict(X) == y)
        for X, y in ((s.X_novel, s.y_novel), (s.X_original, s.y_original))
    ]
    assert checkpoints[["step", "corrections", "novel_acc", "original_acc"]].values.tolist() == [
        [0, 0, *right]
    ]


# --- stopping and resuming


def sweep_until_killed(datasets, cache, lives):
    """Is killed when it would keep another finished run than so many."""
    kept = []
    write = tasks.write_text

    def write_or_die(*args):
        if len(kept) == lives:
            os.kill(os.getpid(), signal.SIGKILL)
        kept.append(write(*args))

    tasks.write_text = write_or_die
    sweep(RUNS, datasets, cache=cache, progress=False)


def test_a_killed_sweep_goes_on_where_it_was_and_ends_the_same(
    datasets, reference, tmp_path, ran, monkeypatch
):
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    process = get_context("spawn").Process(target=sweep_until_killed, args=(datasets, tmp_path, 5))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert_same(sweep(RUNS, datasets, cache=tmp_path, progress=False), reference)
    assert len(ran) == len(FITS) - 5


def test_edited_code_changed_data_and_declared_versions_are_run_anew(
    tiny, tmp_path, ran, monkeypatch
):
    monkeypatch.setattr(tasks, "__file__", str(tmp_path / "tasks.py"))
    monkeypatch.setattr(tasks, "_code", tasks._code.__wrapped__)  # as a new process has it

    def runs_after(data=tiny):
        sweep(RUNS[:1], {"tiny": data}, cache=tmp_path / "runs", progress=False)
        return len(ran)

    write_text(tmp_path / "systems/own.py", "x = 1")
    assert runs_after() == runs_after() == 1
    write_text(tmp_path / "systems/own.py", "x = 2")
    assert runs_after() == 2 and runs_after(replace(tiny, y_test=tiny.y_test[::-1])) == 3
    monkeypatch.setitem(runs.SYSTEMS, "static_knn", replace(runs.SYSTEMS["static_knn"], version=2))
    assert runs_after() == 4


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
    assert run_tasks(square, given, jobs, tmp_path, progress=False) == [
        square(x) for x in (3, 1, 2, 3)
    ]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    "x, kind, said",
    [(5, InputError, "{'x': 5}: 5 is odd"), (7, RuntimeError, "{'x': 7}: no seven")],
)
def test_a_failing_task_is_named_and_finished_ones_stay(tmp_path, x, kind, said):
    with pytest.raises(kind, match=f"run failed: {said}"):
        run_tasks(square, [Task({"x": 2}, (2,)), Task({"x": x}, (x,))], 1, tmp_path, progress=False)
    assert len(list(tmp_path.iterdir())) == 1


def tampered(path):
    """Another digit, in a result that is JSON all the same."""
    text = path.read_text()
    path.write_text(text.replace('"square": 9', '"square": 8'))
    assert path.read_text() != text


def halved(path):
    path.write_bytes(path.read_bytes()[:20])


def swapped(path):
    (other,) = set(path.parent.iterdir()) - {path}
    path.write_bytes(other.read_bytes())


def of_an_earlier_version(path):
    path.write_text('{"x": 3, "square": 8}')


@pytest.mark.parametrize("change", [tampered, halved, swapped, of_an_earlier_version])
def test_a_kept_result_that_is_not_as_it_was_written_is_computed_again(tmp_path, change):
    given = [Task({"x": x}, (x,)) for x in (2, 3)]
    wanted = run_tasks(square, given, 1, tmp_path, progress=False)
    (path,) = [path for path in tmp_path.iterdir() if '"square": 9' in path.read_text()]
    kept = path.read_bytes()
    change(path)
    assert run_tasks(square, given, 1, tmp_path, progress=False) == wanted
    assert path.read_bytes() == kept


def slow_square(x):
    time.sleep(0.1)
    return square(x)


def killed(x, kept):
    if x == 3:
        while len(list(kept.glob("[!.]*"))) < 2:  # the others are not finished
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def test_a_killed_worker_is_one_line_and_finished_tasks_stay(tmp_path):
    given = [Task({"x": x}, (x, tmp_path)) for x in (1, 2, 3)]
    with pytest.raises(InputError, match="a worker process was lost") as caught:
        run_tasks(killed, given, 2, tmp_path, progress=False)
    assert "\n" not in str(caught.value) and len(list(tmp_path.iterdir())) == 2


STOPPED = """if True:
    from pathlib import Path
    from ocrrlib.tasks import Task, run_tasks
    from test_runs import slow_square

    try:
        tasks = [Task({"x": x}, (x,)) for x in range(10, 1000)]
        run_tasks(slow_square, tasks, 2, Path(), False)
    except KeyboardInterrupt:
        print("stopped")
"""


@pytest.mark.slow
def test_ctrl_c_ends_two_workers_without_a_word_and_finished_tasks_stay(tmp_path):
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while process.poll() is None and len(list(tmp_path.glob("[!.]*"))) < 5:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.communicate() == ("stopped\n", "")
    assert len(list(tmp_path.glob("[!.]*"))) >= 5


@pytest.mark.slow
def test_a_dask_scheduler_lost_in_the_middle_is_one_line_and_finished_tasks_stay(tmp_path):
    Client = pytest.importorskip("distributed", reason="Dask is optional").Client
    file = tmp_path / "scheduler.json"
    kept = tmp_path / "kept"
    kept.mkdir()

    def start(*words):
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        command = [sys.executable, "-m", "dask", *words, "--scheduler-file", file, "--no-dashboard"]
        variables = os.environ | {"PYTHONPATH": path}
        return subprocess.Popen(command, stderr=subprocess.DEVNULL, env=variables)

    def kill_in_the_middle():
        while len(list(kept.glob("[!.]*"))) < 5:
            time.sleep(0.01)
        scheduler.kill()

    scheduler = start("scheduler", "--port", "0")
    worker = start("worker", "--nthreads", "2", "--no-nanny")
    try:
        while not (file.exists() and file.read_text()):  # it is made first, and then written
            time.sleep(0.01)
        address = json.loads(file.read_text())["address"]
        with Client(address) as client:
            client.wait_for_workers(1)
        threading.Thread(target=kill_in_the_middle, daemon=True).start()
        given = [Task({"x": 10 * x}, (10 * x,)) for x in range(200)]
        with pytest.raises(InputError, match="the Dask cluster at tcp.* was lost") as caught:
            run_tasks(slow_square, given, dask=address, cache=kept, progress=False)
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    assert "\n" not in str(caught.value) and len(list(kept.iterdir())) >= 5


@pytest.mark.parametrize(
    "changes, said",
    [
        (dict(system="substrat"), "unknown system 'substrat' .*'substrate'"),
        (dict(dataset="banking"), "unknown dataset 'banking'; there are: tiny"),
        (dict(encoder="other"), "tiny was embedded by 'drawn at random', not by 'other'"),
    ],
)
def test_a_grid_with_one_run_that_cannot_be_runs_nothing(datasets, tmp_path, ran, changes, said):
    with pytest.raises(InputError, match=said):
        sweep([replace(RUNS[0], **changes)], datasets, cache=tmp_path, progress=False)
    assert ran == []


# --- grids


def test_a_row_alone_puts_a_system_into_the_comparison_the_costs_and_the_figures():
    program = """if True:
        from ocrrlib.systems import SYSTEMS
        SYSTEMS["nearest_mean"] = SYSTEMS["ncm_cosine"]
        from ocrrlib.experiments import COMPARED, STRONGER
        from paper.style import family_colour
        from studies.costs import MEASURED_SYSTEMS
        joined = ["nearest_mean" in names for names in (COMPARED, STRONGER, MEASURED_SYSTEMS)]
        print(*joined, family_colour("nearest_mean") == family_colour("ncm"))
    """
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    assert said.split() == ["True", "False", "True", "True"]


def test_a_grid_is_everything_against_everything_in_the_order_of_result_files():
    found = grid(["a", "b"], ["oracle"], ["ncm", "slda"], "0-1", cap=None, held_out=20)
    places = [(run.dataset, run.seed, run.system) for run in found]
    assert places == list(product("ab", (0, 1), ("ncm", "slda")))
    assert {(run.cap, run.held_out) for run in found} == {(None, 20)}


def test_a_grid_that_holds_out_more_classes_has_more_novel_test_rows(datasets):
    few, more = (
        run_grid([replace(RUNS[0], cap=None, held_out=n)], datasets, cache=None, progress=False)[1]
        for n in (5, 10)
    )
    assert few["n_novel"].item() < more["n_novel"].item()


def test_systems_that_read_sentences_need_a_grid_of_their_own():
    with pytest.raises(InputError, match="a grid of their own"):
        runs.datasets_of(grid(["banking77"], ["oracle"], ["ncm", "lora"], [0]))


THREE = ["0,1,2", "0-2", " 0, 1 - 2", [0, 1, 2], ["0", "1-2"], range(3), np.arange(3)]


@pytest.mark.parametrize("given", THREE)
def test_seeds_are_read_from_text_and_sequences(given):
    assert parse_seeds(given) == (0, 1, 2)


@pytest.mark.parametrize("given", [7, np.int64(7), "7", " 7", "7-7", [7], ["7"], (7,)])
def test_one_whole_number_is_a_seed(given):
    assert parse_seeds(given) == (7,) and type(parse_seeds(given)[0]) is int


NO_SEEDS = ["a", "2-0", "3-", "", "0-2,1", "-1", "0-99999999999", "[0]", "0.0"]
NO_SEEDS += [-1, 2**32, 0.0, True, None, [], [0, 0], [True], [0.5], [[0]], np.array(0.5)]


@pytest.mark.parametrize("given", NO_SEEDS)
def test_what_is_no_list_of_different_integers_is_refused_in_a_line(given):
    with pytest.raises(InputError, match="seeds .*integers") as caught:
        parse_seeds(given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", ["a", " a ", ["a"], ("a",)])
def test_one_name_is_a_list_of_names(given):
    assert parse_names(given) == ["a"] and parse_names("a, b") == parse_names(["a", "b"])


# --- files


def test_results_are_read_back_and_the_same_content_gives_the_same_bytes(tmp_path, reference):
    for name in ("a", "b"):
        runs.write_results(reference, tmp_path / name, {"data": {"tiny": "00"}})
    assert_same(read_results(tmp_path / "a"), reference)
    assert read_about(tmp_path / "a") == {"data": {"tiny": "00"}, "protocol": 1}
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_damaged_or_missing_results_file_is_named(tmp_path, reference):
    runs.write_results(reference, tmp_path / "a.parquet")
    raw = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(raw[:300] + b"\0\0\0" + raw[303:])
    with pytest.raises(InputError, match=r"a\.parquet is damaged"):
        read_results(tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"b\.parquet is missing"):
        read_results(tmp_path / "b.parquet")


def test_fresh_rows_of_a_study_replace_published_ones_and_the_others_stay(tmp_path, monkeypatch):
    for module in ("ocrrlib.runs", "studies.results"):
        monkeypatch.setattr(f"{module}.path_of", lambda name, out=tmp_path: out / f"{name}.parquet")

    def write(*rows, **more):
        fresh = pd.DataFrame(rows, columns=["system", "entries", "us"])
        return GROWTH.publish(fresh, tmp_path, **more)

    write(("substrate", 1000, 1.0), ("substrate", 100, 2.0), keep=False)
    joined = write(("substrate", 1000, 3.0), ("hnsw", 100, 4.0))
    assert joined.to_numpy().tolist() == [
        ["hnsw", 100, 4.0],
        ["substrate", 100, 2.0],
        ["substrate", 1000, 3.0],
    ]
    about = read_about(tmp_path / "growth.parquet")
    assert about.keys() == {"protocol", "machine", "libraries", "date", "kept"}
    assert about["libraries"]["numpy"] == np.__version__
    assert about["kept"].keys() == {"protocol", "machine", "libraries", "date"}
    write(("hnsw", 1, 1.0), keep=False)
    assert "kept" not in read_about(tmp_path / "growth.parquet")


def test_only_systems_that_are_declared_otherwise_than_published_run_again(tmp_path, monkeypatch):
    name = "beyond_tfidf"
    there = [runs.published(name) for name in ("beyond_tfidf", "beyond_tfidf_rows")]
    asked = []

    def run_grid(new, datasets, **how):
        asked.extend(new)
        return [part[part["system"] == "slda"] for part in there]

    monkeypatch.setattr(grids, "run_grid", run_grid)
    monkeypatch.setitem(runs.SYSTEMS, "slda", replace(runs.SYSTEMS["slda"], version=99))
    found = grids.run_again(name, grids.published_runs(name), tmp_path)
    assert {run.system for run in asked} == {"slda"} and len(asked) == 3 * 3 * 20
    for one, other in zip(found, there):
        assert_same(one, other)
    assert_same(read_results(runs.path_of("beyond_tfidf_rows", tmp_path)), there[1])


@pytest.mark.parametrize("out", ["", ".", "docs", "build/..", "notebooks", str(ROOT), "build/lab"])
def test_a_notebook_run_by_hand_never_writes_to_published_folders(out, capsys, monkeypatch):
    monkeypatch.delenv("OCRR_BY_MAKE", raising=False)
    folder = output.output_folder(out)
    assert folder == ROOT / "build/lab" and f"writes to {folder}" in capsys.readouterr().out


def test_make_writes_published_files_and_those_of_variants(tmp_path, monkeypatch):
    assert output.output_folder(tmp_path) == tmp_path  # by hand, too: it is not the checkout
    monkeypatch.setenv("OCRR_BY_MAKE", "1")
    for out in ("", "build/variants/SEEDS-0/", tmp_path):
        assert output.output_folder(out) == ROOT / out


def test_results_made_by_hand_are_read_before_published_ones_but_not_by_make(tmp_path, monkeypatch):
    monkeypatch.delenv("OCRR_BY_MAKE", raising=False)
    published = output.published("full_sweep", tmp_path)
    assert_same(output.made("full_sweep", tmp_path), published)
    assert not any(tmp_path.iterdir())  # no copy, which would be read when it is out of date
    runs.write_results(published.head(3), runs.path_of("full_sweep", tmp_path))
    assert len(output.made("full_sweep", tmp_path)) == 3
    monkeypatch.setenv("OCRR_BY_MAKE", "1")
    with pytest.raises(InputError, match="lora.parquet is missing"):
        output.made("lora", tmp_path)
    output.published("lora", tmp_path)
    assert_same(output.made("lora", tmp_path), runs.published("lora"))


@pytest.fixture
def committed(tmp_path, monkeypatch, reference):
    """A checkout with results and a table, both committed; the results and the table."""
    table = pd.DataFrame({"system": ["ncm", "slda"], "novel": [0.1, np.nan]})
    runs.write_results(reference, runs.path_of("grid", tmp_path))
    (tmp_path / "paper/tables").mkdir(parents=True)
    table.to_csv(tmp_path / "paper/tables/table_ends.csv", index=False)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "all")
    monkeypatch.setattr(output, "ROOT", tmp_path)
    return reference, table


@pytest.mark.parametrize("folder", ["", "build/lab"])  # written over, or beside
def test_what_was_made_is_compared_with_what_is_committed(committed, tmp_path, folder):
    results, table = committed
    out = tmp_path / folder
    n = len(results.drop_duplicates(DATASET_POLICY_SYSTEM))

    def said(results, table):
        runs.write_results(results, runs.path_of("grid", out))
        (out / "paper/tables").mkdir(parents=True, exist_ok=True)
        table.to_csv(out / "paper/tables/table_ends.csv", index=False)
        return output.against_published(out, "grid", "table_ends")

    assert said(results, table) == f"All {n + 2} cells of `grid`, `table_ends` are as published."
    fewer = results[results["seed"] == results["seed"].min()]
    rows = f"{len(fewer) + 2} of {len(results) + 2} rows"
    assert said(fewer, table).endswith(f" are as published, with {rows}.")
    is_ours = results["system"] == "substrate"
    other = results.assign(novel_acc=results["novel_acc"] + 1e-12 * is_ours)
    ours = len(results[is_ours].drop_duplicates(DATASET_POLICY_SYSTEM))
    differ = "cells of `grid`, `table_ends` differ from the published."
    assert said(other, table.replace("ncm", "pa")) == f"{ours + 1} of {n + 2} {differ}"
    assert said(results[~is_ours], table) == f"{ours} of {n + 2} {differ}"
    assert said(results, pd.concat([table, table.assign(system="new")])) == f"2 of {n + 4} {differ}"


def test_without_git_what_was_written_over_is_not_called_as_published(committed, tmp_path):
    shutil.rmtree(tmp_path / ".git")
    assert "no committed `table_ends`" in output.against_published(tmp_path, "table_ends")
    shutil.copytree(tmp_path / "paper", tmp_path / "lab/paper")
    assert "All 2 cells" in output.against_published(tmp_path / "lab", "table_ends")


def test_a_checkout_without_a_folder_to_write_to_keeps_runs_in_the_users_cache(tmp_path):
    checkout = tmp_path / "check out"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("ocrrlib", "ocrr", "notebooks"):
        shutil.copytree(ROOT / name, checkout / name, ignore=ignored)
    (checkout / "data").symlink_to(ROOT / "data")
    (checkout / "build").touch()  # no folder: this stops root as well
    home = tmp_path / "home"
    variables = {"HOME": str(home), "XDG_CACHE_HOME": str(home), "PYTHONPATH": str(checkout)}
    unset = ("OCRR_CACHE_DIR", "OCRR_BY_MAKE")
    variables = {n: v for n, v in os.environ.items() if n not in unset} | variables
    program = "from notebooks.output import *; print(cache_folder()); print(output_folder())"
    for command in (["-m", "ocrr", "run", "ncm", "--seeds", "0"], ["-c", program]):
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=variables, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"{home}/ocrr"
    assert done.stdout.splitlines()[-1] == f"{home}/ocrr/lab"
    assert [path for path in (home / "ocrr/own").rglob("*") if path.is_file()]


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_a_failed_write_leaves_the_old_file_whole_and_nothing_beside_it(tmp_path, failure):
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(failure), atomic(tmp_path / "a.txt") as temporary:
        temporary.write_text("half of the n")
        # A reader does not see it.
        assert [path.name for path in tmp_path.glob("*.txt")] == ["a.txt"]
        raise failure
    assert (tmp_path / "a.txt").read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_what_a_killed_write_left_goes_with_a_later_write(tmp_path):
    left = tmp_path / ".a.txt.killed~"
    left.mkdir()
    os.utime(left, (0, 0))
    write_text(tmp_path / "a.txt", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_writes_that_meet_at_one_file_all_succeed(tmp_path):
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(partial(write_text, tmp_path / "a.txt"), ["whole"] * 400))
    assert (tmp_path / "a.txt").read_text() == "whole"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_that_cannot_be_written_is_one_line_with_its_name(tmp_path):
    (tmp_path / "a.txt").touch()
    with pytest.raises(InputError, match=r"^cannot write .*b\.txt.*$"):
        write_text(tmp_path / "a.txt/b.txt", "text")
