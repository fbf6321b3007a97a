"""All parallel work goes to a Dask cluster of two processes, too, and comes out the same."""

import sys

import pandas as pd
import pytest

from ocrrlib.crossed_plan import cross
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import PROFILES
from ocrrlib.stream_plan import run_cells
from ocrrlib.streams import Cell
from ocrrlib.systems import SYSTEMS
from ocrrlib.tasks import Task, run_tasks
from ocrrlib.tuning.rated import accuracies

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
    cells = [Cell(system, seed, **PROFILES["quick"]) for seed in (0, 1) for system in ("ncm", "substrate")]
    done = run_cells(cells, cache=None, progress=False, dask=there("ocrrlib.streams"))
    assert done == run_cells(cells, cache=None, progress=False)


def test_the_crossed_study(tiny, there):
    what = dict(systems=["substrate"], dataset="tiny", draws=2, orders=2, coins=2, data=tiny, cache=None)
    done = cross(**what, progress=False, dask=there("ocrrlib.crossed"))
    pd.testing.assert_frame_equal(done, cross(**what, progress=False))


def test_the_search_for_settings(there):
    plan = [(SYSTEMS["ncm"], "banking77", policy, 1000) for policy in ("oracle", "random10")]
    how = dict(encoder=DEFAULT_ENCODER, jobs=1, cache=None, progress=False)
    assert accuracies(plan, **how, dask=there("ocrrlib.tuning.held_out")) == accuracies(plan, **how)
