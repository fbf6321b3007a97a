"""A function's identity changes with whatever decides its results, and with nothing else that can be helped."""

import functools
import importlib
import importlib.util
import math
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.errors import InputError
from ocrrlib.files import ROOT
from ocrrlib.identity import full_name, identity


def make(values):
    """A function that holds values from around it."""

    def encode(texts):
        return np.full((len(texts), 2), values)

    return encode


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(plain, plain)
def test_functions_differ_exactly_where_the_values_that_they_hold_do(a, b):
    assert (identity(make(a)) == identity(make(b))) == (_plainly(a) == _plainly(b))


def _plainly(value):
    """A text that is the same for the same value: order does not count in a dictionary, kinds of numbers do."""
    if isinstance(value, dict):
        return f"dict {[(key, _plainly(value[key])) for key in sorted(value, key=repr)]}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} {[_plainly(item) for item in value]}"
    return f"{type(value).__name__} {value!r}"


def test_it_begins_with_module_and_qualified_name():
    function = make(1)
    name, digest = identity(function).split()
    assert name == full_name(function) == f"{__name__}.make.<locals>.encode" and len(digest) == 64
    assert full_name(functools.partial(function)) == name and full_name(Scaled(1)) == f"{__name__}.Scaled"


# --- what counts

TABLE, LOCK = {"a": 1}, threading.Lock()


def uses_a_name(texts):
    return [[TABLE["a"]] for _ in texts]


def helper(texts):
    return uses_a_name(texts)


def uses_another(texts):
    def inner():
        return helper(texts)

    return inner()


def calls_itself(texts):
    return calls_itself(texts[1:]) if texts else []


def uses_libraries(texts):
    return np.sqrt([[math.pi, textwrap.dedent("1") == "1"]])


class Scaled:
    factor = 2.0

    def __init__(self, start):
        self.start = start

    def __call__(self, texts):
        return np.full((len(texts), 2), self.start * self.factor)

    def method(self, texts):
        return self(texts)


@dataclass
class Settings:
    size: int


class Table(dict):
    """What it holds is not among its attributes."""


def with_a_default(texts, values=(1, 2)):
    return values


@functools.lru_cache
def wrapped(texts):
    return TABLE


@pytest.mark.parametrize("function", [uses_a_name, uses_another, wrapped])
def test_names_of_the_module_count_directly_or_not(function, monkeypatch):
    before = identity(function)
    assert identity(function) == before
    monkeypatch.setitem(TABLE, "a", 2)
    assert identity(function) != before


@pytest.mark.parametrize(
    "one, other",
    [
        (Scaled(1), Scaled(2)),
        (Scaled(1).method, Scaled(2).method),
        (functools.partial(make, 1), functools.partial(make, 2)),
        (functools.partial(make, values=1), functools.partial(make, values=2)),
        (lambda texts: texts + [1], lambda texts: texts + [2]),
        (make(np.zeros(3)), make(np.zeros(4))),
        (make(np.zeros(3)), make(np.zeros(3, np.float32))),
        (make(Settings(1)), make(Settings(2))),
        (make(Table(a=1)), make(Table(a=2))),
        (make({1, "a"}), make({1, "b"})),
        (make(make(1)), make(make(2))),
        (make(lambda: 1), make(lambda: 2)),
        (make("a-b".split), make("a-c".split)),
        (make(Scaled), make(Settings)),
        (make(np), make(math)),
        (make(np.sqrt), make(np.exp)),
        (make(1), make(True)),
    ],
)
def test_what_a_function_is_made_of_counts(one, other):
    assert identity(one) == identity(one) and identity(one) != identity(other)


def test_a_default_counts(monkeypatch):
    before = identity(with_a_default)
    monkeypatch.setattr(with_a_default, "__defaults__", ((1, 3),))
    assert identity(with_a_default) != before


def test_a_classs_attributes_and_methods_count(monkeypatch):
    before = identity(Scaled(1))
    monkeypatch.setattr(Scaled, "factor", 3.0)
    factor = identity(Scaled(1))
    monkeypatch.setattr(Scaled, "method", lambda self, texts: None)
    assert len({before, factor, identity(Scaled(1))}) == 3


@pytest.mark.parametrize("function", [calls_itself, uses_libraries, wrapped, with_a_default, make(Settings(1))])
def test_functions_that_use_themselves_libraries_or_generated_classes_have_one(function):
    assert identity(function) == identity(function)


SOURCE = "import numpy as np\n\n\ndef encode(texts):\n    return np.ones((len(texts), {}))\n"


def imported(path, text):
    path.write_text(text)
    importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location("of_a_file", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.encode


def test_the_source_counts_even_where_the_file_was_edited_after_it_was_imported(tmp_path):
    three = imported(tmp_path / "three.py", SOURCE.format(3))
    before = identity(three)
    assert identity(imported(tmp_path / "again.py", SOURCE.format(3))) == before
    assert identity(imported(tmp_path / "four.py", SOURCE.format(4))) != before
    (tmp_path / "three.py").write_text(SOURCE.format(4))  # but three still gives rows of length 3
    assert identity(three) != identity(imported(tmp_path / "four.py", SOURCE.format(4)))


def test_without_source_the_bytecode_counts():
    def defined(number):
        names = {"np": np, "__name__": "nowhere"}
        exec(f"def encode(texts):\n    return np.ones((len(texts), {number}))", names)
        return names["encode"]

    assert identity(defined(3)) == identity(defined(3)) != identity(defined(4))


def test_it_is_the_same_in_another_process(monkeypatch):
    program = """if True:
        import test_identity as t
        print(t.identity(t.make({"a", "b", "c", ("d", 1)})), t.identity(t.uses_another), t.identity(t.Scaled(1)))
    """
    said = set()
    for seed in "12":
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'tests'}")
        run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
        said.add(run.stdout)
    assert len(said) == 1


# --- what cannot be followed


def holds_a_lock(texts):
    return LOCK


@pytest.mark.parametrize("function, where", [(holds_a_lock, "LOCK in "), (make(threading.Lock()), "values in ")])
def test_what_cannot_be_followed_is_refused_by_its_name(function, where):
    with pytest.raises(InputError, match=f"what {where}.*holds, a lock .*`revision`") as caught:
        identity(function)
    assert "\n" not in str(caught.value)


def test_tensors_count_by_what_is_in_them_and_models_that_give_no_vectors_are_refused():
    torch = pytest.importorskip("torch")
    one = identity(make(torch.arange(3.0)))
    assert one == identity(make(torch.arange(3.0))) != identity(make(torch.arange(3.0) + 1))
    assert one != identity(make(torch.arange(3.0).to(torch.bfloat16)))
    for value in (torch.nn.Linear(2, 2), functools.partial(torch.nn.Linear(2, 2).forward, 1)):
        with pytest.raises(InputError, match="a Linear .*`revision`"):
            identity(make(value))


def holding(values, factor=1.0):
    """A function that holds a lock and values, and gives vectors."""
    lock = threading.Lock()

    def encode(texts):
        with lock:
            return [[factor * len(text), values[0]] for text in texts]

    return encode


def test_what_cannot_be_followed_counts_by_what_it_gives():
    one = identity(holding([1, 2]))
    assert one == identity(holding([1, 2]))
    assert len({one, identity(holding([2, 2])), identity(holding([1, 3])), identity(holding([1, 2], 2.0))}) == 4


def test_functions_with_the_same_code_that_hold_something_hidden_are_told_apart_by_vectors():
    def holding_all(hidden):
        lines = (hidden for _ in range(10**6))  # a generator cannot be looked into
        return lambda texts: [[len(text), next(lines)] for text in texts]

    assert identity(holding_all(1)) == identity(holding_all(1)) != identity(holding_all(2))


def test_what_cannot_be_followed_and_gives_other_vectors_when_asked_again_is_refused():
    numbers = iter(range(10**6)).__next__
    lines = (numbers() for _ in range(10**6))
    with pytest.raises(InputError, match="gives other vectors for the same texts when it is asked again"):
        identity(lambda texts: [[next(lines)] for _ in texts])


def test_models_count_by_their_weights_too():
    torch = pytest.importorskip("torch")

    def holding_model(weight):
        model = torch.nn.Linear(1, 1, bias=False)
        model.weight.data[:] = weight
        model.note = threading.Lock()
        return lambda texts: [[1.0] for _ in texts if model]

    assert identity(holding_model(1.0)) == identity(holding_model(1.0)) != identity(holding_model(2.0))


def test_a_vectoriser_counts_by_what_it_was_fitted_on_and_not_by_its_use():
    text = pytest.importorskip("sklearn.feature_extraction.text")

    def holding_vectoriser(words):
        vectoriser = text.TfidfVectorizer().fit([words])
        return lambda texts: vectoriser.transform(texts).toarray()

    one = holding_vectoriser("xylophone zebra")
    before = identity(one)
    one(["zebra"])
    assert identity(one) == before == identity(holding_vectoriser("xylophone zebra"))
    assert before != identity(holding_vectoriser("xylophone yak")), "though no text of the probe has either word"


def test_a_revision_says_what_a_function_is(monkeypatch):
    monkeypatch.setattr(holds_a_lock, "revision", "1", raising=False)
    first = identity(holds_a_lock)
    assert identity(holds_a_lock) == first
    monkeypatch.setattr(holds_a_lock, "revision", "2", raising=False)
    assert identity(holds_a_lock) != first
