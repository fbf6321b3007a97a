"""Parameters are counted in the models themselves."""

import pytest

from ocrrlib import results
from ocrrlib.files import ROOT
from ocrrlib.parameters import count_parameters
from ocrrlib.report import tables


@pytest.fixture(scope="module")
def counted():
    return count_parameters()


def test_a_part_is_what_its_shapes_say(counted):
    large, small = counted.to_dict("records")
    width, blocks, rank, projections, classes = 1024, 24, 8, 2, 77
    assert large["adapters"] == blocks * projections * 2 * rank * width
    assert large["head"] == classes * (width + 1) and small["head"] == classes * (384 + 1)
    for row in (large, small):
        assert row["trained"] == row["adapters"] + row["head"]
    assert 430e6 < large["frozen"] < 440e6


def test_the_published_counts_come_out_again(counted):
    published, _ = results.read(ROOT / "data/results/parameters.parquet")
    columns = list(counted)
    assert published[columns].sort_values("backbone").values.tolist() == counted.sort_values("backbone").values.tolist()


def test_the_table_writes_numbers_for_machines_and_for_readers(counted):
    table = tables.parameters(counted.assign(made_by="x"))
    assert "made_by" not in table.numbers and table.text["Trained"].tolist() == ["865,357", "103,373"]
