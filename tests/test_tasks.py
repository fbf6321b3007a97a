"""Work is done once, in parallel or not, and what is finished is kept."""

import pytest

from ocrrlib.errors import InputError
from ocrrlib.tasks import Task, run_tasks


def square(x):
    return {"x": x, "square": x * x}


def refuse(x):
    raise AssertionError("it is kept")


def task(x, **more):
    return Task((), (x,), f"{x:064}", f"the square of {x}", **more)


TASKS = [task(3), task(1), task(2)]
SQUARES = [square(3), square(1), square(2)]


@pytest.fixture
def calls():
    return []


@pytest.fixture
def noted(calls):
    """A function that notes what it is called with, and gives it back."""
    return lambda x: calls.append(x) or x


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_the_order_of_their_tasks_whatever_the_workers(jobs, tmp_path):
    assert run_tasks(square, TASKS, jobs, tmp_path, progress=False) == SQUARES
    assert run_tasks(refuse, TASKS, jobs, tmp_path, progress=False) == SQUARES


def test_what_was_finished_before_a_failure_is_not_done_again(tmp_path):
    def stop(x):
        if x == 1:
            raise KeyboardInterrupt
        return square(x)

    with pytest.raises(KeyboardInterrupt):
        run_tasks(stop, TASKS, 1, tmp_path, progress=False)
    with pytest.raises(RuntimeError, match="run failed: the square of 1: it is kept"):
        run_tasks(refuse, TASKS[:2], 1, tmp_path, progress=False)
    assert run_tasks(refuse, TASKS[:1], 1, tmp_path, progress=False) == SQUARES[:1]


def test_a_task_that_comes_twice_is_done_once(noted, calls):
    assert run_tasks(noted, [task(1), task(1)], progress=False) == [1, 1] and calls == [1]


def test_tasks_of_one_group_are_done_in_a_row_and_results_stay_in_order(noted, calls):
    tasks = [task(number, group=number % 2) for number in range(45)]
    assert run_tasks(noted, tasks, progress=False, in_a_row=10) == list(range(45))
    assert calls == [*range(0, 45, 2), *range(1, 45, 2)]


def test_what_tasks_have_in_common_comes_first_and_is_each_ones_own_within_a_group():
    tasks = [Task((base,), (x,), f"{base}{x:063}", "", group=1) for base in (2, 3) for x in (1, 2)]
    assert run_tasks(pow, tasks, progress=False) == [2, 4, 3, 9]


def test_no_workers_are_refused():
    with pytest.raises(InputError, match="0 jobs are too few"):
        run_tasks(square, [], jobs=0)


def test_what_is_long_starts_first_and_groups_stay_together(noted, calls):
    groups = ["short", "long", "short", "long", "middling", "short"]
    tasks = [task(x, group=group, cost=cost) for x, (group, cost) in enumerate(zip(groups, [1, 5, 1, 5, 7, 1]))]
    assert run_tasks(noted, tasks, progress=False, in_a_row=2) == list(range(6)) and calls == [1, 3, 4, 0, 2, 5]


def test_a_task_that_cannot_use_what_it_was_given_says_so_in_one_line():
    def picky(x):
        raise InputError("1 is odd: give an even number")

    with pytest.raises(InputError, match="run failed: the square of 1: 1 is odd: give an even number"):
        run_tasks(picky, [task(1)], progress=False)
