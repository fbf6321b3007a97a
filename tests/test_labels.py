"""Labels: values that mean the same are one label, values that are none are refused."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from ocrrlib.files import InputError
from ocrrlib.labels import label_of, look_alikes

SAME = {
    "lost card": [
        "lost card",
        " lost card",
        "lost card\r\n",
        np.str_("lost card\t"),
        "lost card\xa0",
        "lost  card",
        "lost\u2003card",
        "\ufefflost\u200b card\ufe0f",
        "lo\xadst card\u2060",
    ],
    "caf\xe9": ["caf\xe9", "cafe\u0301", np.str_(" cafe\u0301 "), "cafe\u200d\u0301"],
    "0": [0, "0", 0.0, -0.0, np.int8(0), np.uint64(0), np.float32(0), np.float16(-0.0)],
    "-12": [-12, "-12", -12.0, np.int64(-12), np.float64(-12)],
    "9007199254740992": [2**53, float(2**53)],
    "18446744073709551615": [np.uint64(2**64 - 1), 2**64 - 1],
    "True": [True, np.True_, "True"],
    "False": [False, np.False_, "False "],
}
NONE = [
    *[
        "",
        " ",
        "\n",
        "\u200b",
        None,
        b"lost",
        np.bytes_(b"0"),
        bytearray(b"a"),
        0.5,
        np.float32(1.5),
    ],
    *[float("nan"), np.nan, float("inf"), -np.inf, 1e18, np.float64(2**60), pd.NA, pd.NaT],
    *[Decimal(0), 1j, ["a"], ("a",), {"a": 1}, np.array("a"), np.array([[1, 2], [3, 4]] * 30)],
]


@pytest.mark.parametrize("label, values", SAME.items(), ids=SAME)
def test_values_that_mean_the_same_are_one_label(label, values):
    found = [label_of(value) for value in values]
    assert found == [label] * len(values)
    assert {type(one) for one in found} == {str}


@pytest.mark.parametrize("value", NONE, ids=str)
def test_values_that_are_no_label_are_refused_in_one_line(value):
    with pytest.raises(InputError, match="no label: give words or whole numbers") as caught:
        label_of(value)
    assert "\n" not in str(caught.value)


def test_a_label_is_its_own_label():
    for label in SAME:
        assert label_of(label) == label


def test_a_column_of_integers_with_gaps_has_the_labels_of_one_without():
    with_gaps = pd.Series([3, None, 1]).dropna()
    assert [label_of(value) for value in with_gaps] == [label_of(value) for value in (3, 1)]


def test_labels_that_differ_by_case_blanks_or_a_letter_look_alike():
    one = ["Delivery", "delivery", "Delivry", "Deilvery"]
    assert {*look_alikes(one)} >= {(one[0], other) for other in one[1:]}
    for other in ("lost_card", "lostcard", "Lost-Card", "lost card."):
        assert look_alikes(["lost card", other]) == [("lost card", other)]
    assert look_alikes(["refund", "fee", "refunds"]) == [("refund", "refunds")]


def test_labels_that_differ_by_numbers_or_short_words_do_not_look_alike():
    assert (
        look_alikes(
            ["label 1", "label 2", "class a", "class b", "pin", "tin", "-1", "1", "1.5", "15"]
        )
        == []
    )
