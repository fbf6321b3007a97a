import pytest

from ocrrlib.errors import InputError
from ocrrlib.tasks import run_tasks

KEYS = ["a" * 64, "b" * 64, "c" * 64]


def square(x):
    return {"x": x, "square": x * x}


def refuse(x):
    raise AssertionError("it is kept")


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_the_order_of_their_tasks_whatever_the_workers(jobs, tmp_path):
    tasks = [(3,), (1,), (2,)]
    expected = [square(*task) for task in tasks]
    assert run_tasks(square, tasks, KEYS, jobs, tmp_path, progress=False) == expected
    assert run_tasks(refuse, tasks, KEYS, jobs, tmp_path, progress=False) == expected


def test_what_was_finished_before_a_failure_is_not_done_again(tmp_path):
    def stop(x):
        if x == 2:
            raise KeyboardInterrupt
        return square(x)

    with pytest.raises(KeyboardInterrupt):
        run_tasks(stop, [(1,), (2,), (3,)], KEYS, 1, tmp_path, progress=False)
    with pytest.raises(RuntimeError, match="run failed: two: it is kept"):
        run_tasks(refuse, [(1,), (2,)], KEYS[:2], 1, tmp_path, progress=False, names=["one", "two"])
    assert run_tasks(refuse, [(1,)], KEYS[:1], 1, tmp_path, progress=False) == [square(1)]


def test_a_task_that_comes_twice_is_done_once(tmp_path):
    calls = []
    found = run_tasks(lambda x: calls.append(x) or x, [(1,), (1,)], ["d" * 64] * 2, cache=None, progress=False)
    assert found == [1, 1] and calls == [1]


def test_tasks_that_belong_together_are_done_in_a_row_and_results_stay_in_order():
    calls = []
    tasks, groups = [(number,) for number in range(45)], [number % 2 for number in range(45)]
    keys = [f"{number:064}" for number in range(45)]
    found = run_tasks(lambda x: calls.append(x) or x, tasks, keys, progress=False, together=groups, most=10)
    assert found == list(range(45)) and calls == [*range(0, 45, 2), *range(1, 45, 2)]


def test_no_workers_are_refused():
    with pytest.raises(InputError, match="0 jobs are too few"):
        run_tasks(square, [], [], jobs=0)


def test_what_is_long_starts_first_and_what_belongs_together_stays_so():
    calls = []
    tasks, keys = [(number,) for number in range(6)], [f"{number:064}" for number in range(6)]
    found = run_tasks(
        lambda x: calls.append(x) or x,
        tasks,
        keys,
        progress=False,
        together=["short", "long", "short", "long", "middling", "short"],
        cost=[1, 5, 1, 5, 7, 1],
        most=2,
    )
    assert found == list(range(6)) and calls == [1, 3, 4, 0, 2, 5]


def test_a_task_that_cannot_use_what_it_was_given_says_so_in_one_line():
    def picky(x):
        raise InputError("1 is odd: give an even number")

    with pytest.raises(InputError, match="run failed: number 0: 1 is odd: give an even number"):
        run_tasks(picky, [(1,)], KEYS[:1], progress=False)


def test_tasks_go_to_a_dask_cluster_and_are_kept_here(tmp_path):
    distributed = pytest.importorskip("distributed", reason="Dask is optional")
    tasks = [(3,), (1,), (2,)]
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        found = run_tasks(square, tasks, KEYS, cache=tmp_path, progress=False, dask=cluster.scheduler_address)
    assert found == [square(*task) for task in tasks]
    assert run_tasks(refuse, tasks, KEYS, cache=tmp_path, progress=False) == found
