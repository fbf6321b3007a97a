"""Votes: every rule equals its definition, counted by hand."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocrrlib.voting import RULES, vote


def elect(neighbours, margin, rule):
    """One query's vote as the paper words it.

    ``neighbours`` are (cosine, label), best first, newest first.
    """
    if not neighbours:
        return -1
    if rule == "sumsim":
        sums = defaultdict(float)
        for sim, label in neighbours:
            sums[label] += sim
        return max(sums, key=sums.get)  # a dictionary keeps the order in which labels were met
    band = [(sim, label) for sim, label in neighbours if sim >= neighbours[0][0] - margin]
    counts = Counter(label for _, label in band)
    most = max(counts.values())
    tied = [label for label in counts if counts[label] == most]
    best = {label: max(sim for sim, other in band if other == label) for label in tied}
    newest = {
        label: -next(i for i, (_, other) in enumerate(band) if other == label) for label in tied
    }
    return {
        "full": max(tied, key=lambda label: (best[label], newest[label])),
        "no_recency": max(tied, key=lambda label: (best[label], -label)),
        "count_only": counts.most_common(1)[0][0],
    }[rule]


# Multiples of 1/64, so that margins and sums are exact and ties abound.
neighbours = st.lists(
    st.tuples(st.integers(60, 64) | st.integers(-6, 64), st.integers(0, 3)), max_size=7
)


@pytest.mark.parametrize("rule", RULES)
@given(
    queries=st.lists(neighbours, max_size=5),
    margin=st.sampled_from([0.0, 1 / 64, 3 / 64, 0.05, 2.0]),
)
@settings(max_examples=150)
def test_rule_equals_its_definition(rule, queries, margin):
    queries = [
        sorted(((sim / 64, label) for sim, label in found), key=lambda pair: -pair[0])
        for found in queries
    ]
    # padded as the search pads
    sims = np.full((len(queries), 7), -np.inf)
    labels = np.full((len(queries), 7), -1)
    for i, found in enumerate(queries):
        for j, pair in enumerate(found):
            sims[i, j], labels[i, j] = pair
    elected = vote(sims, labels, margin, rule)
    assert (
        elected.tolist() == [elect(found, margin, rule) for found in queries]
        and elected.dtype == np.int64
    )
