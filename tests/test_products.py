"""Products: sentences behind the contract of a system; runs are kept; figures are judged fairly."""

import importlib.metadata

import numpy as np
import pandas as pd
import pytest

from ocrrlib.datasets import Texts
from ocrrlib.embeddings import Sentences
from ocrrlib.files import InputError
from ocrrlib.metrics import final
from ocrrlib.policies import POLICIES
from ocrrlib.runs import published
from paper import products as tables
from studies import product_claims, products
from studies.product_adapters import MEMORIES, NONE, SHIPPED, Product, check_versions

CLASSES = tuple(f"class {label:02d}" for label in range(12))


class Memory(Product):
    """Knows the sentences that it was given, and no other."""

    def _begin(self, texts, labels):
        self.known = dict(zip(texts, labels))

    def _answers(self, texts):
        return [self.known.get(text) for text in texts]

    def _add(self, text, label):
        self.known[text] = label

    def _bytes(self):
        return 10 * len(self.known)


class Forgetful(Memory):
    """Keeps nothing of a correction."""

    def _add(self, text, label):
        pass


class Last(Memory):
    """Keeps the last correction alone."""

    def _add(self, text, label):
        self.known = {text: label}


@pytest.fixture
def sentences():
    """Every class has twenty training sentences and three test sentences of its own."""
    train = [f"sentence {n} of {name}" for name in CLASSES for n in range(20)]
    test = [f"question {n} of {name}" for name in CLASSES for n in range(3)]
    y_train = np.repeat(np.arange(12), 20)
    y_test = np.repeat(np.arange(12), 3)
    return Sentences("tiny", "none", CLASSES, np.array(train), y_train, np.array(test), y_test)


def test_a_product_takes_sentences_and_answers_class_ids_or_none():
    product = Memory().fit(np.array(["my card", "my pin"]), np.array([2, 0]), CLASSES)
    product.correct("lost", 5)
    answers = product.predict(np.array(["my pin", "lost", "never heard"]))
    assert answers.tolist() == [0, 5, NONE]
    assert (product.storage().entries, product.storage().bytes) == (3, 30)


@pytest.mark.parametrize(
    "product, at_once, at_the_end", [(Memory, 1, 1), (Forgetful, 0, 0), (Last, 1, 1 / 200)]
)
def test_a_correction_holds_if_its_sentence_is_answered_so_at_once_and_at_the_end(
    product, at_once, at_the_end, sentences
):
    outcome = products.run_one(product(), sentences, "oracle", 0)
    assert (outcome["holds_at_once"], outcome["holds"]) == (at_once, at_the_end)
    assert outcome["corrections"] == outcome["mistakes"] == 200  # ten classes of twenty


def test_a_product_meets_the_coins_of_all_other_systems(sentences):
    outcome = products.run_one(Memory(), sentences, "random10", 1)
    assert outcome["corrections"] == POLICIES["random10"].draws(1, 200).sum()
    assert outcome["entries"] == 40 + outcome["corrections"]


def test_a_finished_run_is_kept_for_its_version_and_a_stop_loses_the_unfinished_one_only(
    tmp_path, monkeypatch, sentences
):
    made = []

    def make_product(name, dataset):
        made.append(name)
        if len(made) == 2:
            raise KeyboardInterrupt
        return Memory()

    monkeypatch.setattr(products, "load_sentences", lambda dataset, backbone: sentences)
    monkeypatch.setattr(Sentences, "fingerprint", "of the texts")
    monkeypatch.setattr(products, "make_product", make_product)
    settings = [
        dict(zip(products.PRODUCT_RUN, ("tiny", "random10", seed, "microresolve")))
        for seed in (0, 1)
    ]
    with pytest.raises(KeyboardInterrupt):
        list(products.runs(settings, tmp_path))
    rows = pd.DataFrame(products.runs(settings, tmp_path))
    assert len(made) == 3 and rows["seed"].tolist() == [0, 1]
    assert rows["version"].unique() == [SHIPPED["microresolve"]]
    monkeypatch.setitem(SHIPPED, "microresolve", "next")
    list(products.runs(settings, tmp_path))
    assert len(made) == 5


@pytest.mark.parametrize("found", [None, "0.0.1"])
def test_a_product_that_is_missing_or_of_another_version_is_refused_in_one_line(found, monkeypatch):
    def version(name):
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(InputError, match="microresolve.*make products") as error:
        check_versions()
    assert "\n" not in str(error.value)


def test_what_was_learnt_from_the_test_file_shows_in_the_figure_with_the_leak_alone(sentences):
    texts = Texts(
        train=sentences.X_train.tolist() * 2,
        train_labels=[CLASSES[label] for label in sentences.y_train] * 2,
        test=sentences.X_test.tolist(),
        test_labels=[CLASSES[label] for label in sentences.y_test],
    )
    found = product_claims.learning(Memory, texts, seed=0)
    assert (found["cold"], found["leak"], found["fair"]) == (0, 1, 0)


@pytest.mark.parametrize(
    "fair, verdict",
    [(0.93, "holds"), (0.80, "holds in direction"), (0.70, "does not hold")],
)
def test_the_figure_without_the_leak_decides(fair, verdict):
    (figure,) = [one for one in product_claims.FIGURES if one.name == "banking77_learnt"]
    found = {"banking77.cold": 0.73, "banking77.leak": 0.946, "banking77.fair": fair}
    assert product_claims.judge(figure, found) == verdict


@pytest.mark.parametrize("memory, reader", MEMORIES.items())
def test_our_memory_as_shipped_ends_where_its_reader_does_on_published_rows(memory, reader):
    ends = final(published("beyond").query("system == @reader"))
    ours = published("products").query("product == @memory")
    both = ours.merge(ends, on=["dataset", "policy", "seed"], suffixes=("", "_published"))
    assert len(both) == len(ours) == 9
    # Texts are encoded anew, and not rounded to half precision as published rows are.
    assert abs(both["novel"] - both["novel_acc"]).max() < 0.05
    assert abs(both["original"] - both["original_acc"]).max() < 0.01
    assert (both["holds"] == 1).all()


def test_products_are_compared_on_streams_that_all_have_met():
    rows = pd.DataFrame(
        [("hwu64", "oracle", seed, name) for name, n in (("a", 3), ("b", 2)) for seed in range(n)],
        columns=[*products.PRODUCT_RUN],
    )
    assert sorted(tables.shared(rows)["seed"]) == [0, 0, 1, 1]
