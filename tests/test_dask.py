"""All parallel work goes to a Dask cluster of two processes, too, and comes out the same."""

import sys

import pandas as pd
import pytest

from ocrrlib.systems import SYSTEMS
from ocrrlib.tasks import Task, run_tasks
from studies.streams import run_studies
from studies.tune import accuracies
from studies.variance import cross

distributed = pytest.importorskip("distributed", reason="Dask is optional")


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as found:
        yield found


@pytest.fixture
def there(cluster):
    """The scheduler's address; afterwards, every worker has the module that did the work."""
    modules = []
    yield lambda module: modules.append(module) or cluster.scheduler_address
    with distributed.Client(cluster) as client:
        for module in modules:
            assert any(client.run(lambda name=module: name in sys.modules).values())


def test_what_was_done_there_is_kept_here(tmp_path, there):
    tasks = [Task((2,), (x,), f"{x:064}", str(x)) for x in (3, 1, 2)]
    done = run_tasks(pow, tasks, cache=tmp_path, progress=False, dask=there("ocrrlib.tasks"))
    assert done == [8, 2, 4] == run_tasks(None, tasks, cache=tmp_path, progress=False)


def test_harder_streams(there):
    what = dict(names=("late",), seeds="0,1", profile="quick", cache=None, progress=False)
    pd.testing.assert_frame_equal(run_studies(**what, dask=there("studies.streams")), run_studies(**what))


def test_the_crossed_study(there):
    what = dict(systems=["static_knn"], dataset="banking77", draws=1, orders=2, coins=2, cache=None, progress=False)
    pd.testing.assert_frame_equal(cross(**what, dask=there("studies.variance")), cross(**what))


def test_the_search_for_settings(there):
    plan = [(SYSTEMS["ncm"], "banking77", policy, 1000) for policy in ("oracle", "random10")]
    how = dict(cache=None, progress=False)
    assert accuracies(plan, **how, dask=there("studies.tune")) == accuracies(plan, **how)
