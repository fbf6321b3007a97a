"""Quoted numbers: expressions with the cells that they are taken over, refusals, and their form."""

import re
from decimal import ROUND_HALF_EVEN, Decimal

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.files import ROOT, InputError
from paper.build import expand
from paper.quotes import Quotes, refresh
from paper.style import Value

TABLE = pd.DataFrame(
    {
        "dataset": ["banking77", "banking77", "clinc150", "clinc150"],
        "system": ["slda", "knn_lm", "slda", "knn_lm"],
        "novel": [0.9, 0.8, 0.5, 0.6],
        "difference": [0.0, 0.051, -0.1, 0.02],
        "low": [None, 0.02, -0.2, -0.01],
        "high": [None, 0.082, -0.05, 0.05],
        "p_holm": [None, 0.04, 0.01, 0.06],
    }
)
AHEAD = (
    "cells('table_small', 'novel', by='dataset', system='slda')"
    " - cells('table_small', 'novel', by='dataset', system='knn_lm')"
)


def quotes(folder, **lines):
    """Quotes on the small table."""
    (folder / "tables").mkdir(exist_ok=True)
    TABLE.to_csv(folder / "tables/table_small.csv", index=False)
    text = "".join(f'{key}: "{line}"\n' for key, line in lines.items())
    (folder / "quotes.yml").write_text(text, encoding="utf-8")
    return Quotes(folder)


@pytest.mark.parametrize(
    "line, text, rows",
    [
        ("one('table_small', 'novel', system='slda', dataset='clinc150')", "0.500", [[2]]),
        ("100 * mean(cells('table_small', 'novel', system='slda')) | 1 %", "70.0\xa0%", [[0, 2]]),
        (f"sum({AHEAD} > 0)", "1", [[0, 2], [1, 3]]),
        (f"100 * min({AHEAD}) | 0 pp", "−10\xa0pp", [[0, 2], [1, 3]]),
        (
            "max(means(cells('table_small', 'novel', by='dataset'), 'dataset'))",
            "0.850",
            [[0, 1, 2, 3]],
        ),
        ("len(cells('table_small', 'novel', 'novel > 0.55'))", "3", [[0, 1, 3]]),
        ("distinct(cells('table_small', 'system', dataset=['banking77']))", "2", [[0, 1]]),
        (f"max(most({AHEAD}, 'dataset')) | 1", "0.1", [[0, 2], [1, 3]]),
        (f"tau({AHEAD}, -({AHEAD})) | 1", "−1.0", [[0, 2], [1, 3], [0, 2], [1, 3]]),
    ],
)
def test_a_quote_has_its_number_and_the_cells_that_it_is_taken_over(tmp_path, line, text, rows):
    quote = quotes(tmp_path, key=line).quote("key")
    assert quote.text == text
    assert [list(cells.rows.index) for cells in quote.cells] == rows
    assert all(cells.table == "table_small" for cells in quote.cells)


def test_a_name_in_braces_stands_for_the_words_of_a_key(tmp_path):
    line = "one('table_small', 'novel', dataset=dataset, system=system)"
    found = quotes(tmp_path, **{"names": "", "of.{dataset}.{system}": line})
    found.names = {"near": "knn_lm"}
    assert found.text("of.banking77.slda") == "0.900" and found.text("of.banking77.near") == "0.800"
    assert found.used == {"of.{dataset}.{system}"}


@pytest.mark.parametrize(
    "line, said",
    [
        ("one('table_smal', 'novel')", "table or result 'table_smal' .*'table_small'"),
        ("one('table_small', 'novl', system='slda')", "column of table_small 'novl'.*'novel'"),
        ("one('table_small', 'novel', sytem='slda')", "column of table_small 'sytem'.*'system'"),
        ("one('table_small', 'novel', system='sdla')", "system .*table_small 'sdla'.*'slda'"),
        ("cells('table_small', 'novel', 'novel > 1')", "no row of table_small has.*novel > 1"),
        ("cells('table_small', 'novel', 'novl > 1')", "novl"),
        ("one('table_small', 'novel', system='slda')", "2 rows of table_small have.*slda"),
        ("mean(cells('table_small', 'low'))", "low of table_small has empty cells"),
        ("1 / (len(cells('table_small', 'low', system='slda', dataset='x')))", "'x'"),
        ("cells('table_small', 'novel')", "no number but a Series"),
        ("mean('table_small'", "never closed"),
        ("median(1)", "median"),
    ],
)
def test_what_selects_nothing_fails_by_name(tmp_path, line, said):
    with pytest.raises(InputError, match=f"quote 'key'.*{said}"):
        quotes(tmp_path, key=line).quote("key")


@pytest.mark.parametrize(
    "system, dataset, text",
    [
        ("knn_lm", "banking77", "5.1\xa0pp [2.0, 8.2]†"),
        ("knn_lm", "clinc150", "2.0\xa0pp [−1.0, 5.0]"),
        ("slda", "clinc150", "−10.0\xa0pp [−20.0, −5.0]†"),
    ],
)
def test_a_difference_is_shown_with_its_interval_and_a_mark_if_it_stands(
    tmp_path, system, dataset, text
):
    line = f"interval('table_small', system='{system}', dataset='{dataset}')"
    assert quotes(tmp_path, key=f"100 * {line} | 1 pp").text("key") == text
    back = quotes(tmp_path, key=f"-(-{line}) | 1").quote("key").value
    assert back == Value(back.value, 1, "", back.low, back.high, back.stands)
    assert back.low <= back.value <= back.high


@given(st.floats(-1e12, 1e12) | st.integers(-(10**15), 10**15), st.integers(0, 12))
def test_a_text_is_the_rounded_number_with_thousands_and_a_minus_sign(number, digits):
    shown = Value(number, digits).text
    rounded = Decimal(number).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN)
    assert Decimal(shown.replace(",", "").replace("−", "-")) == rounded
    assert ("−" in shown) == (rounded < 0) and "-" not in shown
    assert ("," in shown) == (abs(rounded) >= 10_000) and len(shown.partition(".")[2]) == digits


@pytest.mark.published
def test_every_quote_is_used_and_every_key_in_prose_has_one():
    expand(ROOT / "paper")  # which names a line that is never used
    found = Quotes()
    for page in (ROOT / "README.md", *ROOT.glob("docs/*.md")):
        for key in re.findall(r"<!--{([^}]+)}-->|{{([\w.]+)}}", page.read_text(encoding="utf-8")):
            assert found.text("".join(key)), page


def test_the_readme_shows_the_quotes_and_systems_of_today():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert refresh(text, Quotes()) == text and "|`slda`|" in text


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(re.sub("<!--.*?-->", "", text).split()) <= 900


def test_stale_quotes_are_replaced_and_an_unknown_key_is_named():
    found = Quotes()
    fresh = refresh("<!--{claims.total}-->1<!---->\n|`slda`|means|0|0|0|0|0|0|0|\n", found)
    shown = found.text("claims.total")
    assert fresh.startswith(f"<!--{{claims.total}}-->{shown}<!---->\n|`slda`|means|0.915 ± 0.0")
    assert fresh.endswith("|1.7|\n")
    with pytest.raises(InputError, match="claims.totl"):
        refresh("<!--{claims.totl}-->1<!---->", found)


TWO_SIGNS = TABLE.assign(policy=["oracle", "random10", "oracle", "random10"])
BY_CELL = "mean(cells('table_signs', 'difference', 'system != dataset')) | 1"


def test_a_mean_tells_the_range_of_its_cells_if_asked(tmp_path):
    found = quotes(tmp_path, key=BY_CELL)
    TWO_SIGNS.assign(difference=[0.3, 0.1, -0.2, 0.2]).to_csv(
        tmp_path / "tables/table_signs.csv", index=False
    )
    assert found.by_cell("key") == pytest.approx([0.3, 0.1, -0.2, 0.2])
    assert found.text("key.by_cell") == "0.1 (−0.2 to 0.3 by cell)"


@pytest.mark.parametrize("text", ["It rises by {{key}}.", "Up <!--{key}-->0.1<!---->."])
def test_a_headline_that_hides_a_change_of_sign_fails(tmp_path, text):
    found = quotes(tmp_path, key=BY_CELL)
    path = tmp_path / "tables/table_signs.csv"
    TWO_SIGNS.assign(difference=[0.3, 0.1, -0.2, 0.2]).to_csv(path, index=False)
    with pytest.raises(InputError, match="'key' hides .* -0.2 to 0.3 by cell.*key.by_cell"):
        found.check_headlines(text)
    found.check_headlines(text.replace("key", "key.by_cell"))
    TWO_SIGNS.assign(difference=[0.3, 0.1, 0.04, -0.04]).to_csv(path, index=False)
    quotes(tmp_path, key=BY_CELL).check_headlines(text)  # to the digit that is shown
