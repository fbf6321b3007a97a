"""Tables and figures of search and costs say what their rows say."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from ocrrlib.report import costs, ledger_search, race, scale

SETTINGS = ((100, 0.1), (10, 0.15))


def found(rows):
    """Rows of (classes, noise, n, seed, exact, hnsw, k1, recall)."""
    columns = ["classes", "noise", "n", "seed", "exact_acc", "hnsw_acc", "hnsw_acc_k1", "recall"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(agreement=1.0, exact_acc_k1=frame["exact_acc"], queries=10, ef=64, threads=1, in_turn=False)


FOUND = found(
    [
        (100, 0.1, 10_000, 0, 1.0, 0.9, 0.9, 0.6),
        (100, 0.1, 10_000, 1, 0.8, 0.7, 0.7, 0.4),
        (10, 0.15, 10_000, 0, 1.0, 1.0, 0.98, 0.3),
        (10, 0.15, 100_000, 0, 0.99, 0.99, 0.99, 0.2),
        (7, 0.3, 10_000, 0, 0.5, 0.4, 0.4, 0.1),
    ]
)
COSTS = FOUND[["classes", "noise", "n", "seed", "queries", "ef", "threads", "in_turn"]].assign(
    build_s=[1.0, 3.0, 5.0, 7.0, 9.0],
    hnsw_ms=0.1,
    exact_ms=[0.5, 0.5, 0.5, np.nan, 0.5],
    hnsw_batch_ms=0.1,
    exact_batch_ms=0.2,
    bytes=2 * 10**9,
    resident=3 * 10**9,
)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_the_scale_table_has_one_row_per_setting_and_size_with_mean_and_spread_over_seeds():
    table = scale.comparison(FOUND, COSTS, SETTINGS)
    assert table.numbers[["classes", "n", "seeds"]].to_numpy().tolist() == [
        [100, 10_000, 2],
        [10, 10_000, 1],
        [10, 100_000, 1],
    ]
    first = table.text.iloc[0]
    assert (first["Exact"], first["HNSW"], first["Gap (pp)"], first["Recall@5"]) == (
        "0.900 ± 0.100",
        "0.800 ± 0.100",
        "+10.0",
        "0.500 ± 0.100",
    )
    assert table.numbers["build_s"].tolist() == [2.0, 5.0, 7.0]


def test_the_cost_table_takes_medians_and_leaves_out_what_was_not_timed():
    text = scale.scale_costs(COSTS, SETTINGS).text
    assert text["Build (s)"].tolist() == ["2", "5", "7"] and text["Exact, one (ms)"].tolist() == ["0.500", "0.500", ""]
    assert text["Paper, HNSW (ms)"].tolist() == ["0.99", "0.99", "0.63"]


def test_what_is_lost_by_number_of_classes_is_taken_where_classes_are_equally_large_and_exact_search_is_right():
    assert scale.lost_by_classes(FOUND, 100).to_dict() == {100: 10.0}
    assert scale.lost_by_classes(FOUND, 10_000).to_dict() == {10: 0.0}
    assert scale.lost_by_classes(FOUND, 1).empty


def test_values_for_the_paper_are_there_whatever_was_run():
    ledgers = pd.DataFrame([dict(dataset="banking77", ef=8, exact_acc=0.9, hnsw_acc=0.85, recall=0.5)])
    values = scale.quoted(FOUND, ledgers)
    assert (values["scale.low"], values["scale.low_kept"], values["scale.worst_entries"]) == (3, 2, 10_000)
    assert values["scale.worst"] == pytest.approx(0.9) and values["scale.lost_banking77"].text == "5.0\xa0pp"
    assert set(scale.quoted(FOUND[:2], ledgers)) == set(values)


def test_low_recall_where_exact_search_is_right_is_listed_with_and_without_a_vote():
    numbers = scale.vote_or_distance(FOUND).numbers
    assert numbers[["classes", "n"]].to_numpy().tolist() == [[10, 10_000], [10, 100_000], [100, 10_000]]
    ledgers = pd.DataFrame([dict(dataset="banking77", ef=8, exact_acc=0.9, hnsw_acc=0.85, recall=0.5)])
    said = "\n".join(scale.lines(FOUND, ledgers))
    assert "3 settings" in said and "in 2 of them" in said and "0.900, for 10,000 entries of 100 classes" in said
    assert "+0.0 to +2.0 pp" in said
    assert "Banking77: with ef = 8 recall is 0.500 and 5.0 pp of accuracy are lost" in said


def test_no_such_cell_is_said_too():
    none = FOUND.assign(recall=1.0)
    assert len(scale.vote_or_distance(none).text) == 0
    assert next(scale.lines(none, pd.DataFrame(columns=["dataset"]))).startswith("0 settings")


RACE = pd.DataFrame(
    [
        ("hnswlib", 10, 8, 0.5, 900.0, 3.0),
        ("hnswlib", 10, 16, 0.91, 500.0, 3.0),
        ("hnswlib", 10, 32, 0.99, 100.0, 3.0),
        ("usearch", 10, 8, 0.4, 800.0, 2.0),
        ("exact", 10, np.nan, 1.0, 50.0, 0.0),
    ],
    columns=["index", "n", "effort", "recall", "qps", "build_s"],
).assign(bytes=10**9, made_by="this")


def test_at_equal_recall_the_fastest_setting_counts_and_who_misses_it_is_named():
    text = race.equal_recall(RACE).text.set_index("Index")
    assert text.loc["hnswlib", ["Effort", "Queries a second"]].tolist() == ["16", "500"]
    assert text.loc["usearch", ["Effort", "Recall@5", "Build (s)"]].tolist() == ["", "not reached", "2.0"]
    assert text.loc["exact", ["Effort", "Queries a second"]].tolist() == ["", "50"]


def ledger_rows():
    rows = [("substrate", 10_000, 2000.0, 5.0), ("substrate_hnsw", 10_000, 100.0, 200.0)]
    frame = pd.DataFrame(rows, columns=["system", "entries", "predict_median", "correct_median"])
    for name in ("predict", "correct"):
        frame[f"{name}_low"], frame[f"{name}_high"] = frame[f"{name}_median"] / 2, frame[f"{name}_median"] * 2
    beside = dict(substrate_predict=2000.0, substrate_correct=5.0)
    return frame.assign(bytes=10**7, seed_s=1.5, bandwidth=15.36e9, made_by="this", **beside)


def test_the_floor_is_what_must_be_read_over_what_can_be_copied():
    rows = costs.with_floor(ledger_rows())
    assert rows["floor"].tolist() == pytest.approx([1000.0, 1000.0])
    assert rows["times_floor"].iloc[0] == pytest.approx(2.0) and np.isnan(rows["times_floor"].iloc[1])
    assert costs.ledger_growth(ledger_rows()).text["Prediction ÷ floor"].tolist() == ["2.00", ""]


def test_the_cost_table_sets_the_papers_figure_beside_ours():
    rows = ledger_rows().assign(system=["substrate", "a_gem"], dataset="banking77")
    text = costs.per_item(rows).text.set_index("System")
    assert text.loc["substrate", ["Correction", "Paper"]].tolist() == ["5.0 µs (2.5 µs-10.0 µs)", "~10.0 µs"]
    assert text.loc["a_gem", "Paper"] == "~3.0 ms"
    assert text["Both ÷ substrate"].to_dict() == {"substrate": "1", "a_gem": "0.15"}
    twice = rows.assign(dataset="clinc150", predict_median=[2000.0, 802.0])
    both = costs.per_item(pd.concat([twice, rows]))
    assert both.text["System"].tolist() == ["a_gem", "substrate"] and len(both.numbers) == 4
    assert both.text["Both ÷ substrate, CLINC150"].tolist() == ["0.5", "1"]
    assert both.text["Both ÷ substrate"].tolist() == ["0.15", "1"]
    assert costs.per_item(rows).text["Both ÷ substrate, CLINC150"].tolist() == ["", ""]
    slower = rows.assign(substrate_correct=[5.0, 10.0], substrate_predict=[2000.0, 3000.0])  # on another day
    assert "Beside a_gem, the substrate took 10.0 µs and 3.0 ms." in costs.per_item(slower).caption
    assert "When" not in costs.per_item(rows).caption
    assert "one correction: a_gem takes 20.0 times as long as the substrate" in costs.lines(slower, ledger_rows())
    assert "one correction: a_gem takes 40.0 times as long as the substrate" in costs.lines(rows, ledger_rows())


def test_every_figure_draws_every_row():
    ledgers = pd.concat([FOUND.assign(dataset="banking77", ef=ef) for ef in (8, 16)])
    assert len(scale.decline(FOUND, SETTINGS).axes) == 2
    panels = scale.noise_map(FOUND).axes
    assert len(panels) == 3 * 3 + 3, "a colour bar for each column"
    told = [sum(not math.isnan(float(text.get_text())) for text in axes.texts) for axes in panels[:9]]
    cells = FOUND[FOUND["seed"] == 0].groupby("classes").size()
    assert told == np.repeat(cells.to_numpy(), 3).tolist(), "all settings of the first seed, whatever their size"
    assert len(ledger_search.efforts(ledgers).axes) == 2  # recall above, accuracies below
    (axes,) = race.race(RACE).axes
    assert sum(len(line.get_xdata()) for line in axes.lines) == len(RACE)
    assert [len(axes.lines) for axes in costs.growth(ledger_rows()).axes] == [3, 2]
