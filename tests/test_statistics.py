"""All statistics of a sweep in one call, on published results and on made-up ones."""

import numpy as np
import pandas as pd
import pytest

from ocrrlib import results
from ocrrlib.errors import InputError
from ocrrlib.files import ROOT
from ocrrlib.metrics import CELL, LEVELS, RUN, summarise
from studies.target import noninferiority
from studies.statistics import METRICS, accuracies, measure, summary


@pytest.fixture(scope="module")
def published():
    return results.read(ROOT / "data/results/full_sweep.parquet")[0]


@pytest.fixture(scope="module")
def found(published):
    return summary(published, resamples=199)


def test_there_is_one_row_per_cell_metric_and_system(published, found):
    cells = published[CELL].drop_duplicates()
    assert len(found.accuracies) == len(cells) * len(METRICS)
    assert not found.accuracies.duplicated([*CELL, "metric"]).any()
    assert len(found.corrections) == len(cells) * len(LEVELS) and len(found.fronts) == len(cells)


def test_means_are_those_of_the_papers_tables_and_spreads_those_of_a_sample(published, found):
    table = summarise(published).set_index(CELL)
    for metric in ("novel", "original"):
        own = found.accuracies[found.accuracies["metric"] == metric].set_index(CELL).loc[table.index]
        np.testing.assert_allclose(own["mean"], table[metric])
        np.testing.assert_allclose(own["sd"], table[f"{metric}_std"] * np.sqrt(3 / 2), atol=1e-12)
    corrections = found.corrections.pivot(index=CELL, columns="to", values="reached").loc[table.index]
    assert all((corrections[level] == table[f"to_{level}_reached"]).all() for level in LEVELS)


def test_differences_are_those_of_means_and_the_reference_has_none(found):
    table = found.accuracies.set_index(["system", "dataset", "policy", "metric"])
    own = table.loc["substrate"]
    assert own["difference"].isna().all() and own["p_holm"].isna().all()
    for system in ("ewc", "knn_lm"):
        other = table.loc[system].loc[own.index]
        np.testing.assert_allclose(other["difference"], other["mean"] - own["mean"], atol=1e-12)
        assert (other["p"] >= 2 / 2**3).all()  # three seeds cannot say more


def test_bounds_enclose_and_probabilities_are_probabilities(found):
    table = found.accuracies.dropna()
    for name, middle in (("", "mean"), ("difference_", "difference")):
        for kind in ("t", "bca"):
            assert (table[f"{name}{kind}_low"] <= table[middle] + 1e-12).all()
            assert (table[middle] <= table[f"{name}{kind}_high"] + 1e-12).all()
    assert table[["p", "p_holm", "improvement"]].stack().between(0, 1).all()
    assert found.fronts["front_seeds"].between(0, 1).all()


def test_holm_is_within_the_cell_and_metric(published, found):
    cell = published[(published["dataset"] == "clinc150") & (published["policy"] == "oracle")]
    alone = accuracies(measure(cell), resamples=199)
    same = found.accuracies.merge(alone[[*CELL, "metric"]]).reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, same)


def test_what_is_measured_is_one_row_per_run(published):
    runs = measure(published)
    assert len(runs) == len(published[RUN].drop_duplicates()) and set(METRICS) <= set(runs)
    found = noninferiority(runs, "substrate")
    assert set(found["system"]) == set(published["system"]) - {"substrate"}


def test_differences_are_to_the_substrate_which_must_be_there(published, found):
    alone = found.accuracies.loc[found.accuracies["difference"].isna(), "system"]
    assert set(alone) == {"substrate"}
    with pytest.raises(InputError, match="unknown system 'substrate'"):
        accuracies(measure(published[published["system"] != "substrate"]))


def test_seeds_that_are_not_paired_are_refused(published):
    lacking = published[~((published["system"] == "ewc") & (published["seed"] == 2))]
    with pytest.raises(InputError, match="ewc has seed 2 not at all"):
        summary(lacking)
