"""Comparisons on the same seeds: exact p-values, Holm's correction, and a refusal of what is not paired."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ocrrlib.errors import InputError
from ocrrlib.statistics.pairs import EXACT, by_seed, compare, differences, flip_p, improvement

# Darwin's maize, crossed minus self-fertilised, in eighths of an inch (Fisher, The Design of Experiments, section 21).
DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
accuracies = st.integers(0, 400).map(lambda right: right / 400)
pairs = st.lists(st.tuples(accuracies, accuracies), min_size=1, max_size=9)


def brute(d):
    """All flips, one by one, in whole numbers of test rows."""
    d = np.round(np.array(d) * 400).astype(int)
    sums = [abs(np.dot(signs, d)) for signs in product((-1, 1), repeat=len(d))]
    return np.mean([total >= abs(d.sum()) for total in sums])


def test_fisher_counted_1726_of_32768_for_darwins_maize():
    assert flip_p(DARWIN) == 1726 / 32768


@given(pairs)
def test_the_p_value_is_the_share_of_all_flips_that_are_as_far(drawn):
    d = differences(*zip(*drawn))
    assert flip_p(d) == pytest.approx(brute(d), abs=1e-15)


@given(pairs, st.floats(0.001, 1000))
def test_signs_and_units_do_not_matter(drawn, unit):
    d = differences(*zip(*drawn))
    assert flip_p(d) == flip_p(-d) == flip_p(unit * d) == flip_p(d[::-1])


def test_it_is_the_permutation_test_of_scipy():
    d = np.random.default_rng(0).normal(0.3, 1, 12)
    theirs = stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert flip_p(d) == pytest.approx(theirs.pvalue)


def test_twenty_differences_of_one_sign_are_the_least_probable():
    assert flip_p(np.linspace(0.1, 0.2, EXACT)) == 2 / 2**EXACT


def test_sums_that_are_equal_but_for_rounding_are_equal():
    d = np.array([0.1, 0.2, -0.3])  # 5.6e-17 in floating point
    assert d.sum() != 0 and flip_p(d) == 1
    assert flip_p([0.1, 0.2, 0.3]) == 0.25 and flip_p([0.3, 0.6, -0.9, 0.1]) == brute([0.3, 0.6, -0.9, 0.1])


def test_no_difference_at_all_is_certain():
    assert flip_p(np.zeros(20)) == 1 and flip_p([0.0]) == 1 and flip_p([0.1]) == 1


def test_beyond_exact_numbers_flips_are_drawn_and_p_is_never_zero():
    d = np.random.default_rng(1).normal(0.35, 1, EXACT)
    padded = np.concatenate([d, np.full(4, 1e-6)])  # all but the same test, too long to be exact
    assert flip_p(padded) == pytest.approx(flip_p(d), abs=0.005)
    assert flip_p(padded) == flip_p(padded) == flip_p(-padded)
    assert flip_p(np.ones(60), flips=999) == 1 / 1000


def test_differences_that_are_only_rounding_are_zero():
    assert differences([0.1 + 0.2, 0.5], [0.3, 0.25]).tolist() == [0, 0.25]


def test_improvement_counts_ties_half():
    assert improvement(np.array([0.1, 0.2, 0.0, -0.3])) == 0.625
    assert improvement(np.array([[1.0, 2.0], [0, 0], [-1, -1]])).tolist() == [1, 0.5, 0]


@st.composite
def tables(draw):
    """Seeds by systems."""
    seeds, systems = draw(st.integers(2, 6)), draw(st.integers(2, 6))
    rows = draw(st.lists(st.lists(accuracies, min_size=systems, max_size=systems), min_size=seeds, max_size=seeds))
    return pd.DataFrame(rows, columns=["reference", *(f"s{i}" for i in range(1, systems))])


@settings(max_examples=30)  # the correction collects garbage, which takes a while
@given(tables())
def test_holm_never_lowers_a_p_value_and_keeps_their_order(table):
    found = compare(table, "reference", resamples=99).sort_values("p", kind="stable")
    assert (found["p_holm"] >= found["p"]).all() and (found["p_holm"] <= 1).all()
    assert found["p_holm"].is_monotonic_increasing
    m = len(found)
    by_hand = np.minimum(np.maximum.accumulate(found["p"].to_numpy() * np.arange(m, 0, -1)), 1)
    np.testing.assert_allclose(found["p_holm"], by_hand)


@settings(max_examples=30)
@given(tables())
def test_a_comparison_turned_round_has_the_opposite_sign(table):
    there, back = compare(table, "reference", resamples=99), compare(table, "s1", resamples=99)
    one, other = there.loc["s1"], back.loc["reference"]
    assert one["difference"] == pytest.approx(-other["difference"])
    assert one["p"] == other["p"] and one["improvement"] == pytest.approx(1 - other["improvement"])


def test_a_copy_of_the_reference_differs_in_nothing():
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"reference": rng.random(8), "other": rng.random(8)}).assign(copy=lambda t: t["reference"])
    copy = compare(table, "reference").loc["copy"]
    assert (copy["difference"], copy["p"], copy["p_holm"], copy["improvement"]) == (0, 1, 1, 0.5)
    assert copy["difference_bca_low"] == copy["difference_bca_high"] == copy["difference_t_low"] == 0


def test_the_t_interval_is_that_of_scipys_paired_test():
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"reference": rng.random(20), "other": rng.random(20)})
    found = compare(table, "reference").loc["other"]
    theirs = stats.ttest_rel(table["other"], table["reference"]).confidence_interval(0.95)
    assert (found["difference_t_low"], found["difference_t_high"]) == pytest.approx((theirs.low, theirs.high))


def test_a_reference_alone_is_compared_to_nothing_and_a_missing_one_is_refused():
    table = pd.DataFrame({"reference": [0.1, 0.2]})
    assert compare(table, "reference").empty
    with pytest.raises(InputError, match="unknown system 'substrate'; there are: reference"):
        compare(table, "substrate")


def frame(*rows):
    columns = ["dataset", "policy", "seed", "system", "novel"]
    return pd.DataFrame([("banking77", "oracle", *row) for row in rows], columns=columns)


def test_tables_are_in_order_of_appearance():
    runs = frame((1, "z", 0.1), (1, "a", 0.2), (0, "a", 0.3), (0, "z", 0.4))
    for given_as in (runs, runs.astype({"system": "category", "dataset": "category", "policy": "category"})):
        ((cell, table),) = by_seed(given_as, "novel")
        assert cell == ("banking77", "oracle")
        assert (list(table), list(table.index)) == (["z", "a"], [1, 0])
        assert table.to_numpy().tolist() == [[0.1, 0.2], [0.4, 0.3]]


@pytest.mark.parametrize(
    "rows, why",
    [
        ([(0, "a", 0.1), (1, "a", 0.1), (0, "b", 0.1)], "b has seed 1 not at all"),
        ([(0, "a", 0.1), (0, "a", 0.1), (0, "b", 0.1)], "a has seed 0 twice"),
    ],
)
def test_what_is_not_paired_is_refused(rows, why):
    with pytest.raises(InputError, match=f"banking77, oracle: {why}"):
        list(by_seed(frame(*rows), "novel"))
