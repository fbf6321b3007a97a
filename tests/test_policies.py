"""Policies: corrections are on time, wrong labels nest over rates, questions are all spent."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.files import InputError
from ocrrlib.policies import CONFUSIONS, POLICIES, UNCERTAINTIES, Gate, Policy
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make

ORACLE = POLICIES["oracle"]
shares = st.floats(0, 1)


@pytest.fixture(scope="module")
def s(tiny):
    return make_scenario(tiny, 3, held_out=4, cap=20)


def chances(x):
    """Class probabilities that somebody gives a row."""
    return drawn(x.tobytes())


@cache
def drawn(row):
    return np.random.default_rng(list(row)).dirichlet(np.ones(12))


class Clocked:
    """Always gives one answer; notes when it is taught what. It has no ``watch``."""

    def __init__(self, answer, places):
        self.answer = answer
        self.places = places  # of the stream's rows
        self.latest = 0  # item asked about
        self.taught = []

    def fit(self, X, y, classes):
        """It starts without knowing anything."""

    def predict(self, X):
        self.latest = max([self.latest, *(self.places.get(x.tobytes(), 0) for x in X)])
        return np.full(len(X), self.answer)

    def predict_proba(self, X):
        return np.array([chances(x) for x in X])

    def correct(self, x, y):
        self.taught.append((self.latest, self.places[x.tobytes()], y))

    def storage(self):
        return make("static_knn").fit(np.eye(2, dtype=np.float32), [0, 1], "ab").storage()


def play(policy, s):
    """Step of arrival, stream position and label of every correction; checkpoints."""
    places = {x.tobytes(): i for i, x in enumerate(s.X_stream)}
    system = Clocked(int(s.y_stream[0]), places)
    checkpoints = list(run_stream(system, s, policy))
    return system.taught, checkpoints


@given(delay=st.integers(0, 120), p=shares, wrong=shares)
def test_each_correction_arrives_after_its_delay_or_at_the_end(delay, p, wrong, s):
    policy = Policy("any", p, wrong=wrong, delay=delay)
    n = len(s.y_stream)
    taught, checkpoints = play(policy, s)
    draws = policy.draws(s.seed, n)
    labels = policy.labels(s)
    due = [i for i in range(n) if draws[i] and s.y_stream[i] != s.y_stream[0]]
    assert taught == [(min(i + delay, n - 1), i, labels[i]) for i in due]
    assert [c.corrections for c in checkpoints] == [
        sum(at < c.step for at, *_ in taught) for c in checkpoints
    ]
    assert checkpoints[-1].corrections == len(due)
    assert all(
        c.novel_acc == np.mean(s.y_novel == s.y_stream[0]) and c.original_acc == 0
        for c in checkpoints
    )


@given(delay=st.integers(0, 120), p=shares, ask=st.sampled_from(sorted(UNCERTAINTIES)))
def test_questions_are_spent_on_right_answers_too_and_mistakes_asked_about_are_corrected(
    delay, p, ask, s
):
    policy = Policy("any", p, ask=ask, delay=delay)
    y = s.y_stream.tolist()
    gate = policy.gate(len(y))
    asked = [gate.asks(chances(x)) for x in s.X_stream]
    taught, _ = play(policy, s)
    assert [(i, label) for _, i, label in taught] == [
        (i, y[i]) for i in range(len(y)) if asked[i] and y[i] != y[0]
    ]


@given(p=shares, more=shares, seed=st.integers(0, 99), n=st.integers(0, 300))
def test_draws_are_those_of_the_protocol_nested_over_shares_and_exact_where_wanted(
    p, more, seed, n
):
    p, more = sorted((p, more))
    uniform = np.random.default_rng([seed, 1]).random(n)
    np.testing.assert_array_equal(Policy("any", p).draws(seed, n), uniform < p)
    few, many = (Policy("any", share, exact=True).draws(seed, n) for share in (p, more))
    assert few.sum() == round(p * n) and few.dtype == bool and (few <= many).all()
    assert not few.any() or uniform[few].max() <= uniform[~few].min(initial=1)


@given(n=st.integers(1, 200), p=shares, seed=st.integers(0, 99), distinct=st.integers(1, 200))
def test_questions_are_spent_exactly(n, p, seed, distinct):
    gate = Gate(round(p * n), n, UNCERTAINTIES["margin"])
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(4), distinct)
    asked = [gate.asks(rows[rng.integers(distinct)]) for _ in range(n)]
    assert sum(asked) == round(p * n) and gate.budget == gate.left == 0


def test_questions_go_to_uncertain_items_and_equal_ones_are_spread_over_the_stream():
    sure = np.array([0.9, 0.1, 0.0])
    unsure = np.array([0.4, 0.35, 0.25])
    items = np.random.default_rng(0).random(500) < 0.1
    for ask, score in UNCERTAINTIES.items():
        assert score(unsure) > score(sure)
        gate = Gate(50, 500, score)
        asked = np.array([gate.asks(unsure if item else sure) for item in items])
        assert asked[items].mean() > 0.8 > 0.1 > asked[~items].mean(), ask
        gate = Gate(50, 500, score)
        parts = np.array([gate.asks(sure) for _ in range(500)]).reshape(5, 100).sum(axis=1)
        assert 7 <= parts.min() <= parts.max() <= 13


@pytest.mark.parametrize("confusion", CONFUSIONS)
@given(low=shares, high=shares)
def test_wrong_labels_nest_over_rates(confusion, low, high, s):
    low, high = sorted((low, high))
    few, many = (replace(ORACLE, wrong=rate, confusion=confusion).labels(s) for rate in (low, high))
    wrong = few != s.y_stream
    uniform = np.random.default_rng([s.seed, 5]).random((len(wrong), 2))[:, 0]
    np.testing.assert_array_equal(wrong, uniform < low)
    np.testing.assert_array_equal(few[wrong], many[wrong])
    assert set(few) | set(many) <= set(s.y_initial) | set(s.y_stream)


def test_nearest_confusion_names_the_class_with_the_closest_mean(banking):
    s = make_scenario(banking, 0)
    told = replace(ORACLE, wrong=1.0, confusion="nearest").labels(s)
    means = np.array(
        [banking.X_train[banking.y_train == c].astype(np.float64).mean(axis=0) for c in range(77)]
    )
    for label in s.held_out:
        (named,) = set(told[s.y_stream == label])
        distances = np.linalg.norm(means - means[label], axis=1)
        assert named == np.argsort(distances)[1]


@pytest.mark.parametrize(
    "name", ["substrate", "bounded_reservoir_100", "knn_lm", "online_linear", "slda"]
)
def test_asking_by_watched_queries_equals_asking_anew_each_time(name, s):
    policy = Policy("asked", 0.3, ask="entropy", wrong=0.1, delay=3)
    system = make(name)
    methods = {
        part: getattr(system, part)
        for part in ("fit", "predict", "predict_proba", "correct", "storage")
    }
    unwatched, watched = (
        list(run_stream(one, s, policy, 10)) for one in (SimpleNamespace(**methods), make(name))
    )
    # All numbers, the curve's too.
    assert unwatched == watched and watched[-1].ausuc > watched[0].ausuc == 0


OUT = [("p", 1.5), ("p", np.nan), ("wrong", -0.1), ("delay", -1), ("confusion", "x"), ("ask", "x")]


@pytest.mark.parametrize("name, value", OUT)
def test_what_is_out_of_range_is_refused_in_one_line(name, value):
    with pytest.raises(InputError, match=f"{name}={value}|'x'") as caught:
        replace(ORACLE, **{name: value})
    assert "\n" not in str(caught.value)
