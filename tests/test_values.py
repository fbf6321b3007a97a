"""Named numbers: whose they are, what is refused, and how they look in print."""

import json
from decimal import ROUND_HALF_EVEN, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.errors import InputError
from ocrrlib.report import values
from ocrrlib.report.values import Value


@pytest.fixture
def path(tmp_path):
    """A file with one entry of another notebook."""
    path = tmp_path / "values.json"
    values.write({"other.accuracy": Value(0.5)}, "01_other", path)
    return path


def texts(path):
    return {key: entry["text"] for key, entry in values.read(path).items()}


def test_what_is_written_can_be_read_and_a_missing_file_has_nothing(tmp_path):
    path = tmp_path / "folder" / "values.json"
    assert values.read(path) == {}
    values.write({"cost.append": Value(3.84, 1, "µs")}, "07_compute", path)
    entry = {"value": 3.84, "text": "3.8\N{NO-BREAK SPACE}µs", "unit": "µs", "digits": 1, "notebook": "07_compute"}
    assert values.read(path) == {"cost.append": entry}


def test_entries_of_others_stay_and_stale_ones_of_one_s_own_go(path):
    values.write({"mine.old": 1, "mine.kept": 2}, "02_mine", path)
    values.write({"mine.kept": 3, "mine.new": 4}, "02_mine", path)
    assert texts(path) == {"mine.kept": "3", "mine.new": "4", "other.accuracy": "0.500"}


def test_the_file_does_not_depend_on_the_order_of_writing(tmp_path):
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    values.write({"a": 1, "b": 2}, "01", one)
    values.write({"c": 3}, "02", one)
    values.write({"c": 3}, "02", two)
    values.write({"b": 2, "a": 1}, "01", two)
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    "number", [7, np.int64(7), np.float32(0.5), np.float64(0.25), Value(np.float16(0.5), np.int64(2))]
)
def test_numbers_of_numpy_are_numbers(path, number):
    values.write({"mine": number}, "02_mine", path)
    assert json.loads(path.read_text())["mine"]["value"] == getattr(number, "value", number)


@pytest.mark.parametrize("key", ["", "Mine", "a b", "a-b", "a..b", ".a", "a.", "ä", "a\n", "{{a}}"])
def test_a_malformed_key_is_refused(path, key):
    refused(path, {key: 1}, "malformed key")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -np.inf, np.nan, True, np.True_, None, "0.5", 1j])
@pytest.mark.parametrize("wrap", [Value, lambda number: number])
def test_what_is_no_finite_number_is_refused(path, number, wrap):
    refused(path, {"mine": wrap(number)}, "give a finite number")


@pytest.mark.parametrize("unit", [*"*_[]<>{}@#$^~|\\`\"'", "a\nb", "a\tb", "$x$"])
def test_markup_in_a_unit_is_refused(path, unit):
    refused(path, {"mine": Value(1, unit=unit)}, "without markup")


@pytest.mark.parametrize("digits", [-1, 13, 1.5, None])
def test_digits_that_cannot_be_shown_are_refused(path, digits):
    refused(path, {"mine": Value(1, digits)}, "digits")


def test_another_notebook_s_key_is_refused_and_named(path):
    refused(path, {"other.accuracy": 1}, "belongs to 01_other")


def refused(path, entries, said):
    before = path.read_bytes()
    with pytest.raises(InputError, match=said) as error:
        values.write({"fine": 1} | entries, "02_mine", path)
    assert "02_mine" in str(error.value)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "damage", [b"{", b"", b"[]", b"3", b'{"a": 5}', b'{"a": "text notebook"}', b'{"a": {}}', b"\xff"]
)
def test_a_damaged_file_is_named_with_a_way_out(path, damage):
    path.write_bytes(damage)
    for act in (lambda: values.read(path), lambda: values.write({"mine": 1}, "02_mine", path)):
        with pytest.raises(InputError, match="delete it and run the notebooks again") as error:
            act()
        assert str(path) in str(error.value)
    assert path.read_bytes() == damage


@pytest.mark.parametrize(
    "value, text",
    [
        (Value(0.8925), "0.892"),
        (Value(-0.5, 1), "−0.5"),
        (Value(-0.0004), "0.000"),
        (Value(-0.0), "0.000"),
        (Value(9999, 0), "9999"),
        (Value(9999.5, 0), "10,000"),
        (Value(-1234567.25, 1), "−1,234,567.2"),
        (Value(12.34, 1, "%"), "12.3\N{NO-BREAK SPACE}%"),
        (Value(184_000_000, 0), "184,000,000"),
    ],
)
def test_how_numbers_look(value, text):
    assert value.text == text


@given(
    st.floats(-1e12, 1e12) | st.integers(-(10**15), 10**15), st.integers(0, 12), st.sampled_from(["", "MB", "%", "µs"])
)
def test_a_text_is_the_rounded_number_with_thousands_a_minus_sign_and_a_unit(number, digits, unit):
    text = Value(number, digits, unit).text
    shown, _, shown_unit = text.partition("\N{NO-BREAK SPACE}")
    rounded = Decimal(number).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN)
    assert shown_unit == unit
    assert Decimal(shown.replace(",", "").replace("−", "-")) == rounded
    assert ("−" in shown) == (rounded < 0) and "-" not in shown
    whole = shown.lstrip("−").partition(".")[0]
    assert ("," in whole) == (abs(rounded) >= 10_000)
    assert "," not in whole or all(len(part) == 3 for part in whole.split(",")[1:])
    assert len(shown.partition(".")[2]) == digits
