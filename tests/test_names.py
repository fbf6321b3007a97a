"""Label names: a row at the right moment and place; controls have names that say nothing."""

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from ocrrlib.embeddings import widen
from ocrrlib.scenario import make_scenario
from ocrrlib.systems import make
from ocrrlib.systems.base import class_means, class_sums
from studies import names
from studies.names import Named, compared, name_rows


@pytest.mark.parametrize("upfront", [False, True])
def test_a_name_moved_to_where_sentences_are_is_the_first_row_of_a_new_class(upfront, tiny):
    s = make_scenario(tiny, 0, held_out=4, cap=None)
    parts = [
        np.concatenate([getattr(s, f"{name}_{part}") for part in ("initial", "stream")])
        for name in "Xy"
    ]
    means = class_means(*class_sums(*parts, len(s.classes)))
    named = Named(make("ledger_lda"), means - 0.3, upfront)
    other = make("ledger_lda")
    for system in (named, other):
        system.fit(s.X_initial, s.y_initial, s.classes)
    np.testing.assert_allclose(named.rows, widen(means), atol=1e-6)
    first, second = np.flatnonzero(s.y_stream == s.held_out[0])[:2]
    label = int(s.held_out[0])
    for new in sorted(s.held_out.tolist()) if upfront else [label]:
        other.correct(named.rows[new], new)
    if upfront:
        np.testing.assert_array_equal(named.predict(s.queries), other.predict(s.queries))
    for place in (first, second):
        for system in (named, other):
            system.correct(s.X_stream[place], label)
    np.testing.assert_array_equal(named.predict_proba(s.queries), other.predict_proba(s.queries))
    assert named.seen.sum() == 12 - (0 if upfront else 3)


def test_as_a_control_every_class_has_the_name_of_another_one_or_an_opaque_one(banking):
    own, other = (name_rows(banking, way, 1) for way in ("arriving", "upfront, shuffled"))
    assert (own != other).any(axis=1).all() and sorted(map(bytes, own)) == sorted(map(bytes, other))
    opaque = {bytes(row) for row in widen(load_file(names.NAMES_FILE)["opaque"])}
    assert {bytes(row) for row in name_rows(banking, "arriving, opaque", 1)} <= opaque


def test_differences_are_to_the_same_system_without_names_seed_by_seed():
    values = {"none": (0.5, 0.7, 0.6), "arriving": (0.6, 0.9, 0.6)}
    rows = [
        ("hwu64", "oracle", seed, "ncm", way, x)
        for way, own in values.items()
        for seed, x in enumerate(own)
    ]
    rows = pd.DataFrame(rows, columns=[*names.LABEL_NAMES.key, "novel"])
    rows = rows.assign(
        **dict.fromkeys(("original", "ausuc", "novel_over_steps", "ausuc_over_steps"), 0.5)
    )
    found = compared(rows).set_index(["metric", "names"])
    assert len(found) == 5 and found.loc[("novel", "arriving"), "difference"] == pytest.approx(0.1)
    assert (found["p_holm"] == 1).all() and (found.drop(index="novel")[["low", "high"]] == 0).all(
        axis=None
    )


@pytest.mark.slow
def test_the_published_embeddings_are_those_of_the_encoder(tmp_path, monkeypatch):
    published = load_file(names.NAMES_FILE)
    monkeypatch.setattr(names, "NAMES_FILE", tmp_path / "names.safetensors")
    names.embed_names()
    for name, rows in load_file(names.NAMES_FILE).items():
        np.testing.assert_allclose(rows.astype(float), published[name].astype(float), atol=1e-3)
