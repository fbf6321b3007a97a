"""The plan of the scale experiment: its parts can be run alone, and what is missing stops nothing else."""

import warnings

import pandas as pd
import pytest

from ocrrlib import scale_plan
from ocrrlib.datasets import DATASETS
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.errors import InputError
from ocrrlib.indexes import INDEXES
from ocrrlib.scale import EFFORTS, SEGMENT
from ocrrlib.scale_plan import COMPARISONS, LIVE, PARTS, RACES, SETTINGS, after_stream, cells, parse_parts, races


def test_the_papers_four_scales_are_there_with_five_draws_up_to_a_hundred_thousand():
    draws = {}
    for cell in cells(",".join(PARTS)):
        if (cell.classes, cell.noise) == SETTINGS[0]:
            draws.setdefault(cell.n, set()).add(cell.seed)
    assert {n: draws[n] for n in (10**4, 10**5, 10**6, 10**7)} == {
        10**4: set(range(5)),
        10**5: set(range(5)),
        10**6: {0},
        10**7: {0},
    }


def test_the_map_varies_noise_classes_and_entries_per_class():
    plan = COMPARISONS["map"]
    assert len(plan) == len(set(plan)) == 60
    assert {cell.noise for cell in plan} >= {0.1, 0.125, 0.15, 0.3}  # the released default is 0.3
    assert {cell.classes for cell in plan} == {2, 10, 100, 1000}
    assert all(1000 <= cell.n <= SEGMENT for cell in plan)


def test_a_cell_of_two_parts_is_compared_once():
    both = cells("10k,map")
    assert len(set(both)) == len(both) < len(COMPARISONS["10k"]) + len(COMPARISONS["map"])
    assert cells("10k,10k") == list(COMPARISONS["10k"])


def test_only_the_largest_scale_takes_more_than_the_thread_that_can_be_repeated():
    assert {cell.n for cell in cells(",".join(PARTS)) if cell.threads > 1} == {10_000_000}


def test_what_make_paper_runs_is_short():
    assert sum(cell.n for cell in cells(LIVE)) <= 500_000


@pytest.mark.parametrize("parts", ["", "5k", "10k,", "10k,5k", "10K", "10k 1M"])
def test_an_unknown_part_is_refused_with_those_that_exist(parts):
    with pytest.raises(InputError, match="unknown part of the scale experiment") as caught:
        parse_parts(parts)
    assert "10k, 100k, seeds, 1M, 10M, map, race_100k, race_1M" in str(caught.value)


def test_the_quick_profile_is_small_and_has_no_large_scale():
    quick = cells(",".join(PARTS), "quick")
    assert quick and all(cell.n <= 2000 and cell.threads == 1 for cell in quick)
    assert cells("1M,10M", "quick") == []


def test_an_unknown_profile_is_refused():
    for use in (cells, races):
        with pytest.raises(InputError, match="unknown profile"):
            use("10k", "fast")


@pytest.fixture
def small_race(monkeypatch):
    """Races without races: which were begun; those of ``missing`` libraries are refused."""
    log = {"begun": [], "missing": set()}

    def race(name, cell):
        if name in log["missing"]:
            raise InputError(f"this needs the optional library {name}")
        log["begun"].append((name, cell.n))
        return [{"index": name, "n": cell.n, "effort": None, "recall": 1.0}]

    monkeypatch.setattr(scale_plan, "race", race)
    return log


def test_a_race_is_between_all_indexes_on_the_same_data(small_race, tmp_path):
    rows = races("race_100k,race_1M,10k", cache=tmp_path, progress=False)
    assert small_race["begun"] == [(name, n) for n in (100_000, 1_000_000) for name in INDEXES]
    assert list(zip(rows["index"], rows["n"])) == small_race["begun"]


def test_a_stopped_race_goes_on_with_the_next_index(small_race, tmp_path):
    first = races("race_100k", cache=tmp_path, progress=False)
    begun = len(small_race["begun"])
    again = races("race_100k,race_1M", cache=tmp_path, progress=False)
    assert len(small_race["begun"]) == begun + len(INDEXES)
    assert again[again["n"] == 100_000].equals(first)


def test_an_index_without_its_library_is_left_out_with_a_warning_and_the_rest_runs(small_race, tmp_path):
    small_race["missing"] = {"faiss_flat", "faiss_hnsw", "faiss_ivf"}
    with pytest.warns(UserWarning, match="is left out at 100,000 entries: .* optional library") as caught:
        rows = races("race_100k", cache=tmp_path, progress=False)
    assert [str(w.message).split()[0] for w in caught] == ["faiss_flat", "faiss_hnsw", "faiss_ivf"]
    assert set(rows["index"]) == {"exact", "hnswlib", "usearch"}
    small_race["missing"] = set()
    assert set(races("race_100k", cache=tmp_path, progress=False)["index"]) == set(INDEXES)


def test_parts_without_a_race_make_an_empty_table(tmp_path):
    assert races(LIVE, cache=tmp_path, progress=False).empty
    assert set(RACES) <= set(PARTS)


def test_a_quick_race_is_run_in_earnest(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a library may be absent
        rows = races("race_100k,race_1M", "quick", cache=tmp_path, progress=False)
    assert set(rows["n"]) == {200} and {"exact", "hnswlib"} <= set(rows["index"]) and (rows["qps"] > 0).all()


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_ledger_that_is_searched_has_seen_a_whole_stream(dataset):
    rows = pd.DataFrame(after_stream(dataset, DEFAULT_ENCODER, 0, "quick"))
    assert list(rows["ef"]) == list(EFFORTS) and set(rows["dataset"]) == {dataset}
    assert rows["entries"].nunique() == 1 and rows["entries"].iloc[0] > 100
    assert rows["recall"].is_monotonic_increasing and rows["recall"].iloc[-1] > 0.99
    assert rows["hnsw_acc"].iloc[-1] == rows["exact_acc"].iloc[-1]
