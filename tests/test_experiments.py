"""The paper's grids, and what is refused before anything runs."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from ocrrlib.datasets import DATASETS
from ocrrlib.errors import InputError
from ocrrlib.experiments import EXPERIMENTS, PROFILES, SEEDS, Run, check_runs, grid, parse_seeds
from ocrrlib.policies import POLICIES
from ocrrlib.systems import SYSTEMS


@pytest.mark.parametrize("name, size", [("full_sweep", 162), ("storage_pareto", 36), ("vote_ablation", 15)])
def test_grids_have_the_papers_sizes_without_repeats(name, size):
    runs = grid(name)
    assert len(runs) == len(set(runs)) == size


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_grids_go_by_dataset_then_policy_then_seed_then_system(name):
    plan = EXPERIMENTS[name]
    found = [(run.dataset, run.policy, run.seed, run.system) for run in grid(name, seeds="2,0")]
    assert found == list(product(plan.datasets, plan.policies, (2, 0), plan.systems))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_grids_name_only_what_exists(name):
    runs = grid(name)
    check_runs(runs)
    assert {run.dataset for run in runs} <= DATASETS.keys()
    assert {run.seed for run in runs} == set(range(20) if name == "beyond" else SEEDS)
    assert {run.seed for run in grid(name, seeds=(3,))} == {3}


def test_only_the_full_sweep_seeds_its_generator_anew():
    assert {name: {run.draw for run in grid(name)} for name in EXPERIMENTS} == {
        "full_sweep": {"fresh"},
        "storage_pareto": {"continued"},
        "lora": {"continued"},
        "vote_ablation": {"continued"},
        "beyond": {"fresh"},
    }


def test_the_paper_profile_is_the_published_protocol_and_quick_is_smaller():
    assert {(run.cap, run.thin) for run in grid("full_sweep")} == {(400, 1)}
    assert PROFILES["quick"]["cap"] < 400 and PROFILES["quick"]["thin"] > 1
    quick = grid("full_sweep", profile="quick")
    assert [replace(run, **PROFILES["paper"]) for run in quick] == grid("full_sweep")


@pytest.mark.parametrize(
    "given", ["0,1,2", "0-2", "0, 1 - 2", " 0, 1 ,2", [0, 1, 2], (0, 1, 2), range(3), np.arange(3), ["0", "1", "2"]]
)
def test_seeds_are_read_from_text_and_sequences(given):
    assert parse_seeds(given) == (0, 1, 2)


@pytest.mark.parametrize(
    "given", ["a", "0,a", "0;1", "2-0", "0-1-2", "1-", "1.5", "", ",", "0,,1", [1.5], [None], None, 7]
)
def test_seeds_that_are_no_list_of_integers_are_refused(given):
    with pytest.raises(InputError, match="seeds .*not.* integers.*0,1,2") as caught:
        parse_seeds(given)
    assert repr(given) in str(caught.value)


@pytest.mark.parametrize("given", ["0,0", "1,01", "0-2,1", "4294967296", "-1", "0,-1", [-1], [], (), [2**32], [3, 3]])
def test_seeds_that_are_missing_negative_too_large_or_repeated_are_refused(given):
    with pytest.raises(InputError, match="seeds .*different integers from 0"):
        parse_seeds(given)


@pytest.mark.parametrize(
    "kind, name, close, there, ask",
    [
        ("experiment", "fullsweep", "full_sweep", EXPERIMENTS, lambda name: grid(name)),
        ("profile", "quik", "quick", PROFILES, lambda name: grid("full_sweep", profile=name)),
        ("system", "substrat", "substrate", SYSTEMS, lambda name: check_runs([run(system=name)])),
        ("policy", "oracel", "oracle", POLICIES, lambda name: check_runs([run(policy=name)])),
    ],
)
def test_an_unknown_name_lists_those_that_exist(kind, name, close, there, ask):
    with pytest.raises(InputError) as caught:
        ask(name)
    message = str(caught.value)
    assert f"unknown {kind} '{name}' (did you mean '{close}'?)" in message and "\n" not in message
    assert all(option in message for option in there)


def run(**changes):
    return replace(Run("banking77", "encoder", "oracle", 0, "substrate"), **changes)
