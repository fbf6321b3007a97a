"""A memory that knows when not to answer, and what is worth a human's time."""

import numpy as np
import pytest

from corrigible import CorrectionMemory
from corrigible.confidence import RIGHT, UNKNOWN_CLASS, WRONG, Confidence, Sureness
from ocrrlib.files import InputError

READERS = ["substrate", "ledger_lda"]
N_CLASSES = 30


def clusters(seed, n, spread=0.1, dim=32, classes=range(N_CLASSES)):
    """Unit vectors (n, dim) around the centres of classes, and their labels."""
    centres = np.random.default_rng(0).standard_normal((2 * N_CLASSES, dim))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    rng = np.random.default_rng(seed)
    y = rng.choice(list(classes), n)
    X = centres[y] + spread * rng.standard_normal((n, dim))
    return X / np.linalg.norm(X, axis=1, keepdims=True), np.array([f"class {c}" for c in y])


@pytest.fixture(params=READERS)
def memory(request, tmp_path):
    with CorrectionMemory.open(tmp_path / "made.sqlite", reader=request.param) as memory:
        memory.learn(*clusters(1, 1200))
        yield memory


@pytest.mark.parametrize("reader", READERS)
def test_confidence_is_the_share_of_right_answers(reader, tmp_path):
    known, labels = clusters(2, 400, spread=0.25)
    unknown, _ = clusters(3, 100, spread=0.25, classes=range(N_CLASSES, 2 * N_CLASSES))
    with CorrectionMemory.open(tmp_path / "vague.sqlite", reader=reader) as memory:
        memory.learn(*clusters(4, 1800, spread=0.25))
        answers = memory.predict(np.concatenate([known, unknown]))
    right = np.array([one.label for one in answers]) == [*labels, *[""] * len(unknown)]
    confidence = np.array([one.confidence for one in answers])
    assert (confidence >= 0).all() and (confidence <= 1).all()
    for part in np.array_split(np.argsort(confidence), 4):
        assert abs(confidence[part].mean() - right[part].mean()) < 0.15


def test_answers_that_are_given_are_right_as_often_as_asked(memory):
    X, labels = clusters(2, 400)
    unknown, _ = clusters(3, 100, classes=range(N_CLASSES, 2 * N_CLASSES))
    labels = [*labels, *["unknown"] * len(unknown)]
    answers = memory.predict(np.concatenate([X, unknown]), at_least=0.97)
    given = [(answer.label, label) for answer, label in zip(answers, labels) if answer.label]
    assert len(given) > 200
    assert np.mean([own == label for own, label in given]) > 0.96


def test_an_answer_that_is_not_given_has_a_reason_and_neighbours(memory):
    unknown, _ = clusters(3, 1, classes=[N_CLASSES])
    answer = memory.predict(unknown[0], at_least=0.99)
    assert answer.label is None and answer.neighbours
    assert f"{answer.confidence:.2f}" in answer.reason and "0.99" in answer.reason
    assert memory.predict(unknown[0]).reason is None


def test_an_answer_is_given_where_as_much_is_promised_as_was_asked(memory):
    X, _ = clusters(2, 200, spread=0.25)
    answers = memory.predict(X, at_least=0.95)
    assert {answer.label is not None for answer in answers} == {True, False}
    for answer in answers:
        assert (answer.label is not None) == (answer.promised >= 0.95)
    ranked = sorted(answers, key=lambda answer: answer.confidence)
    assert [a.promised for a in ranked] == sorted(a.promised for a in answers)
    assert memory.predict(X[0]).promised is None


def test_few_entries_promise_nothing(tmp_path):
    with CorrectionMemory.open(tmp_path / "few.sqlite") as memory:
        memory.learn(np.eye(12), [f"class {c}" for c in range(12)])
        answer = memory.predict(np.eye(12)[0], at_least=0.5)
        assert answer.label is None and answer.promised == 0
        assert "0.5" in answer.reason and "entries" in answer.reason
        assert memory.predict(np.eye(12)[0]).label == "class 0"


@pytest.mark.parametrize("reader", READERS)
def test_few_labels_promise_nothing_and_still_tell_the_unsure(reader, tmp_path):
    X, labels = clusters(1, 400, spread=0.3, classes=[0, 1])
    with CorrectionMemory.open(tmp_path / "two.sqlite", reader=reader) as memory:
        memory.learn(X, labels)
        answers = memory.predict(clusters(2, 200, spread=0.3, classes=[0, 1])[0], at_least=0.5)
    assert all(answer.label is None and "labels" in answer.reason for answer in answers)
    assert np.ptp([answer.confidence for answer in answers]) > 0.1


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("n_labels", [2, 3, 5, 10, 30])
def test_nothing_is_promised_where_labels_are_random(reader, n_labels, tmp_path):
    rng = np.random.default_rng(n_labels)
    labels = rng.choice([f"class {c}" for c in range(n_labels)], 200)
    with CorrectionMemory.open(tmp_path / "random.sqlite", reader=reader) as memory:
        memory.learn(rng.standard_normal((200, 32)), labels)
        answers = memory.predict(rng.standard_normal((500, 32)), at_least=0.9)
        assert all(answer.label is None for answer in answers)
        assert np.mean([answer.confidence for answer in answers]) < 2 / n_labels
        assert max(one.confidence for one in memory.suspects(200)) < 0.6


@pytest.mark.parametrize("reader", READERS)
def test_copies_of_texts_promise_nothing_of_other_texts(reader, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 32))
    labels = rng.choice([f"class {c}" for c in range(15)], 150)
    copies = np.repeat(X, 8, axis=0)
    copies += 1e-4 * rng.standard_normal(copies.shape)
    with CorrectionMemory.open(tmp_path / "copies.sqlite", reader=reader) as memory:
        memory.learn(copies, np.repeat(labels, 8))
        answers = memory.predict(rng.standard_normal((500, 32)), at_least=0.8)
    assert all(answer.label is None for answer in answers)


def test_equal_evidence_is_promised_as_a_whole():
    outcomes = np.repeat([RIGHT, WRONG, UNKNOWN_CLASS], [300, 100, 50])
    known = Confidence(Sureness(np.full(450, 0.8), np.full(450, 0.9)), outcomes)
    (promised,) = known.promised(known.of(Sureness(np.full(1, 0.8), np.full(1, 0.9)), 0.1), 0.1)
    assert 0.6 < promised < 0.9 * 0.75


def test_confidence_stays_what_it_was_under_a_head(memory):
    X, _ = clusters(5, 20)
    then = memory.predict(X, at_least=0.9)
    head = memory.head()
    memory.learn(*clusters(6, 1300))
    memory.rename("class 1", "first")
    assert memory.predict(X, at_least=0.9) != then
    assert memory.at(head).predict(X, at_least=0.9) == then


def test_review_brings_the_least_sure_and_no_near_duplicates(memory):
    X, _ = clusters(2, 50, spread=0.3)
    found = memory.review(np.concatenate([X, X]), n=10)
    assert len({one.row % 50 for one in found}) == 10
    confidence = [one.answer.confidence for one in found]
    assert confidence == sorted(confidence)
    rest = [a.confidence for a in memory.predict(np.delete(X, [one.row % 50 for one in found], 0))]
    assert max(confidence) <= min(rest)


def test_suspects_are_entries_with_a_wrong_label(memory):
    clean = {one.place for one in memory.suspects()}
    assert len(clean) < 5
    X, labels = clusters(7, 3, classes=[0, 1, 2])
    wrong = [memory.correct(x, "class 11", by="bo") for x in X]
    found = memory.suspects(3)
    assert {one.place for one in found} == set(wrong)
    assert {one.instead for one in found} == set(labels)
    assert all(one.label == "class 11" for one in found)


def test_a_text_under_two_labels_is_a_suspect(tmp_path):
    with CorrectionMemory.open(tmp_path / "twice.sqlite") as memory:
        memory.learn(np.eye(4)[[0, 1, 1]], ["a", "b", "c"])
        assert {(one.label, one.instead) for one in memory.suspects()} == {("b", "c"), ("c", "b")}


@pytest.mark.parametrize("label", ["class 3", "a new one"])
def test_a_preview_is_what_happens(memory, label):
    queries, _ = clusters(8, 200, spread=0.3)
    x = queries[0]
    size = len(memory)
    before = [answer.label for answer in memory.predict(queries)]
    shown = memory.preview(x, label, queries)
    assert len(memory) == size and [a.label for a in memory.predict(queries)] == before
    stored = {one.place: one.after for one in shown.entries}
    memory.correct(x, label)
    after = [answer.label for answer in memory.predict(queries)]
    changed = {row: (a, b) for row, (a, b) in enumerate(zip(before, after)) if a != b}
    assert {one.row: (one.before, one.after) for one in shown.queries} == changed
    assert 0 in changed
    for place, new in stored.items():
        x = np.frombuffer(bytes.fromhex(memory.entry(place)["x"]), "<f4")
        assert memory.predict(x).label == new


def test_a_preview_of_a_replacement_is_what_happens(memory):
    queries, _ = clusters(8, 200, spread=0.3)
    wrong = memory.correct(queries[0], "wrong")
    before = [answer.label for answer in memory.predict(queries)]
    shown = memory.preview(queries[0], "class 3", queries, replaces=wrong)
    memory.correct(queries[0], "class 3", replaces=wrong)
    after = [answer.label for answer in memory.predict(queries)]
    changed = {row: (a, b) for row, (a, b) in enumerate(zip(before, after)) if a != b}
    assert {one.row: (one.before, one.after) for one in shown.queries} == changed
    assert changed[0] == ("wrong", "class 3")
    with pytest.raises(InputError, match="replaced"):
        memory.preview(queries[0], "class 3", replaces=wrong)


def test_a_preview_of_a_replacement_of_the_first_entry_of_a_label_is_what_happens(memory):
    queries, _ = clusters(8, 200, spread=0.3)
    before = [answer.label for answer in memory.predict(queries)]
    shown = memory.preview(queries[0], "class 3", queries, replaces=0)
    memory.correct(queries[0], "class 3", replaces=0)
    after = [answer.label for answer in memory.predict(queries)]
    changed = {row: (a, b) for row, (a, b) in enumerate(zip(before, after)) if a != b}
    assert {one.row: (one.before, one.after) for one in shown.queries} == changed


def test_a_preview_of_what_is_stored_already_changes_nothing(memory):
    queries, _ = clusters(8, 200, spread=0.3)
    memory.correct(queries[0], "class 3")
    assert memory.preview(queries[0], "class 3", queries) == ([], [])


def test_a_promise_rests_on_entries_of_which_a_tenth_at_most_is_newer(tmp_path):
    """Labels of later entries are random: what is promised of them is kept, or nothing is."""
    X, labels = clusters(1, 300, classes=range(5))
    later, _ = clusters(2, 280, classes=range(5, 10))
    asked, _ = clusters(3, 300, classes=range(5, 10))
    with CorrectionMemory.open(tmp_path / "grown.sqlite") as memory:
        memory.learn(X, labels)
        rng = np.random.default_rng(0)
        memory.learn(later, [f"other {n}" for n in rng.integers(0, 5, len(later))])
        answers = memory.predict(asked, at_least=0.95)
    assert sum(answer.label is not None for answer in answers) < 30


def test_a_query_is_as_sure_alone_as_beside_others(memory):
    X, _ = clusters(8, 40, spread=0.3)
    assert memory.predict(X) == [memory.predict(x) for x in X]


def test_a_preview_of_a_retired_label_is_refused(memory):
    memory.retire("class 3")
    with pytest.raises(InputError, match="retired"):
        memory.preview(np.eye(32)[0], "class 3")
