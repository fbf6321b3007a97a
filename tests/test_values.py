"""Quoted numbers: files per notebook, refusals, and their form in print."""

import re
from decimal import ROUND_HALF_EVEN, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.files import ROOT, InputError
from paper import values
from paper.values import Value


def test_a_folder_merges_the_files_of_all_notebooks(tmp_path):
    values.write({"cost.append": Value(3.84, 1, "µs")}, tmp_path / "07_compute.json")
    values.write(
        {"vote.gain": np.float32(0.25), "vote.seeds": np.int64(3)}, tmp_path / "05_vote.json"
    )
    (tmp_path / ".05_vote.json.tmp.json").write_text("{")  # of a killed write
    assert values.read(tmp_path) == {
        "vote.gain": {
            "value": 0.25,
            "text": "0.250",
            "unit": "",
            "digits": 3,
            "notebook": "05_vote",
        },
        "vote.seeds": {"value": 3, "text": "3", "unit": "", "digits": 0, "notebook": "05_vote"},
        "cost.append": {
            "value": 3.84,
            "text": "3.8\xa0µs",
            "unit": "µs",
            "digits": 1,
            "notebook": "07_compute",
        },
    }


@pytest.mark.parametrize("number", [float("nan"), -np.inf, Value(float("inf"))])
def test_a_number_that_is_not_finite_is_refused_and_the_file_stays(tmp_path, number):
    path = tmp_path / "02_mine.json"
    values.write({"mine": 1}, path)
    with pytest.raises(InputError, match="02_mine.*mine"):
        values.write({"mine": number}, path)
    assert values.read(tmp_path)["mine"]["value"] == 1


@given(st.floats(-1e12, 1e12) | st.integers(-(10**15), 10**15), st.integers(0, 12))
def test_a_text_is_the_rounded_number_with_thousands_and_a_minus_sign(number, digits):
    shown = Value(number, digits).text
    rounded = Decimal(number).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN)
    assert Decimal(shown.replace(",", "").replace("−", "-")) == rounded
    assert ("−" in shown) == (rounded < 0) and "-" not in shown
    assert ("," in shown) == (abs(rounded) >= 10_000) and len(shown.partition(".")[2]) == digits


def test_the_readme_shows_the_values_and_systems_of_today():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert values.refresh(text) == text and "|`slda`|" in text


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(re.sub("<!--.*?-->", "", text).split()) <= 900


def test_stale_values_are_replaced_and_an_unknown_key_is_named():
    fresh = values.refresh("<!--{claims.total}-->1<!---->\n|`slda`|means|0|0|0|0|0|0|0|\n")
    shown = values.read()["claims.total"]["text"]
    assert fresh.startswith(f"<!--{{claims.total}}-->{shown}<!---->\n|`slda`|means|0.915 ± 0.0")
    assert fresh.endswith("|1.7|\n")
    with pytest.raises(InputError, match="claims.totl"):
        values.refresh("<!--{claims.totl}-->1<!---->")
