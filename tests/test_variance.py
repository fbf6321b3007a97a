"""Variance components: exact where effects are known, unbiased where they are drawn; streams composed as they say."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from ocrrlib.errors import InputError
from ocrrlib.statistics.variance import FACTORS, SOURCES, SPLIT, components, draw_interval, shares

SHAPE = (6, 4, 4)
effects = st.floats(-1, 1).map(lambda value: round(value, 3))


def spread(part, scale, rng, shape=SHAPE):
    """Random effects of the factors in ``part``, one per combination of their levels."""
    size = [n if name in part.split(":") else 1 for name, n in zip(FACTORS, shape)]
    return scale * rng.normal(size=size)


def frame(values):
    index = pd.MultiIndex.from_product([range(n) for n in values.shape], names=FACTORS)
    return pd.DataFrame({"novel": values.ravel()}, index).reset_index().assign(dataset="banking77", system="substrate")


@given(*(arrays(float, n, elements=effects) for n in SHAPE))
def test_effects_that_only_add_up_have_the_variance_of_each(draw, order, coins):
    found = components(draw[:, None, None] + order[:, None] + coins)
    for name, own in zip(FACTORS, (draw, order, coins)):
        assert found[name] == pytest.approx(own.var(ddof=1), abs=1e-12)
    np.testing.assert_allclose(found[3:], 0, atol=1e-12)


def test_estimates_are_unbiased_with_all_interactions_present():
    rng = np.random.default_rng(0)
    truth = dict(zip(SOURCES, (3.0, 1.0, 0.5, 2.0, 0.3, 0.7, 1.5)))
    drawn = [components(sum(spread(p, np.sqrt(v), rng) for p, v in truth.items())) for _ in range(2000)]
    mean, error = np.mean(drawn, axis=0), np.std(drawn, axis=0) / np.sqrt(len(drawn))
    np.testing.assert_array_less(np.abs(mean - list(truth.values())), 4 * error)
    assert (error < 0.06).all()


def test_mean_squares_are_those_of_an_analysis_of_variance():
    values = np.random.default_rng(1).normal(size=(3, 4, 2))
    found = components(values)
    formula = "novel ~ (C(draw) + C(order) + C(coins)) ** 2"  # the three-way interaction is what is left
    table = anova_lm(ols(formula, frame(values)).fit())
    squares = dict(zip(SOURCES, table["mean_sq"]))
    three = squares["draw:order:coins"]
    assert found["draw:order:coins"] == pytest.approx(three)
    assert found["draw:order"] == pytest.approx((squares["draw:order"] - three) / 2)
    assert found["draw"] == pytest.approx((squares["draw"] - squares["draw:order"] - squares["draw:coins"] + three) / 8)


@given(arrays(float, (3, 2, 4), elements=effects), st.permutations(range(3)))
def test_factors_may_come_in_any_order(values, axes):
    plain, turned = components(values), components(values.transpose(axes))
    for source in SOURCES:
        names = sorted((FACTORS[axes.index(FACTORS.index(name))] for name in source.split(":")), key=FACTORS.index)
        assert turned[":".join(names)] == pytest.approx(plain[source], abs=1e-9)


def test_shares_add_up_and_a_negative_estimate_is_shown_as_zero_and_said_to_be_one():
    rng = np.random.default_rng(2)
    values = spread("draw", 3, rng) + spread("draw:order:coins", 1, rng)
    assert sorted(itertools.chain(*SPLIT.values())) == sorted(SOURCES)
    found = shares(frame(values), ["novel"]).set_index("source")
    assert list(found.index) == list(SPLIT) and found["share"].sum() == pytest.approx(100)
    assert found["share"].idxmax() == "draw"
    order = np.array([1, -1, 1, -1])[:, None] * np.array([1, -1, 1, -1.0])  # whatever order does, coins undo
    opposed = shares(frame(np.broadcast_to(order, SHAPE) + 0.0), ["novel"]).set_index("source")
    assert opposed["below_zero"].to_dict() == {"draw": False, "order": True, "coins": False}
    assert opposed["share"].tolist() == pytest.approx([0, 0, 100])


def test_what_order_decides_within_its_draw_counts_as_order_and_coins_within_an_order_as_coins():
    rng = np.random.default_rng(3)
    for source, whole in (("draw:order", "order"), ("draw:order:coins", "coins")):
        values = spread(source, 1, rng, (12, 8, 4))
        found = shares(frame(np.broadcast_to(values, (12, 8, 4))), ["novel"]).set_index("source")["share"]
        assert found[whole] > 80


def test_the_interval_of_the_draw_holds_its_share_and_is_wide_for_few_draws():
    rng, covered = np.random.default_rng(5), []
    for _ in range(300):
        values = rng.normal(size=(6, 1, 1)) + rng.normal(size=(6, 4, 4))  # half of the variance each
        low, high = draw_interval(values)
        assert 0 <= low <= high <= 1
        covered.append(low <= 0.5 <= high)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.035)
    assert draw_interval(np.arange(6.0)[:, None, None] + np.zeros((6, 4, 4))) == (1, 1)
    few, many = (draw_interval(spread("draw", 1, rng, (n, 4, 4)) + rng.normal(size=(n, 4, 4))) for n in (4, 40))
    assert many[1] - many[0] < few[1] - few[0]


def test_the_interval_of_the_draw_is_that_of_the_textbook():
    judged = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    low, high = draw_interval(np.array(judged, float)[:, :, None])  # Shrout & Fleiss 1979, ICC(1,1): -0.13 to 0.72
    assert low == 0 and round(high, 2) == 0.72


def test_where_nothing_varies_there_are_no_shares():
    found = shares(frame(np.full(SHAPE, 0.1)), ["novel"])
    assert (found["variance"] == 0).all() and found["share"].isna().all() and not found["below_zero"].any()


def test_a_cross_with_holes_is_refused():
    study = frame(np.random.default_rng(4).random(SHAPE))
    for broken in (study.iloc[1:], pd.concat([study.iloc[1:], study.iloc[[1]]])):
        with pytest.raises(InputError, match="not every draw, order and coins is there once"):
            shares(broken, ["novel"])
    for values in (np.zeros((3, 1, 2)), np.zeros((3, 2)), np.full((2, 2, 2), np.nan)):
        with pytest.raises(InputError, match="three factors"):
            components(values)
