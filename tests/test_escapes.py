"""Escapes: no control character and no formula gets through, and cells read back exactly."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ocrrlib.escapes import from_cell, to_cell, visible

TRICKY = st.text(st.sampled_from("=+-@' \t\r\n\0\x1b\x9b\\\u202e\u200b\uff1dxu015bce2a"))


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@a", "\t=1", "\r=1", " =1", "'=1", "\xa0=1", "\uff1d1", "\n-1"]
)
def test_a_cell_is_no_formula(text):
    assert to_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a=1", "'tis", "2-1", "a@b", "C:\\temp", "naïve\ncafé"])
def test_plain_texts_stay_as_they_are(text):
    assert to_cell(text) == text


@given(st.text() | TRICKY)
@example("\\x5cx1b")
def test_a_cell_reads_back_as_its_text(text):
    cell = to_cell(text)
    assert from_cell(cell) == text
    assert visible(cell, keep="\t\r\n") == cell


@given(TRICKY)
def test_what_is_visible_has_no_control_characters(text):
    shown = visible(text)
    assert not set(shown) & set("\t\r\n\0\x1b\x9b\u202e")
    assert visible(shown) == shown
