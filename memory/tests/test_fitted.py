"""What confidence was fitted to is kept beside a file, and believed for the same entries alone."""

import pytest
from entries import clusters

from corrigible import CorrectionMemory, confidence
from corrigible.readers import make_reader

N = 1200  # entries: enough that something is kept
X, Y = clusters(30, 41, 16, seed=1)
LABELS = [f"class {y}" for y in Y]
QUERIES = X[N:]


@pytest.fixture
def fits(monkeypatch):
    """Readers that confidence made since, each to be fitted, by name; nothing is remembered."""
    made = []

    def noted(name):
        made.append(name)
        return make_reader(name)

    monkeypatch.setattr(confidence, "make_reader", noted)
    confidence._calibrated.forget()
    yield made
    confidence._calibrated.forget()


@pytest.fixture
def answers(path, fits):
    """Answers of a memory whose fits are kept, and are the file's alone by now."""
    with CorrectionMemory.open(path) as memory:
        memory.learn(X[:N], LABELS[:N])
        found = memory.predict(QUERIES, at_least=0.5)
    assert fits
    fits.clear()
    confidence._calibrated.forget()
    return found


def kept(path):
    return path.with_name(f"{path.name}-fitted")


def test_nothing_is_fitted_again_when_a_file_is_opened(path, answers, fits):
    with CorrectionMemory.open(path) as memory:
        assert memory.predict(QUERIES, at_least=0.5) == answers
    assert not fits


def changed_number(file):
    file.write_text(file.read_text().replace("0.9", "0.1", 1))


def cut_off(file):
    file.write_bytes(file.read_bytes()[:1000])


def writable_by_others(file):
    file.chmod(0o666)


def a_link(file):
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


@pytest.mark.parametrize("spoil", [changed_number, cut_off, writable_by_others, a_link])
def test_what_others_could_have_written_is_not_believed(spoil, path, answers, fits):
    spoil(kept(path))
    with CorrectionMemory.open(path) as memory:
        assert memory.predict(QUERIES, at_least=0.5) == answers
    assert fits


def test_what_was_fitted_is_not_believed_for_other_labels(path, answers, fits):
    with CorrectionMemory.open(path) as memory:
        memory.merge(["class 1", "class 2"], "class 1")
        memory.predict(QUERIES)
    assert fits


def test_what_was_fitted_is_not_believed_of_another_memory(path, answers, fits):
    other = path.with_name("other.sqlite")
    with CorrectionMemory.open(other) as memory:
        memory.learn(-X[:N], LABELS[:N])
        kept(other).write_bytes(kept(path).read_bytes())
        kept(other).chmod(0o600)
        memory.predict(QUERIES)
    assert fits


def test_nothing_stays_beside_a_file_of_what_is_forgotten(path, answers):
    with CorrectionMemory.open(path) as memory:
        memory.forget(3)
    assert not kept(path).exists()


def test_a_folder_that_cannot_be_written_only_takes_longer(path, answers, fits, monkeypatch):
    kept(path).unlink()
    kept(path).mkdir()
    with CorrectionMemory.open(path) as memory:
        assert memory.predict(QUERIES, at_least=0.5) == answers
    assert fits
