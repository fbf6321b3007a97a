"""One class among the original ones: its test rows are told from the others, seed by seed."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ocrrlib.errors import InputError
from ocrrlib.report.beyond import out_of_scope as report
from ocrrlib.scenario import make_scenario
from ocrrlib.statistics.one_class import alike, apart


def answered(data, seeds, right, system="static_linear", policy="oracle", cap=None):
    """Rows as a sweep keeps them: ``right`` says for true labels (m,) which are answered right."""
    found = []
    for seed in seeds:
        s = make_scenario(data, seed, cap=cap)
        bits = np.concatenate([np.ones(len(s.y_novel), bool), right(s.y_original)])
        numbers = {"n_novel": len(s.y_novel), "n_original": len(s.y_original)}
        names = {"dataset": data.dataset, "policy": policy, "seed": seed, "system": system}
        found.append(names | {"right": np.packbits(bits).tobytes()} | numbers)
    return pd.DataFrame(found)


@pytest.mark.parametrize("cap", [None, 30])
def test_a_class_is_told_from_the_others(tiny, cap):
    label = 3
    knows = [seed for seed in range(6) if label not in make_scenario(tiny, seed, cap=cap).held_out]
    assert 0 < len(knows) < 6
    only, none = (
        answered(tiny, range(6), right, cap=cap, system=name)
        for name, right in (("static_linear", lambda y: y == label), ("substrate", lambda y: y != label))
    )
    found = apart(pd.concat([only, none]), tiny, tiny.classes[label]).set_index("system")
    assert found.loc["static_linear", ["inside", "others", "seeds"]].tolist() == [1, 0, len(knows)]
    assert found.loc["substrate", ["inside", "others", "seeds"]].tolist() == [0, 1, len(knows)]
    assert (found["novel"] == 1).all()
    shares = [np.mean(make_scenario(tiny, seed, cap=cap).y_original == label) for seed in knows]
    assert found["share"].tolist() == pytest.approx([np.mean(shares)] * 2)


def test_what_cannot_be_told_apart_is_refused(tiny):
    rows = answered(tiny, [0], lambda y: y >= 0)
    with pytest.raises(InputError, match="unknown class 'oos'"):
        apart(rows, tiny)
    held = tiny.classes[make_scenario(tiny, 0).held_out[0]]
    with pytest.raises(InputError, match=f"no seed knows '{held}'"):
        apart(rows, tiny, held)
    moved = rows.assign(n_novel=rows["n_novel"] + 1, n_original=rows["n_original"] - 1)
    with pytest.raises(InputError, match="not tested on the rows of this"):
        apart(moved, tiny, tiny.classes[3])


def test_a_row_is_alike_where_its_nearest_training_row_is_of_its_class(tiny):
    found = alike(tiny, tiny.classes[3])
    for part, X, y in (("train", tiny.X_train, tiny.y_train), ("test", tiny.X_test, tiny.y_test)):
        right = []
        for row, x in zip(np.flatnonzero(y == 3), X[y == 3]):
            others = np.arange(len(tiny.X_train)) != (row if part == "train" else -1)
            right.append(tiny.y_train[others][np.argmax(tiny.X_train[others] @ x)] == 3)
        assert found[part] == np.mean(right)
    assert min(found.values()) > 0.5, "the classes of this dataset can be learnt"


def test_a_copy_in_the_training_rows_is_alike_but_a_row_is_not_its_own_copy(tiny):
    only = np.flatnonzero(tiny.y_train == 3)[:1]
    lonely = replace(
        tiny, X_train=tiny.X_train[only], y_train=tiny.y_train[only], X_test=tiny.X_train[only], y_test=np.array([3])
    )
    other = replace(lonely, X_train=tiny.X_train[:1] if only[0] else tiny.X_train[1:2], y_train=np.array([4]))
    both = replace(
        lonely,
        X_train=np.concatenate([lonely.X_train, other.X_train]),
        y_train=np.concatenate([lonely.y_train, other.y_train]),
    )
    assert alike(both, tiny.classes[3]) == {"train": 0.0, "test": 1.0}
    with pytest.raises(InputError, match="no training rows, or no test rows, of"):
        alike(other, tiny.classes[3])


def test_the_table_has_each_system_once_and_the_paper_quotes_whole_percents():
    rows = [
        {"policy": p, "system": s, "inside": at / 10, "others": 0.9, "novel": at / 9, "share": 0.2, "seeds": 4}
        for p in ("oracle", "random10")
        for at, s in enumerate((*report.SYSTEMS, "rls"))
    ]
    table = report.table(pd.DataFrame(rows))
    assert table.text["System"].tolist() == list(report.SYSTEMS) and "20 %" in table.caption
    assert table.text.iloc[1].tolist() == ["substrate", "0.100", "0.900", "0.100", "0.900"]
    quoted = report.quoted(pd.DataFrame(rows), {"train": 0.554, "test": 0.17})
    assert quoted["beyond.scope.alike_train"].text == "55\u00a0%"
    assert quoted["beyond.scope.substrate_out"].text == "10\u00a0%"
    assert quoted["beyond.scope.klda_in"].text == "90\u00a0%"
    assert quoted["beyond.scope.dominating_in"] == 6, "as good in scope, better on new classes"
