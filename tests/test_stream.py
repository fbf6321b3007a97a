"""The stream loop: its fast path equals a naive one at every step, checkpoints and draws stand where they should."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from test_systems import CONTRACT, new

from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import EVERY, Checkpoint, run_stream
from ocrrlib.systems import make

RULES = {  # of each system that votes: rule, k, eviction and budget
    "substrate": ("full", 5, None, None),
    "static_knn": ("full", 5, None, None),
    "substrate_k1": ("full", 1, None, None),
    "substrate_sumsim": ("sumsim", 5, None, None),
    "substrate_count_only": ("count_only", 5, None, None),
    "substrate_no_recency": ("no_recency", 5, None, None),
    "bounded_reservoir_100": ("full", 5, "reservoir", 100),
    "bounded_reservoir_5000": ("full", 5, "reservoir", 5000),
    "bounded_fifo_100": ("full", 5, "fifo", 100),
    "bounded_fifo_5000": ("full", 5, "fifo", 5000),
    "knn_lm": (None, 5, None, None),
}


@pytest.fixture(scope="module")
def s(banking):
    """Banking77, seed 0, cut short."""
    whole = make_scenario(banking, 0, cap=60)
    return replace(whole, X_stream=whole.X_stream[:130], y_stream=whole.y_stream[:130])


@pytest.fixture(scope="module")
def small(tiny):
    return make_scenario(tiny, 0, held_out=4, cap=20)


class Recorder:
    """Notes every prediction that the loop asks of a system, and every correction that it makes."""

    def __init__(self, system):
        self.system, self.predictions, self.corrections = system, [], []
        self.fit, self.storage = system.fit, system.storage

    def watch(self, Q):
        answers = self.system.watch(Q)

        def noted(rows):
            self.predictions.append((rows.tolist(), answers(rows).tolist()))
            return answers(rows)

        return noted

    def correct(self, x, y):
        self.corrections.append((x.tolist(), y))
        self.system.correct(x, y)


@pytest.fixture(scope="module")
def cosines(s):
    """Of all rows that may ever be stored (initial, then stream) to all queries, in plain float64."""
    return np.concatenate([s.X_initial, s.X_stream]).astype(np.float64) @ s.queries.astype(np.float64).T


class Naive:
    """Search, vote and eviction with nothing clever: entries are a list of (row number, label), oldest write last."""

    def __init__(self, name, s, cosines, seed=0):
        self.name, self.cosines, self.n_initial = name, cosines, len(s.y_initial)
        self.rule, self.k, self.eviction, self.budget = RULES[name]
        self.rng, self.seen, self.slots, self.writes = np.random.default_rng(seed), 0, [], []
        for row, label in enumerate(s.y_initial.tolist()):
            self.write(row, label)
        if name == "knn_lm":
            head = make("online_linear", seed).fit(s.X_initial, s.y_initial, s.classes)
            logits = s.queries.astype(np.float64) @ head.theta[:, :-1].T + head.theta[:, -1]
            self.p_head = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

    def write(self, row, label):
        """Slots hold entries; ``writes`` holds the time at which each slot was written."""
        place = len(self.slots)
        if self.eviction and place == self.budget:
            if self.eviction == "fifo":
                place = self.writes.index(min(self.writes))
            else:
                place = int(self.rng.integers(0, self.seen + 1))
        if place == len(self.slots) and place != self.budget:
            self.slots.append((row, label))
            self.writes.append(self.seen)
        elif place < len(self.slots):
            self.slots[place], self.writes[place] = (row, label), self.seen
        self.seen += 1
        self.newest_first = None

    def neighbours(self, query):
        """(cosine, label) of the k best entries, the newest first among equals."""
        if self.newest_first is None:
            order = np.argsort(self.writes)[::-1]
            self.newest_first = np.array([self.slots[i][0] for i in order]), [self.slots[i][1] for i in order]
        rows, labels = self.newest_first
        sims = self.cosines[rows, query]
        return [(sims[i], labels[i]) for i in np.argsort(-sims, kind="stable")[: self.k]]

    def predict(self, query):
        found = self.neighbours(query)
        if self.name == "knn_lm":
            total, p = sum(np.exp(sim / 0.1) for sim, _ in found), 0.5 * self.p_head[query]
            for sim, label in found:
                p[label] += 0.5 * np.exp(sim / 0.1) / total
            return int(np.argmax(p))
        if self.rule == "sumsim":
            sums = Counter()
            for sim, label in found:
                sums[label] += sim
            return sums.most_common(1)[0][0]
        band = [(sim, label) for sim, label in found if sim >= found[0][0] - 0.05]
        counts = Counter(label for _, label in band)
        tied = [label for label in counts if counts[label] == max(counts.values())]
        if self.rule == "no_recency":
            best = {label: max(sim for sim, other in band if other == label) for label in tied}
            return min(tied, key=lambda label: (-best[label], label))
        return tied[0]  # met first: the most similar, of equals the newest

    def correct(self, item, label):
        if self.name != "static_knn":
            self.write(self.n_initial + item, label)


class RowByRow:
    """A system asked for one row at a time, with no use of ``watch``."""

    def __init__(self, system, s):
        self.system, self.s = system.fit(s.X_initial, s.y_initial, s.classes), s

    def predict(self, query):
        return self.system.predict(self.s.queries[query : query + 1])[0]

    def correct(self, item, label):
        self.system.correct(self.s.X_stream[item], label)


def play(system, s, corrected):
    """The protocol, row by row: predictions asked for, corrections made, checkpoints."""
    n = len(s.y_stream)
    novel = range(n, n + len(s.y_novel))
    original = range(n + len(s.y_novel), len(s.queries))
    predictions, corrections, checkpoints = [], [], []

    def test(step):
        accuracies = []
        for rows, y in ((novel, s.y_novel), (original, s.y_original)):
            answers = [int(system.predict(row)) for row in rows]
            predictions.append((list(rows), answers))
            accuracies.append(sum(a == b for a, b in zip(answers, y.tolist())) / len(y))
        checkpoints.append((step, len(corrections), *accuracies))

    test(0)
    for item in range(n):
        label, answer = int(s.y_stream[item]), int(system.predict(item))
        predictions.append(([item], [answer]))
        if answer != label and corrected[item]:
            system.correct(item, label)
            corrections.append((s.X_stream[item].tolist(), label))
        if (item + 1) % 50 == 0 or item + 1 == n:
            test(item + 1)
    return predictions, corrections, checkpoints


def assert_equal_at_every_step(system, s, policy, naive):
    recorder, p = Recorder(system), {"oracle": 1, "random50": 0.5, "random10": 0.1}[policy]
    checkpoints = list(run_stream(recorder, s, POLICIES[policy]))
    corrected = np.random.default_rng([s.seed, 1]).random(len(s.y_stream)) < p
    predictions, corrections, expected = play(naive, s, corrected)
    assert recorder.predictions == predictions
    assert recorder.corrections == corrections
    assert [(c.step, c.corrections, c.novel_acc, c.original_acc) for c in checkpoints] == expected


@pytest.mark.parametrize("name", RULES)
def test_fast_path_equals_a_naive_loop_at_every_step(name, s, cosines):
    assert_equal_at_every_step(make(name), s, "oracle", Naive(name, s, cosines))


@pytest.mark.parametrize("name", ["substrate", "bounded_reservoir_100", "bounded_fifo_100"])
def test_fast_path_equals_a_naive_loop_when_few_are_corrected(name, s, cosines):
    assert_equal_at_every_step(make(name), s, "random50", Naive(name, s, cosines))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", CONTRACT)
def test_every_system_equals_a_plain_loop_that_asks_row_by_row(name, policy, small):
    assert_equal_at_every_step(new(name), small, policy, RowByRow(new(name), small))


@pytest.mark.parametrize("name", ["static_knn", "static_linear"])
def test_static_systems_are_never_right_on_novel_classes(name, s):
    checkpoints = list(run_stream(make(name), s, POLICIES["oracle"]))
    assert all(c.novel_acc == 0 for c in checkpoints)
    assert [c.corrections for c in checkpoints] == [c.step for c in checkpoints]
    assert len({c.original_acc for c in checkpoints}) == 1 and checkpoints[0].original_acc > 0.8


@pytest.mark.parametrize(
    "items, steps",
    [(0, [0]), (1, [0, 1]), (49, [0, 49]), (50, [0, 50]), (51, [0, 50, 51]), (100, [0, 50, 100])],
)
def test_checkpoints_are_at_the_start_every_50_items_and_at_the_end(items, steps, s):
    cut = replace(s, X_stream=s.X_stream[:items], y_stream=s.y_stream[:items])
    assert [c.step for c in run_stream(make("bounded_fifo_100"), cut, POLICIES["oracle"])] == steps and EVERY == 50


def test_first_checkpoint_is_the_initial_state_and_each_correction_is_one_entry(s):
    first, *later = run_stream(make("substrate"), s, POLICIES["oracle"])
    held = make("substrate").fit(s.X_initial, s.y_initial, s.classes).storage()
    assert first == Checkpoint(0, 0, 0.0, first.original_acc, held.entries, held.bytes, first.answers)
    assert all(c.stored_entries == held.entries + c.corrections for c in later)


class Oblivious:
    """Answers one class always; counts what it is asked to learn. Has no ``watch``."""

    def __init__(self, answer):
        self.answer, self.taught = answer, []
        self.storage = make("static_knn").fit(np.eye(2, dtype=np.float32), [0, 1], "ab").storage

    def fit(self, X, y, classes):
        """It starts without knowing anything."""

    def predict(self, X):
        return np.full(len(X), self.answer)

    def correct(self, x, y):
        self.taught.append((x.tolist(), y))


def test_oracle_corrects_every_wrong_prediction_and_no_right_one_of_any_object(small):
    answer = int(small.y_stream[0])
    system = Oblivious(answer)
    *_, last = run_stream(system, small, POLICIES["oracle"], every=30)
    wrong = [(x.tolist(), y) for x, y in zip(small.X_stream, small.y_stream.tolist()) if y != answer]
    assert system.taught == wrong and 0 < len(wrong) < len(small.y_stream)
    assert (last.step, last.corrections, last.original_acc) == (80, len(wrong), 0)
    assert last.novel_acc == np.mean(small.y_novel == answer)
