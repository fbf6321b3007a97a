"""Streams with known classes: exact shares, no row twice, counts that add up, a prior estimated."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from studies import mixed, prior
from studies.mixed import MIX_CELL, MIXES, VERDICT_METRICS, numbers, outcomes, turned
from studies.prior import estimate


@pytest.fixture(scope="module")
def numbered(banking):
    """A scenario whose rows are their numbers, initial ones first."""
    s = make_scenario(banking, 3, cap=None)
    rows = np.arange(len(s.y_initial) + len(s.y_stream))[:, None]
    return replace(
        s, X_initial=rows[: len(s.y_initial)].copy(), X_stream=rows[len(s.y_initial) :].copy()
    )


@pytest.fixture(scope="module")
def streams(numbered):
    return {mix: mixed.mixed(numbered, *mix) for mix in MIXES}


@pytest.fixture(scope="module")
def small(tiny):
    return mixed.mixed(make_scenario(tiny, 0, cap=None, held_out=4), 50)


@pytest.mark.parametrize("share", range(0, 100, 10))
def test_a_share_is_exact_and_the_stream_as_long_as_there_are_rows(share):
    known, new = numbers(1767, 1195, share)
    assert 100 * known == share * (known + new)
    step = np.gcd(share, 100)
    assert known + share // step > 1767 or new + (100 - share) // step > 1195


@pytest.mark.parametrize("mix", MIXES)
def test_no_row_is_in_the_stream_twice_or_in_the_stream_and_initial(mix, streams, numbered):
    s = streams[mix]
    stream = s.X_stream[:, 0].tolist()
    assert len({*stream}) == len(stream) and not {*stream} & {*s.X_initial[:, 0].tolist()}
    labels = np.concatenate([numbered.y_initial, numbered.y_stream])
    np.testing.assert_array_equal(labels[stream], s.y_stream)
    np.testing.assert_array_equal(labels[s.X_initial[:, 0]], s.y_initial)


def test_initial_rows_are_the_same_at_all_shares_and_new_ones_come_in_one_order(streams, numbered):
    for s in streams.values():
        np.testing.assert_array_equal(s.X_initial, streams[0, False].X_initial)
        new = s.X_stream[np.isin(s.y_stream, s.held_out)]
        np.testing.assert_array_equal(new, numbered.X_stream[: len(new)])
    assert len(streams[0, True].y_stream) * 10 == len(streams[90, False].y_stream)


def test_a_fifth_of_each_known_class_is_kept_and_a_class_of_few_rows_keeps_one(streams, numbered):
    before = np.bincount(numbered.y_initial)
    left = np.bincount(streams[50, False].y_initial)
    np.testing.assert_array_equal(left, before - before // 5)
    assert left[before > 0].all()


def test_a_stream_follows_from_its_seed(numbered):
    again = [mixed.mixed(numbered, 50).X_stream for _ in range(2)]
    np.testing.assert_array_equal(*again)
    other = mixed.mixed(replace(numbered, seed=4), 50).X_stream
    assert (again[0] != other).any()


@pytest.mark.parametrize("policy", ["oracle", "random10"])
@pytest.mark.parametrize("name", ["static_linear", "substrate", "ledger_lda"])
def test_counts_by_kind_of_item_add_up_to_those_of_the_stream(name, policy, small):
    system = make(name).fit(small.X_initial, small.y_initial, small.classes)
    found = outcomes(system, small, policy, estimated=name == "ledger_lda")
    *_, last = run_stream(make(name), small, POLICIES[policy])
    for column in ("mistakes", "corrections"):
        both = found[f"{column}_new"] + found[f"{column}_known"]
        assert both == found[column] == getattr(last, column)
    assert found["novel_acc"] == last.novel_acc
    assert found["items_new"] == found["items_known"] == len(small.y_stream) / 2
    assert found["known_as_new"] <= found["mistakes_known"]
    assert found["new_as_known"] <= found["mistakes_new"]


def test_every_stream_and_policy_has_a_row_that_runs_again(monkeypatch, tiny):
    monkeypatch.setattr(mixed, "_data", lambda dataset: tiny)
    monkeypatch.setattr(
        mixed,
        "make_scenario",
        lambda data, seed, cap: make_scenario(data, seed, cap=cap, held_out=4),
    )
    mixed._scenarios.cache_clear()
    row = dict(dataset="tiny", seed=1, system="ncm")
    found = pd.DataFrame([row | one for one in mixed.run_system(row)])
    mixed._scenarios.cache_clear()
    assert len(found) == len(found[[*MIX_CELL]].drop_duplicates()) == len(MIXES) * 2
    again = mixed.MIXED.rerun(found.iloc[5].to_dict())
    assert again == found.iloc[5].drop([*row]).to_dict()
    mixed._scenarios.cache_clear()


def test_answers_under_one_half_are_those_of_the_system_and_a_larger_share_is_bolder(small):
    system = make("ledger_lda").fit(small.X_initial, small.y_initial, small.classes)
    for x, y in zip(small.X_stream[:20], small.y_stream[:20].tolist()):
        system.correct(x, y)
    new = np.isin(np.arange(12), small.held_out)
    p = system.predict_proba(small.queries)
    half = prior.answers_under(0.5, p, new)
    np.testing.assert_array_equal(half, system.predict(small.queries))
    assert new[prior.answers_under(0.999, p, new)].sum() > new[half].sum()


def test_em_finds_the_share_under_which_calibrated_probabilities_were_shifted():
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000) + np.where(rng.random(4000) < 0.1, 1.0, -1.0)
    mass = 1 / (1 + np.exp(-2 * x))  # posterior of two Gaussians, equally likely
    assert mass.mean() > 0.2
    assert estimate(mass) == pytest.approx(0.1, abs=0.02)
    assert estimate(mass, start=0.9) == pytest.approx(estimate(mass), abs=1e-3)
    assert 0 < estimate(np.zeros(8)) < 0.2 and estimate(np.zeros(0)) == 0.5


def test_a_rule_goes_by_what_came_before_and_is_followed_without_changing_the_system(small):
    new = np.isin(np.arange(12), small.held_out)
    runs = {}
    for rule in (None, *prior.PRIOR_RULES):
        system = make("ledger_lda").fit(small.X_initial, small.y_initial, small.classes)
        followed = prior.Followed(system, new, rule)
        *_, last = run_stream(followed, small, POLICIES["oracle"], fitted=True)
        assert len(followed.mass) == len(small.y_stream)
        assert followed.told.sum() == last.corrections + 2
        runs[rule] = followed, last
    *_, plain = run_stream(make("ledger_lda"), small, POLICIES["oracle"])
    assert runs[None][1] == plain
    np.testing.assert_array_equal(runs[None][1].given, plain.given)
    told = runs["told"][0].told
    assert runs["told"][0].share == told[1] / told.sum()
    em = runs["em"][0]
    assert em.share == pytest.approx(estimate(np.array(em.mass)), abs=1e-2)


def test_verdicts_are_by_stream_and_one_that_changes_its_sign_is_reversed():
    rows = []
    for (share, few), gain in zip(MIXES, (0.1, -0.1, 0.0, 0.1)):
        for seed in range(20):
            cell = dict(share=share, few=few, dataset="hwu64", policy="oracle", seed=seed)
            base = 0.5 + seed / 1000
            rows.append(cell | {"system": "substrate"} | dict.fromkeys(VERDICT_METRICS, base))
            rows.append(cell | {"system": "ncm"} | dict.fromkeys(VERDICT_METRICS, base + gain))
    table = mixed.compared(pd.DataFrame(rows), {"ncm": "substrate"})
    met = table[table["metric"] == "met"]
    assert met["verdict"].tolist() == [1, -1, 0, 1]
    other = turned(table).query("metric == 'met'")
    assert other["moved"].tolist() == [True, True, False]
    assert other["reversed"].tolist() == [True, False, False]
