"""Evaluations: of the registry as published, of one's own as one would expect, of bad input in one line."""

import ctypes
import json
import pickle
import random
import subprocess
import sys
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from conftest import Means, clusters
from matplotlib.colors import to_rgba
from river import naive_bayes
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB

import ocrrlib
from ocrrlib import cards, embeddings, results
from ocrrlib.cards import published_cards
from ocrrlib.cards.cells import METRICS, place_of
from ocrrlib.cards.check import check
from ocrrlib.cards.standings import standings
from ocrrlib.embeddings import Embedded
from ocrrlib.errors import InputError
from ocrrlib.evaluation.candidates import Candidate
from ocrrlib.evaluation.data import n_held_out
from ocrrlib.evaluation.evaluate import evaluate
from ocrrlib.evaluation.outcome import Evaluation, Stopped
from ocrrlib.files import ROOT
from ocrrlib.policies import POLICIES, Policy
from ocrrlib.statistics.summary import measure
from ocrrlib.systems import SYSTEMS, make
from ocrrlib.systems.base import Storage, System
from ocrrlib.systems.ncm import NCM

QUIET = dict(progress=False)


def random_means(seed):
    """A factory."""
    return Means() if seed else NCM(seed)


@pytest.fixture(scope="module")
def published():
    return results.read(ROOT / "data/results/beyond.parquet")[0]


@pytest.fixture(scope="module")
def ncm(banking):
    return evaluate("ncm_cosine", banking, seeds=[0, 3], **QUIET)


def test_a_system_of_the_registry_gives_exactly_the_published_numbers(ncm, published):
    cell = published[(published["dataset"] == "banking77") & (published["policy"] == "oracle")]
    own = cell[(cell["system"] == "ncm_cosine") & cell["seed"].isin([0, 3])]
    pd.testing.assert_frame_equal(ncm.curve, own.reset_index(drop=True), check_exact=True)


def test_areas_over_corrections_are_those_of_the_policy(banking, published):
    found = evaluate("ncm_cosine", banking, seeds=[3], policy="random10", **QUIET)
    cell = published[(published["dataset"] == "banking77") & (published["policy"] == "random10")]
    wanted = measure(cell[(cell["system"] == "ncm_cosine") & (cell["seed"] == 3)])
    pd.testing.assert_frame_equal(found.runs, wanted[list(found.runs)], check_exact=True)
    over = found.runs["novel_over_corrections"]
    assert (over != measure(found.curve.assign(policy="oracle"))["novel_over_corrections"]).all()


def test_its_card_has_the_published_numbers_and_can_be_written(ncm, tmp_path):
    cards.write_card(ncm.card(), tmp_path / "own.json")
    card = cards.read_card(tmp_path / "own.json")
    other = cards.read_card(ROOT / "data/results/cards/ncm_cosine.json")
    own, theirs = card["cells"][0], other["cells"][0]
    assert place_of(own) == place_of(theirs) and own["encoder"] == theirs["encoder"]
    for name, values in own["finals"].items():
        assert values == [theirs["finals"][name][seed] for seed in (0, 3)]
    assert card["system"] == other["system"] and card["source"] == "own run"
    assert set(card["made_with"]) == {"ocrrlib", "python", "libraries", "code"}
    assert "ncm_cosine" in cards.markdown(card)


def test_tests_that_are_further_apart_see_the_same_run_and_are_a_cell_of_their_own(ncm, banking):
    rare = evaluate("ncm_cosine", banking, seeds=[0, 3], every=300, **QUIET)
    seen = ncm.curve[ncm.curve["step"].isin(rare.curve["step"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(rare.curve, seen, check_exact=True)
    assert len(rare.curve) < len(ncm.curve) / 4
    (cell,), (usual,) = rare.card()["cells"], ncm.card()["cells"]
    check(rare.card())
    assert cell["every"] == 300 and "every" not in usual and place_of(cell) != place_of(usual)
    assert "all test rows every 300 stream items" in cards.markdown(rare.card())
    with pytest.raises(InputError, match="300 stream items with; there are: .* tested every 50 stream items"):
        rare.compared()
    for wrong in (0, 2.5, "50"):
        with pytest.raises(InputError, match="every .* is out of range"):
            evaluate("ncm", banking, every=wrong)


def test_it_stands_beside_itself_among_the_published_systems(ncm):
    table = ncm.compared()
    assert len(table) == 1 + len(published_cards()) and table["own"].sum() == 1 and set(table["seeds"]) == {2}
    both = table[table["system"] == "ncm_cosine"]
    assert len(both) == 2 and both["own"].tolist() == [True, False]
    pd.testing.assert_series_equal(both.iloc[0, 2:-1], both.iloc[1, 2:-1], check_names=False)
    assert table["collapsed"].is_monotonic_increasing and not table["collapsed"].iloc[0]
    for _, part in table.groupby("collapsed"):
        assert part["anytime novel"].is_monotonic_decreasing


def test_only_the_seeds_that_both_have_are_compared(banking):
    some = evaluate("ncm", banking, seeds=[18, 19, 20, 21], **QUIET)
    table = some.compared()
    assert set(table["seeds"]) == {2}
    both = table[table["system"] == "ncm"]
    pd.testing.assert_series_equal(both.iloc[0, 2:-1], both.iloc[1, 2:-1], check_names=False)
    about = some.about
    with pytest.raises(
        InputError, match="none of the seeds of ncm is published for banking77.*: .* seeds 0, 1, .*, 19"
    ):
        Evaluation(some.curve[some.curve["seed"] > 19], about).compared()


def test_a_policy_of_ones_own_is_streamed_under_its_name(tiny):
    own = evaluate("ncm", tiny, [0], Policy("mine", 0.5), **QUIET)
    half = evaluate("ncm", tiny, [0], "random50", **QUIET)
    pd.testing.assert_frame_equal(own.curve.drop(columns="policy"), half.curve.drop(columns="policy"))
    assert set(own.curve["policy"]) == {"mine"}
    pd.testing.assert_frame_equal(evaluate("ncm", tiny, [0], POLICIES["random50"], **QUIET).curve, half.curve)
    with pytest.raises(InputError, match="policy 'mine' is known to this run only: cards are for oracle"):
        own.card()


def test_a_system_that_reads_sentences_says_where_they_can_be_had(tmp_path, monkeypatch):
    monkeypatch.setenv("OCRR_DATA_DIR", str(tmp_path))
    with pytest.raises(InputError, match="train.csv is missing: OCRR_DATA_DIR must hold banking77/train.csv"):
        evaluate("lora", seeds=[0], **QUIET)


def test_the_summary_has_one_row_per_metric_of_the_runs(ncm):
    told, runs = ncm.summary.set_index("metric"), measure(ncm.curve)
    assert list(told.index) == ["novel", "original", "anytime novel", "anytime original", "corrections"]
    assert told.at["anytime novel", "mean"] == pytest.approx(runs["novel_over_steps"].mean())
    assert told.at["novel", "sd"] == pytest.approx(runs["novel"].std())
    assert (told["low"] <= told["mean"]).all() and (told["n"] == 2).all()
    assert "ncm_cosine on banking77, oracle" in repr(ncm) and "2 seeds" in repr(ncm)


def test_the_figure_shows_the_curve_and_all_published_systems_and_leaves_the_look_as_it_was(ncm, tiny):
    before = dict(plt.rcParams)
    figure = ncm.plot()
    assert dict(plt.rcParams) == before and plt.get_fignums() == []
    curve, plane = figure.axes
    assert len(curve.lines) == 2 and plane.get_title() == "among all published systems"
    low = plane.get_xlim()[0]
    at = np.concatenate([dots.get_offsets() for dots in plane.collections])[:, 0]
    own = ncm.runs["original"].mean()
    kept = standings(cards.published_cards(), place_of(ncm.card()["cells"][0]))["original"]
    assert 0 < low < own and (kept < low).any()  # what is further left stands on the edge
    assert (at > low).sum() == 1 + (kept > low).sum() and (at == low).sum() == (kept < low).sum()
    alone = evaluate("ncm", tiny, seeds=[1], name="mine", **QUIET).plot()
    assert alone.axes[1].get_title() == "nothing published to compare with"


def test_where_some_seeds_are_published_the_figure_shows_those_of_all_systems():
    some = evaluate("ncm", seeds=[19, 20], **QUIET)
    (plane,) = (axes for axes in some.plot().axes if "published" in axes.get_title())
    assert plane.get_title() == "among all published systems (1 of 2 seeds)"
    row = some.compared().query("own").iloc[0]
    (mark,) = (dots for dots in plane.collections if dots.get_label() == "ncm")
    np.testing.assert_allclose(mark.get_offsets()[0], [row["original"], row["novel"]])
    assert row["novel"] != some.runs["novel"].mean()


def named(evaluation, name):
    return replace(evaluation, about=evaluation.about | {"system": evaluation.about["system"] | {"name": name}})


def test_several_evaluations_are_drawn_together_each_in_its_colour(ncm, tiny):
    cosine = evaluate("ncm", seeds=[0, 3], **QUIET)
    curves, plane = ncm.plot(cosine).axes
    assert [line.get_label() for line in curves.lines] == [
        f"{name}, {axis}" for name in ("ncm_cosine", "ncm") for axis in ("novel", "original")
    ]
    assert curves.get_title() == "mean of 2 seeds, 95 % t interval"
    unpublished = named(replace(cosine, curve=cosine.curve.assign(encoder="another")), "elsewhere")
    both = ncm.plot(unpublished).axes[1]
    assert both.get_title() == "among all published systems" and len(both.collections) == len(plane.collections)
    for one, line in zip((ncm, cosine), curves.lines[::2]):
        (mark,) = (dots for dots in plane.collections if dots.get_label() == one.name)
        means = one.runs[["original", "novel"]].mean()
        np.testing.assert_allclose(mark.get_offsets()[0], means, rtol=1e-5)  # cards are rounded
        np.testing.assert_allclose(line.get_ydata()[-1], means["novel"])
        assert to_rgba(line.get_color()) == tuple(mark.get_edgecolor()[0])
    mine, other = (evaluate("ncm", tiny, [0], name=name, **QUIET) for name in ("mine", "other"))
    assert len(mine.plot(other).axes[1].collections) == 2  # nothing is published: both stand alone
    with pytest.raises(InputError, match="ncm_cosine and mine met different streams .dataset banking77 and tiny"):
        ncm.plot(mine)
    with pytest.raises(InputError, match="ncm_cosine and mine have other seeds: draw"):
        ncm.plot(named(replace(ncm, curve=ncm.curve[ncm.curve["seed"] == 3]), "mine"))
    with pytest.raises(InputError, match="a str is no evaluation: give what evaluate returned"):
        ncm.against("slda")
    with pytest.raises(InputError, match="two of mine, mine have one name: give each its own"):
        mine.plot(mine)


THINGS = {
    "registry": "ncm",
    "system": make("er"),
    "class": NCM,
    "factory": random_means,
    "object": Means(),
    "scikit-learn": GaussianNB(),
    "river": naive_bayes.GaussianNB(),
    "lambda": lambda seed: SGDClassifier(max_iter=5),
}


@pytest.mark.parametrize("name", THINGS)
def test_whatever_can_be_a_system_is_evaluated_and_left_as_it_was(name, tiny):
    given = THINGS[name]
    before = pickle.dumps(given) if name != "lambda" else b""
    found = evaluate(given, tiny, seeds=range(2), **QUIET)
    told = found.summary.set_index("metric")["mean"]
    assert told["novel"] > 0.5 and told["original"] > 0.4 and told["corrections"] > 0
    assert before == (pickle.dumps(given) if name != "lambda" else b"")
    assert found.about["held_out"] == 3 and list(found.curve["seed"].unique()) == [0, 1]
    check(found.card())


def test_a_network_that_lacks_methods_is_no_factory(tiny):
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match=r"Linear .*: give an object with fit\(X, y, classes\)"):
        evaluate(torch.nn.Linear(2, 2), tiny, [0], **QUIET)


LATE = """
import sys
import numpy as np
from conftest import Means, clusters
from ocrrlib.embeddings import Embedded
from ocrrlib.evaluation.evaluate import evaluate

class Late(Means):
    def fit(self, X, y, classes):
        import torch
        super().fit(X, y, classes)
        self.sums += 5 * torch.randn(self.sums.shape).numpy()

X, y = clusters(8, 20, 6, seed=0)
data = Embedded("tiny", "none", tuple("abcdefgh"), X, y, X, y)
assert "torch" not in sys.modules
first, again = (evaluate(Late(), data, [0, 1], progress=False).curve for _ in range(2))
assert first.equals(again), first.compare(again)
assert not first[first["seed"] == 0].drop(columns="seed").equals(first[first["seed"] == 1].drop(columns="seed"))
"""


def test_torch_that_is_imported_late_is_seeded_all_the_same():
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, "-c", LATE], cwd=ROOT / "tests", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_attribute_called_storage_is_not_asked_for_bytes(tiny):
    own = Means()
    own.storage = []
    assert (evaluate(own, tiny, [0], **QUIET).curve["storage_bytes"] == 0).all()


class Neighbours(Means):
    def __init__(self, k=5):
        super().__init__()
        self.k = k


class Seeded(Means):
    def __init__(self, k=5, *, seed=None):
        super().__init__()
        self.k, self.seed = k, seed


def plain():
    return Neighbours()


def with_settings(k=5):
    return Neighbours(k)


def of_a_number(number):
    return Seeded(seed=number)


@pytest.mark.parametrize(
    "given", [Means, Neighbours, SGDClassifier, GaussianNB, plain, with_settings, Seeded, of_a_number]
)
def test_a_class_or_function_gets_the_seed_where_it_takes_one_and_nothing_else(given, tiny):
    made = Candidate(given, "").make(3)
    if given in (Seeded, of_a_number):
        assert made.given.seed == 3
    if hasattr(made.given, "k"):
        assert made.given.k == 5
    found = evaluate(given, tiny, seeds=[3], **QUIET)
    assert found.name == given.__name__ and found.summary["mean"][1] > 0.4
    check(found.card())


def test_a_class_that_needs_more_than_a_seed_says_what_it_takes(tiny):
    class Needs(Means):
        def __init__(self, n_classes):
            pass

    with pytest.raises(InputError, match=r"Needs takes \(n_classes\), .*give a function of a seed"):
        evaluate(Needs, tiny, **QUIET)


def test_names_are_given_or_follow_from_what_is_evaluated(tiny):
    titles = {name: Candidate(given, "").title for name, given in THINGS.items()}
    assert titles["registry"] == "ncm" and titles["class"] == "NCM" and titles["factory"] == "random_means"
    assert titles["object"] == "Means" and titles["scikit-learn"] == "GaussianNB" and titles["lambda"] == "own_system"
    found = evaluate(Means(), tiny, seeds=[0], name="mine", **QUIET)
    assert found.name == "mine" and set(found.curve["system"]) == {"mine"}


@pytest.mark.parametrize("name", ["er", "klda"])
def test_an_object_of_the_registry_is_evaluated_as_its_name_is(name, tiny):
    by_name, by_object = (evaluate(given, tiny, [0, 2], name="x", **QUIET) for given in (name, SYSTEMS[name].make(9)))
    pd.testing.assert_frame_equal(by_name.curve, by_object.curve)


@pytest.mark.parametrize("name", ["object", "scikit-learn", "lambda", "system"])
def test_any_number_of_jobs_gives_the_same(name, tiny):
    one, two = (evaluate(THINGS[name], tiny, [4, 0, 1], "random50", jobs=jobs, **QUIET) for jobs in (1, 2))
    pd.testing.assert_frame_equal(one.curve, two.curve)
    assert one.card() == two.card() and list(one.curve["seed"].unique()) == [4, 0, 1]


def test_what_cannot_be_sent_runs_in_one_process_and_is_refused_in_two(tiny):
    class Locked(Means):
        def __init__(self):
            super().__init__()
            self.lines = (line for line in ())

        def __deepcopy__(self, memo):
            return Means()

    assert len(evaluate(Locked(), tiny, [0, 1], **QUIET).runs) == 2
    with pytest.raises(InputError, match="Locked cannot be sent to other processes .*: give jobs=1"):
        evaluate(Locked(), tiny, [0, 1], jobs=2, **QUIET)


class Held(Means):
    """It can be neither copied nor sent."""

    def __init__(self):
        super().__init__()
        self.lines = (line for line in ())


def test_what_cannot_be_copied_is_made_anew_for_each_seed_or_refused(tiny):
    wanted = evaluate(Means, tiny, [0, 1], name="x", **QUIET).curve
    for given in (Held, lambda seed: Held()):
        pd.testing.assert_frame_equal(evaluate(given, tiny, [0, 1], name="x", **QUIET).curve, wanted)
    with pytest.raises(
        InputError, match="Held cannot be copied .*: give the class, or a function that makes a new one"
    ):
        evaluate(Held(), tiny, [0, 1], **QUIET)


class Interrupted(Means):
    """Stopped from the keyboard in its second seed."""

    def __init__(self, seed, at=4):
        super().__init__()
        self.seed, self.at = seed, at

    def correct(self, x, y):
        if self.seed == self.at:
            raise KeyboardInterrupt
        super().correct(x, y)


def test_who_stops_an_evaluation_keeps_the_seeds_that_were_done(tiny):
    with pytest.raises(Stopped, match="1 of 3 seeds of Interrupted were done; left are seeds 4,0") as stopped:
        evaluate(Interrupted, tiny, seeds=[7, 4, 0], **QUIET)
    whole = evaluate(Interrupted, tiny, seeds=[7], **QUIET)
    pd.testing.assert_frame_equal(stopped.value.finished.curve, whole.curve)
    assert stopped.value.finished.card() == whole.card()
    with pytest.raises(KeyboardInterrupt) as caught:
        evaluate(Interrupted, tiny, seeds=[4, 7], **QUIET)
    assert not isinstance(caught.value, Stopped)


def test_a_card_of_ones_own_says_what_it_was(tiny):
    about = evaluate(Means(), tiny, [0], **QUIET).card()["system"]
    assert about["class"] == "Means" and about["module"] == Means.__module__ and len(about["source"]) == 64
    assert about["repr"].endswith("Means object>")  # no address: it would not be the same twice
    about = evaluate(random_means, tiny, [0], **QUIET).card()["system"]
    assert about["factory"] == f"{__name__}:random_means"
    card = evaluate(SGDClassifier(alpha=0.5), tiny, [0], **QUIET).card()
    assert card["system"]["repr"] == "SGDClassifier(alpha=0.5)" and "scikit-learn" in card["made_with"]["libraries"]
    typed = {}
    exec("class Typed(Means): pass", {"Means": Means, "__name__": "typed"}, typed)
    assert evaluate(typed["Typed"](), tiny, [0], **QUIET).card()["system"]["source"] is None


def test_a_quarter_of_few_classes_is_held_out_and_ten_of_many(banking):
    assert n_held_out(None, banking) == 10
    for n, expected in {2: 1, 3: 1, 4: 1, 8: 2, 39: 9, 40: 10, 41: 10}.items():
        data = Embedded("toy", "drawn", tuple(map(str, range(n))), *clusters(n, 2, 8, 0), *clusters(n, 2, 8, 1))
        assert n_held_out(None, data) == expected


def test_a_path_is_read_as_ones_own_data_with_the_encoder(tiny, tmp_path, monkeypatch):
    seen = []

    class Stand:
        @staticmethod
        def read_data(path, encoder, progress):
            seen.append((path, encoder, progress))
            return tiny

    monkeypatch.setitem(sys.modules, "ocrrlib.own_data.reading", Stand)
    found = evaluate("ncm", tmp_path / "tickets.csv", [0], encoder="some-encoder", **QUIET)
    assert seen == [(tmp_path / "tickets.csv", "some-encoder", False)] and found.curve["dataset"][0] == "tiny"
    evaluate("ncm", "vectors.npz", [0], **QUIET)
    assert seen[1][0] == "vectors.npz"


def toy(n_classes, test_of=None):
    X, y = clusters(n_classes, 10, 8, 0)
    X_test, y_test = clusters(n_classes, 4, 8, 1)
    kept = np.isin(y_test, range(n_classes) if test_of is None else test_of)
    return Embedded("toy", "drawn", tuple(f"class {i}" for i in range(n_classes)), X, y, X_test[kept], y_test[kept])


@pytest.mark.parametrize(
    "system, more, clue",
    [
        ("substrat", {}, "unknown system 'substrat' .did you mean 'substrate'"),
        ("ncm", dict(policy="oracel"), "unknown policy 'oracel' .*there are: oracle, random50"),
        ("ncm", dict(dataset="banking78"), "unknown dataset 'banking78'; there are: banking77, clinc150"),
        ("ncm", dict(dataset=np.zeros(3)), "a ndarray holds no rows and labels: give a file, a DataFrame, or a dict"),
        ("ncm", dict(seeds=[]), "out of range"),
        ("ncm", dict(seeds=[0, 0]), "different integers"),
        ("ncm", dict(seeds=[-1]), "out of range"),
        ("ncm", dict(seeds=["x"]), "not a list of integers"),
        ("ncm", dict(jobs=0), "0 jobs are out of range"),
        ("ncm", dict(held_out=12), "cannot hold out 12 of 12 classes: give 1 to 11"),
        ("ncm", dict(held_out=0), "cannot hold out 0 of 12"),
        ("ncm", dict(held_out=2.5), "cannot hold out 2.5 of 12"),
        ("ncm", dict(name=" "), "cannot be the system's name"),
        ("ncm", dict(encoder="other"), "was embedded by 'drawn at random', not by 'other'"),
        ("ncm", dict(dataset=toy(1)), "toy has 1 class"),
        (
            "ncm",
            dict(dataset=toy(4, test_of=[0, 1])),
            r"seed \d holds out class [23], and toy has no test rows of them",
        ),
        (
            "lora",
            dict(dataset="tickets.csv"),
            "sentences run on the benchmark's own datasets only, not on 'tickets.csv'",
        ),
        ("lora", {}, "not on 'tiny': give banking77 or clinc150"),
        ("lora", dict(dataset=np.zeros(3)), "not on a ndarray"),
        (
            "ncm",
            dict(policy=Policy("oracle", 0.3)),
            "'oracle' is the benchmark's own, and another one: give yours another",
        ),
        ("ncm", dict(encoder=None), "None is no encoder: give a name"),
        (MultinomialNB(), {}, "MultinomialNB refuses negative numbers"),
        (MultinomialNB, {}, "MultinomialNB refuses negative numbers"),
        (lambda: 3, {}, "int cannot be used as a system"),
        (lambda one, two: 3, {}, r"own_system takes \(one, two\), so it cannot be called with a seed"),
        (lambda seed: 3, {}, "int cannot be used as a system"),
        (7, {}, "int cannot be used as a system"),
    ],
)
def test_bad_input_is_refused_in_one_line_that_says_what_there_is(system, more, clue, tiny):
    with pytest.raises(InputError, match=clue) as caught:
        evaluate(system, **{"dataset": tiny, "seeds": range(4)} | QUIET | more)
    assert "\n" not in str(caught.value)


def test_what_fails_inside_a_system_says_which_seed(tiny):
    class Failing(Means):
        def correct(self, x, y):
            raise KeyError("theirs")

    with pytest.raises(KeyError, match="theirs") as caught:
        evaluate(Failing(), tiny, [5], **QUIET)
    assert caught.value.__notes__ == ["while Failing was evaluated on tiny, seed 5"]

    class Ending(Means):
        def correct(self, x, y):
            sys.exit(0)

    for jobs in (1, 2):
        with pytest.raises(RuntimeError, match="it ends the program with status 0") as caught:
            evaluate(Ending(), tiny, [5], jobs=jobs, **QUIET)
        assert caught.value.__notes__[0] == "while Ending was evaluated on tiny, seed 5"
    with pytest.raises(RuntimeError, match="ends the program with status 2"):
        evaluate(lambda seed: sys.exit(2), tiny, [5], **QUIET)

    class Odd(Means):
        def predict(self, X):
            return X

    with pytest.raises(InputError, match="Odd, seed 5: Odd.predict must give one class id"):
        evaluate(Odd(), tiny, [5], **QUIET)


CHANGES = {
    "assignment": lambda rows: rows.__setitem__(0, 0),
    "arithmetic": lambda rows: rows.__imul__(2),
    "output": lambda rows: np.multiply(rows, 2, out=rows),
    "sort": lambda rows: rows.sort(),
    "fill": lambda rows: rows.fill(0),
    "shuffle": lambda rows: np.random.default_rng(0).shuffle(rows),
}


@pytest.mark.parametrize("part", ["X", "y"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_who_changes_shared_rows_or_labels_is_told_to_copy_them(change, part, tiny):
    class Changing(Means):
        def fit(self, X, y, classes):
            change({"X": X, "y": y}[part])

    with pytest.raises(ValueError, match="read-only") as caught:  # the hint hangs on this word of NumPy's
        evaluate(Changing(), tiny, [5], **QUIET)
    assert "copy what is to be changed first" in caught.value.__notes__[1]


def test_who_changes_something_else_is_not_told_so(tiny):
    class Locked(Means):
        def correct(self, x, y):
            raise AttributeError("this attribute is read-only")

    with pytest.raises(AttributeError, match="read-only") as caught:
        evaluate(Locked(), tiny, [5], **QUIET)
    assert caught.value.__notes__ == ["while Locked was evaluated on tiny, seed 5"]


def test_a_cell_of_which_nothing_is_published_is_not_compared(tiny, banking):
    with pytest.raises(InputError, match="nothing is published to compare tiny, oracle.*banking77, oracle, all-Mini"):
        evaluate("ncm", tiny, [0], **QUIET).compared()
    with pytest.raises(InputError, match="5 classes held out with"):
        evaluate("ncm", banking, [0], held_out=5, **QUIET).compared()


# --- answers that hang on the batch


class Centred(Means):
    """Means that are asked about rows less the mean of all that come together."""

    def predict(self, X):
        return super().predict(X - X.mean(axis=0))


class Chance(Means):
    """Answers at random."""

    def predict(self, X):
        return np.random.randint(0, 12, len(X))


@pytest.mark.parametrize("system", [Centred, Chance])
@pytest.mark.parametrize("jobs", [1, 2])
def test_answers_that_hang_on_other_rows_or_on_chance_are_warned_of(system, jobs, tiny):
    with pytest.warns(UserWarning, match=f"{system.__name__} answers [0-9]+ of 32 test rows otherwise") as caught:
        evaluate(system, tiny, [0, 1], jobs=jobs, every=4, **QUIET)
    assert len(caught) == 1 and caught[0].filename == __file__


def test_answers_that_hang_on_their_row_alone_are_not_warned_of(tiny, recwarn):
    for system in (Means, GaussianNB(), "knn_lm", "substrate"):
        evaluate(system, tiny, [0], **QUIET)
    assert not [one for one in recwarn if "otherwise" in str(one.message)]


@pytest.mark.filterwarnings("ignore:.*otherwise")
def test_what_a_system_is_asked_in_the_end_does_not_change_its_curve(tiny, monkeypatch):
    curve = evaluate(Chance, tiny, [0], **QUIET).curve
    monkeypatch.setattr("ocrrlib.evaluation.one_seed._otherwise", lambda *_: 0)
    assert evaluate(Chance, tiny, [0], **QUIET).curve.equals(curve)


# --- one system against another


def test_differences_are_taken_seed_by_seed_over_the_seeds_that_both_have(tiny):
    one, other = evaluate("ncm", tiny, [3, 0, 1, 2], **QUIET), evaluate("static_knn", tiny, [1, 2, 4, 3], **QUIET)
    found = one.against(other)
    mine, its = (e.runs.set_index("seed").loc[[3, 1, 2]] for e in (one, other))
    assert found["metric"].tolist() == list(METRICS) and found["n"].tolist() == [3] * len(METRICS)
    for (metric, column), row in zip(METRICS.items(), found.itertuples()):
        gaps = mine[column].to_numpy() - its[column].to_numpy()
        assert row.mean == pytest.approx(gaps.mean()) and row.sd == pytest.approx(gaps.std(ddof=1)), metric
        assert row.low <= row.mean <= row.high
        assert (row.higher, row.lower) == ((gaps > 0).sum(), (gaps < 0).sum())
    back = other.against(one)
    np.testing.assert_allclose(back[["mean", "low", "high"]], -found[["mean", "high", "low"]])
    assert back["higher"].equals(found["lower"]) and back["lower"].equals(found["higher"])


def test_a_system_has_nothing_over_itself(tiny):
    one = evaluate("ncm", tiny, [0], Policy("mine", 0.5), **QUIET)
    found = one.against(one)
    assert not found[["mean", "higher", "lower"]].to_numpy().any() and found["low"].isna().all()


def test_readers_of_other_embeddings_of_the_same_texts_are_compared(banking):
    lexical = embeddings.load("banking77", "tfidf-svd")
    one, other = (evaluate("static_knn", data, [0], **QUIET) for data in (banking, lexical))
    assert one.against(other).set_index("metric").at["original", "mean"] > 0.05


def test_other_streams_are_not_compared(tiny):
    own = evaluate("ncm", tiny, [0], **QUIET)
    for changes, clue in {
        (("policy", "random50"),): "policy oracle and random50",
        (("held_out", 2),): "held_out 3 and 2",
        (("every", 7),): "every 50 and 7",
        (("seeds", (1, 5)),): "no seed in common: evaluate some of the seeds 1, 5",
    }.items():
        with pytest.raises(InputError, match=clue):
            own.against(evaluate("ncm", **dict(dataset=tiny, seeds=[0]) | dict(changes) | QUIET))
    other = replace(tiny, X_train=tiny.X_train[::-1], y_train=tiny.y_train[::-1])
    with pytest.raises(InputError, match="other rows, or split otherwise"):
        own.against(evaluate("ncm", other, [0], **QUIET))
    with pytest.raises(InputError, match="dataset tiny and large"):
        own.against(evaluate("ncm", replace(tiny, dataset="large"), [0], **QUIET))


def test_a_bar_counts_the_seeds(tiny, capsys):
    evaluate("ncm", tiny, range(3))
    shown = capsys.readouterr()
    assert "3/3" in shown.err and "ncm" in shown.err and "3 of 3 seeds done" in shown.err and shown.out == ""
    evaluate("ncm", tiny, range(3), **QUIET)
    assert capsys.readouterr().err == ""


class Drawing(System):
    """Answers by the generators that a process shares."""

    def _fit(self, X, y):
        self.start = np.random.random(), random.random()

    def _predict(self, X):
        return np.random.randint(self.n_classes, size=len(X))

    def _correct(self, x, y):
        pass

    def storage(self):
        return Storage(bytes=0)


@pytest.mark.filterwarnings("ignore:.*otherwise")
def test_systems_that_draw_from_shared_generators_are_repeated_too_and_leave_these_as_they_were(tiny):
    np.random.seed(7)
    random.seed(7)
    expected = np.random.random(), random.random()
    np.random.seed(7)
    random.seed(7)
    one, again = (evaluate(Drawing, tiny, range(3), jobs=jobs, **QUIET) for jobs in (1, 2))
    assert (np.random.random(), random.random()) == expected
    pd.testing.assert_frame_equal(one.curve, again.curve)


class Failing(System):
    """Fails at one seed."""

    def __init__(self, seed):
        self.seed = seed

    def _fit(self, X, y):
        if self.seed == 2:
            raise RuntimeError("no memory left")

    def _predict(self, X):
        return np.zeros(len(X), np.int64)

    def _correct(self, x, y):
        pass

    def storage(self):
        return Storage(bytes=0)


def test_an_error_has_the_seeds_that_were_done(tiny):
    with pytest.raises(RuntimeError, match="no memory left") as caught:
        evaluate(Failing, tiny, [0, 1, 2, 3], **QUIET)
    assert caught.value.finished.curve["seed"].unique().tolist() == [0, 1]
    assert any("seeds 0, 1 were done" in note for note in caught.value.__notes__)
    with pytest.raises(RuntimeError) as caught:
        evaluate(Failing, tiny, [2], **QUIET)
    assert not hasattr(caught.value, "finished")


@pytest.mark.parametrize("seeds", [3, np.int64(0)])
def test_one_number_of_seeds_is_refused_since_it_could_mean_two_things(tiny, seeds):
    with pytest.raises(InputError, match=rf"give \[{seeds}\] or range\({seeds}\)"):
        evaluate("ncm", tiny, seeds=seeds, **QUIET)


def test_the_package_itself_gives_evaluate_and_stays_quick_to_import():
    assert set(ocrrlib._HERE) <= set(dir(ocrrlib))
    assert ocrrlib.evaluate is evaluate and issubclass(NCM, System) and ocrrlib.read_card is cards.read_card
    with pytest.raises(AttributeError, match="no attribute 'evalute'"):
        ocrrlib.evalute
    code = """
import json, sys, ocrrlib
quick = sorted({name.split(".")[0] for name in sys.modules} & {"numpy", "pandas"})
import ocrrlib.evaluation.evaluate
optional = {"sklearn", "river", "matplotlib", "seaborn", "statsmodels", "torch", "tabulate"}
print(json.dumps([quick, sorted({name.split(".")[0] for name in sys.modules} & optional)]))
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(told) == [[], []]


class Centring(Means):
    """Changes what it is given, past NumPy's lock, as a tensor of the same memory does."""

    def __init__(self, what):
        super().__init__()
        self.what = what

    def _change(self, rows):
        where = rows.__array_interface__["data"][0]
        ctypes.memset(where, 0, rows.itemsize)

    def fit(self, X, y, classes):
        super().fit(X, y, classes)
        if self.what == "fit":
            self._change(X)

    def predict(self, X):
        answers = super().predict(X)
        if self.what == "predict" and len(X) > 1:
            self._change(X)
        return answers


@pytest.mark.parametrize("what", ["fit", "predict"])
def test_a_system_that_changes_rows_is_refused(tiny, what):
    fingerprint = tiny.fingerprint
    with pytest.raises(InputError, match="Centring changed the rows that it was given, which all share: copy them"):
        evaluate(Centring(what), tiny, [0], **QUIET)
    assert tiny.fingerprint == fingerprint


def test_few_tests_of_a_stream_are_warned_of(tiny, recwarn):
    with pytest.warns(UserWarning, match="stream of .* was tested 2 times, .* smaller `every` than 50") as caught:
        evaluate("ncm", tiny, [0], **QUIET)
    assert len(caught) == 1 and caught[0].filename == __file__
    recwarn.clear()
    evaluate("ncm", tiny, [0], every=4, **QUIET)
    assert not len(recwarn)
