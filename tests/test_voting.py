"""Votes: every rule equals its definition, counted by hand."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocrrlib.voting import RULES, vote


def elect(neighbours, margin, rule):
    """One query's vote as the paper words it; ``neighbours`` are (cosine, label), best first, newest first."""
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
    newest = {label: -next(i for i, (_, other) in enumerate(band) if other == label) for label in tied}
    return {
        "full": max(tied, key=lambda label: (best[label], newest[label])),
        "no_recency": max(tied, key=lambda label: (best[label], -label)),
        "count_only": counts.most_common(1)[0][0],
    }[rule]


@st.composite
def ballots(draw):
    """Queries with up to k neighbours each, few different cosines and labels, padded as the search pads."""
    m, k = draw(st.integers(0, 5)), draw(st.integers(1, 7))
    # Multiples of 1/64 down to below 0, so that margins and sums are exact and ties abound.
    pairs = st.tuples(st.integers(-6, 64), st.integers(0, 3))
    queries = []
    for _ in range(m):
        best = draw(st.integers(-2, 64))
        near = st.tuples(st.integers(best - 6, best), st.integers(0, 3))
        found = draw(st.lists(st.one_of(near, pairs), max_size=k))
        queries.append(sorted(((sim / 64, label) for sim, label in found), key=lambda pair: -pair[0]))
    sims, labels = np.full((m, k), -np.inf), np.full((m, k), -1)
    for i, found in enumerate(queries):
        for j, (sim, label) in enumerate(found):
            sims[i, j], labels[i, j] = sim, label
    return queries, sims, labels


@pytest.mark.parametrize("rule", RULES)
@given(ballot=ballots(), margin=st.sampled_from([0.0, 1 / 64, 3 / 64, 0.05, 2.0]))
@settings(max_examples=150)
def test_rule_equals_its_definition(rule, ballot, margin):
    queries, sims, labels = ballot
    expected = [elect(found, margin, rule) for found in queries]
    elected = vote(sims, labels, margin, rule)
    assert elected.tolist() == expected and elected.dtype == np.int64
