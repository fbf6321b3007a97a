"""The wider comparison: who is a rival, what may be said of ours, and figures that draw whatever the numbers."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from ocrrlib.errors import InputError
from ocrrlib.experiments import EXPERIMENTS, OURS
from ocrrlib.report import tuning
from ocrrlib.report.beyond import figures, tables
from ocrrlib.report.beyond import values as quotes
from ocrrlib.statistics.anytime import measure
from ocrrlib.statistics.bar import bar, best_rivals, conditions, costs, dominating, means
from ocrrlib.statistics.summary import accuracies, summary
from ocrrlib.statistics.survival import corrections_to_levels
from ocrrlib.systems import SYSTEMS as REGISTRY
from ocrrlib.tuning import space
from ocrrlib.tuning.one_at_a_time import left_out
from ocrrlib.tuning.search import winner
from paper import style, values

SYSTEMS = {  # novel and original accuracy in the end
    "static_linear": (0.0, 0.90),
    "substrate": (0.80, 0.88),
    "knn_lm": (0.70, 0.91),
    "klda": (0.85, 0.92),
    "online_linear": (0.95, 0.02),  # collapsed
    "er": (0.0, 0.90),
    OURS: (0.90, 0.905),
}


def checkpoints(systems=SYSTEMS, seeds=3, cells=(("banking77", "oracle"), ("clinc150", "random10")), spread=0.01):
    """Results of made-up runs, three checkpoints each."""
    rng, rows = np.random.default_rng(0), []
    for dataset, policy in cells:
        for seed in range(seeds):
            luck = spread * rng.normal()  # the same for all systems, as draws of classes are
            for system, (novel, original) in systems.items():
                names = dict(dataset=dataset, encoder="e", policy=policy, seed=seed, system=system)
                own = luck + spread / 5 * rng.normal()
                for step, part in ((0, 0.0), (50, 0.7), (400, 1.0)):
                    at = dict(step=step, corrections=int(8 * part), stored_entries=1, storage_bytes=1.0)
                    accuracy = dict(novel_acc=part * max(novel + own * (novel > 0), 0), original_acc=original + own / 9)
                    rows.append(names | at | accuracy)
    return pd.DataFrame(rows)


def exact(**finals):
    """Runs that end at given accuracies, the same for two seeds."""
    rows = [
        dict(dataset="banking77", policy="oracle", seed=seed, system=system, novel=novel, original=original)
        for seed in range(2)
        for system, (novel, original) in finals.items()
    ]
    return pd.DataFrame(rows)


def on_both(time):
    """The same time on both datasets."""
    return dict.fromkeys(("banking77", "clinc150"), time)


@pytest.fixture(scope="module")
def results():
    return checkpoints()


@pytest.fixture(scope="module")
def found(results):
    """The summary of made-up results, one row per cell and system, the bar, and what is reached of the target."""
    runs, all_of = measure(results), summary(results, resamples=99)
    compared = bar(runs)
    reached = conditions(compared, all_of.accuracies, costs(results, on_both(3.0)))
    return all_of, tables.joined(all_of, runs), compared, reached


@pytest.fixture(autouse=True)
def closed():
    style.apply()
    yield
    plt.close("all")


def shown(figure):
    """Panels of cells that there are."""
    found = [axes for axes in figure.axes if axes.get_visible()]
    assert len(found) == 2 and len(figure.axes) == 4
    return found


def test_every_system_of_the_comparison_is_of_one_kind_and_no_two_share_their_looks():
    for system in EXPERIMENTS["beyond"].systems:
        assert len([names for *_, names in style.FAMILIES if system in names]) == 1
        assert style.family_of(system)[1].startswith("#")
    assert len(set(style.STYLES.values())) == len(style.STYLES)
    assert set(figures.MAIN) <= set(style.STYLES)


def test_a_system_has_collapsed_only_if_it_is_more_than_the_drop_below_the_frozen_head():
    table = means(exact(static_linear=(0, 0.9), at=(0.5, 0.85), below=(0.5, 0.849), above=(0.5, 0.95)))
    assert dict(zip(table["system"], table["collapsed"])) == dict(
        static_linear=False, at=False, below=True, above=False
    )


def test_collapsed_systems_are_no_rivals_however_much_they_learn():
    runs = exact(static_linear=(0, 0.9), online_linear=(1.0, 0.1), klda=(0.8, 0.9), **{OURS: (0.85, 0.9)})
    compared = bar(runs)
    assert set(compared["system"]) == {"static_linear", "klda"}
    assert compared["at_least_equal"].all()
    best = best_rivals(compared).set_index("metric")
    assert best.loc["novel", "system"] == "klda" and best.loc["novel", "own"] == pytest.approx(0.85)


@pytest.mark.parametrize(
    "rival, equal",
    [(0.70, True), (0.709, True), (0.71, False), (0.72, False)],
    ids=["level", "inside the margin", "ahead by just the margin", "beyond the margin"],
)
def test_without_any_spread_the_margin_itself_decides_and_is_too_much(rival, equal):
    compared = bar(exact(static_linear=(0, 0.9), klda=(rival, 0.9), **{OURS: (0.70, 0.9)}))
    own = compared[(compared["system"] == "klda") & (compared["metric"] == "novel")].iloc[0]
    assert own["at_least_equal"] == equal and own["low"] == pytest.approx(0.70 - rival)
    said = tables.against_all(compared).text
    said = said[(said["Rival"] == "klda") & (said["Axis"] == "Novel")].iloc[0]
    assert said["Within 1 pp"] == ("yes" if equal else "not shown")
    assert said["Mean alone"] == ("level" if rival == 0.70 else "behind")


def test_systems_that_dominate_are_as_good_on_both_axes_and_better_on_one():
    runs = exact(
        static_linear=(0, 0.9),
        substrate=(0.8, 0.88),
        twin=(0.8, 0.88),
        more=(0.8, 0.89),
        mixed=(0.9, 0.87),
        er=(0.9, 0.9),
    )
    assert dominating(means(runs))["system"].tolist() == ["more", "er"]


def test_the_target_says_which_condition_fails_where_and_of_which_rivals(found):
    _, _, compared, reached = found
    text = tables.target(reached).text
    assert text["Dataset"].tolist() == ["Banking77", "CLINC150"]
    assert (text["Novel within 1 pp of all"] == "yes").all()
    assert text["Original within 1 pp of all"].str.startswith("not shown of klda").all()
    assert (text["Original kept"] == "yes").all() and (text["All"] == "no").all()
    assert (text["Novel over steps"] == "not shown").all(), "three seeds cannot be sure"
    numbers = tables.target(reached).numbers
    assert numbers["original_short"].str.split().map(len).tolist() == [len(n) for n in reached["original_short"]]


def test_with_seeds_enough_a_clear_winner_reaches_the_whole_target():
    systems = SYSTEMS | {"klda": (0.85, 0.90), "knn_lm": (0.7, 0.88)}
    results = checkpoints(systems, seeds=12, cells=[("banking77", "oracle")])
    runs = measure(results)
    reached = conditions(bar(runs), accuracies(runs, resamples=99), costs(results, on_both(5.0)))
    assert reached["anytime"].all() and reached["all"].all()
    text = tables.target(reached).text
    assert (text["Novel over steps"] == "better").all() and (text["All"] == "yes").all()
    assert text["Memory"].tolist() == ["1.00 ×"] and text["Time"].tolist() == ["5.00 ×"]


@pytest.mark.parametrize("memory, time", [(2.1, 1.0), (1.0, 5.1)])
def test_what_costs_too_much_does_not_reach_the_target(memory, time):
    systems = SYSTEMS | {"klda": (0.85, 0.90), "knn_lm": (0.7, 0.88)}
    results = checkpoints(systems, seeds=12, cells=[("banking77", "oracle")])
    results.loc[results["system"] == OURS, "storage_bytes"] *= memory
    runs = measure(results)
    reached = conditions(bar(runs), accuracies(runs, resamples=99), costs(results, on_both(time)))
    assert reached["novel_equal"].all() and not reached["affordable"].any() and not reached["all"].any()


def test_every_cell_has_the_time_of_its_own_dataset(results):
    found = costs(results, {"clinc150": 2.0, "banking77": 4.0})
    assert dict(zip(found["dataset"], found["time"])) == {"banking77": 4.0, "clinc150": 2.0}
    assert (found["memory"] == 1).all()


def test_with_test_rows_drawn_anew_fewer_rivals_are_surely_matched(found):
    _, _, compared, reached = found
    assert "rows_short" not in reached and "Rows drawn, too" not in tables.target(reached).text
    drawn = compared.assign(low_both=compared["low"] - 0.02)
    stricter = conditions(drawn, found[0].accuracies, costs(checkpoints(), on_both(1.0)))
    told = tables.target(stricter)
    assert told.text["Rows drawn, too"].str.startswith("not shown of").all()
    assert set(stricter["rows_short"].iloc[0]) > set(reached["original_short"].iloc[0])
    assert "Rows drawn, too (pp)" in tables.against_all(drawn).text
    assert quotes.overall(found[1], stricter)["beyond.cells_rows"] == 0


def test_one_seed_bounds_nothing_and_is_refused_in_words():
    results = checkpoints(seeds=1)
    with pytest.raises(InputError, match="one seed bounds nothing: give at least two"):
        bar(measure(results))
    with pytest.raises(InputError, match="bands need two seeds at least"):
        figures.recovery(results, policies=("oracle",))


def test_the_table_has_every_system_of_every_cell_and_marks_what_has_collapsed(results, found):
    all_of, joined, _, _ = found
    table = tables.comparison(joined)
    assert len(table.text) == 2 * len(SYSTEMS)
    assert table.text.loc[table.text["Collapsed"] == "yes", "System"].unique().tolist() == ["online_linear"]
    assert (table.text.loc[table.text["System"] == "substrate", tables.OVER] == "–").all()
    assert "Front by rows (%)" not in table.text
    with_rows = joined.assign(front_rows=1.0)
    assert (tables.comparison(with_rows).text["Front by rows (%)"] == "100").all()
    last = measure(results).groupby(["dataset", "system"])["novel"].mean()
    np.testing.assert_allclose(joined["novel"], [last[key] for key in zip(joined["dataset"], joined["system"])])


def test_the_best_rival_has_one_row_per_cell_and_axis(found):
    best = tables.against_best(found[2])
    assert best.text[["Dataset", "Axis"]].drop_duplicates().shape[0] == len(best.text) == 4
    assert best.text.loc[best.text["Axis"] == "Original", "Rival"].tolist() == ["klda", "klda"]


def test_all_tables_can_be_written(found, tmp_path):
    all_of, joined, compared, reached = found
    made = [tables.comparison(joined), tables.against_all(compared), tables.target(reached)]
    made += [tables.against_best(compared), tables.statistics(all_of.accuracies)]
    for table in (*made, tables.corrections(all_of.corrections)):
        table.write(tmp_path)
        assert len(pd.read_csv(tmp_path / f"{table.name}.csv")) == len(table.numbers)


def test_corrections_show_medians_open_bounds_and_how_many_got_there():
    results = checkpoints({"static_linear": (0, 0.9), "substrate": (0.6, 0.9), OURS: (0.95, 0.9)}, spread=0.0)
    results.loc[(results["seed"] == 0) & (results["system"] == OURS), "novel_acc"] *= 0.9
    text = tables.corrections(corrections_to_levels(results)).text
    assert text["System"].tolist() == [OURS, "substrate"] * 2, "in the order in which they are listed"
    first = text.set_index("System").iloc[:2]
    assert first["→50 %"].tolist() == ["5 [?, ?]", "8 [?, ?]"], "three seeds bound nothing"
    assert first.loc[OURS, "→90 %"].endswith("(2/3)") and first.loc["substrate", "→90 %"] == "not reached (0/3)"


def study():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        [
            dict(dataset="banking77", system=system, draw=d, order=o, coins=c, novel=by_draw[d], original=0.5)
            for system, by_draw in (("substrate", rng.normal(size=3)), (OURS, rng.normal(size=3)))
            for d in range(3)
            for o in range(2)
            for c in range(2)
        ]
    )


def test_the_variance_table_gives_all_to_the_draw_where_nothing_else_matters():
    table = tables.variance(study())
    novel = table.text[table.text["Axis"] == "Novel"]
    assert (novel["Draw (%)"] == "100").all() and (novel[["Order (%)", "Coins (%)"]] == "0").all(axis=None)
    assert (novel["Draw, 95 %"] == "[100, 100]").all() and "3 draws, 2 orders, 2 coins" in table.caption
    assert (table.text.loc[table.text["Axis"] == "Original", "Draw (%)"] == "–").all(), "nothing varies"
    shares = quotes.of_shares(table.numbers)
    assert shares["banking77.ours"]["novel_draw"].text == "100\N{NO-BREAK SPACE}%"
    assert set(shares) == {"banking77.ours", "banking77.substrate"}


def test_the_tuning_table_marks_what_was_chosen_and_leaves_gaps_open():
    rows = [
        dict(
            parameter="k" if k == 1 else "",
            value=1.0 if k == 1 else np.nan,
            chosen=k == 5,
            dataset=dataset,
            policy="oracle",
            seed=seed,
            novel=k / 10,
            original=0.5,
        )
        for k in (1, 5)
        for dataset in ("banking77", "clinc150")[: 2 if k == 5 else 1]
        for seed in range(2)
    ]
    text = tuning.one_at_a_time(pd.DataFrame(rows)).text
    assert text[["Setting", "Value"]].to_numpy().tolist() == [["as it is", ""], ["k", "1"]]
    assert text["Banking77, oracle"].tolist() == ["0.500 / 0.500", "0.100 / 0.500"]
    assert text["CLINC150, oracle"].tolist() == ["0.500 / 0.500", "–"]
    assert text["Mean"].tolist() == ["0.500", "0.300"]
    with pytest.raises(InputError, match="lack chosen"):
        tuning.one_at_a_time(pd.DataFrame(rows).drop(columns="chosen"))


def test_the_front_names_what_is_on_it_and_draws_what_lies_beyond_its_edges(found):
    joined = found[1]
    figure = figures.front(joined)
    named = [text.get_text() for axes in shown(figure) for text in axes.texts if text.get_text()]
    on_front = joined.loc[joined["front"] | joined["system"].isin((OURS, "substrate")), "system"]
    assert sorted(named) == sorted(on_front)
    for axes in shown(figure):
        marks = np.concatenate([dots.get_offsets() for dots in axes.collections])
        assert len(marks) == len(SYSTEMS)
        for values_of, limits in zip(marks.T, (axes.get_xlim(), axes.get_ylim())):
            assert (values_of >= limits[0]).all() and (values_of <= limits[1]).all()


def test_the_front_can_be_drawn_where_nobody_learns_and_where_all_but_one_collapse(found):
    joined = found[1]
    figures.front(joined.assign(novel=0.0, novel_low=0.0, novel_high=0.0)).canvas.draw()
    alone = joined["system"] == "static_linear"
    joined = joined.assign(original=np.where(alone, 0.9, 0.0), collapsed=~alone)
    figures.front(joined.assign(original_low=joined["original"], original_high=joined["original"])).canvas.draw()


def test_the_forest_is_sorted_and_fills_only_what_is_sure(found):
    accuracies = found[0].accuracies.copy()
    accuracies.loc[accuracies["system"] == "klda", "p_holm"] = 0.001
    figure = figures.anytime(accuracies)
    for axes in shown(figure):
        at = [float(dots.get_offsets()[0, 0]) for dots in axes.collections]
        assert at == sorted(at, reverse=True) and len(at) == len(SYSTEMS) - 1
        names = [label.get_text() for label in axes.get_yticklabels()]
        low, high = axes.get_xlim()
        assert figures.LEAST - 2 < low < min(at) and max(at) < high, "all marks are within the panel"
        filled = [n for n, dots in zip(names, axes.collections) if (dots.get_facecolor()[0][:3] != 1).any()]
        assert filled == ["klda"]


def test_recovery_draws_a_band_for_every_system_there_is(results):
    figure = figures.recovery(results)
    main = [name for name in figures.MAIN if name in SYSTEMS]
    assert len(figure.axes) == 2 * 2
    assert sum(len(axes.lines) for axes in figure.axes) == 2 * 2 * len(main)


def test_values_can_be_written_and_leave_out_what_is_never_reached(found, tmp_path):
    all_of, joined, compared, reached = found
    cells = quotes.cells(joined, compared, all_of.corrections)
    own = cells["banking77.oracle"]
    assert own["dominating"] == own["dominating_kept"] == 2 and own["sooner"] >= own["sooner_kept"]
    assert "substrate_to_50" in own and "substrate_to_90" not in own
    assert own["over_substrate_novel"].value == pytest.approx(
        100 * (own["ours_novel"].value - own["substrate_novel"].value)
    )
    names = {cell: " ".join(found) for cell, found in cells.items()}
    quoted = quotes.quoted(cells, names) | quotes.overall(joined, reached)
    quoted |= quotes.worst(compared)
    assert quoted["beyond.worst"].value == pytest.approx(100 * compared["difference"].min())
    assert quoted["beyond.worst_low"].value < quoted["beyond.worst"].value
    values.write(quoted, tmp_path / "values.json")
    assert json.loads((tmp_path / "values.json").read_text())["beyond.cells_all"]["text"] == "0"
    with pytest.raises(InputError, match="unknown number of banking77.oracle 'substrate_to_90'"):
        quotes.quoted(cells, {"banking77.oracle": "substrate_to_90"})


def test_sentences_name_what_learns_most_among_those_that_have_not_collapsed(found):
    said = list(quotes.lines(found[1]))
    assert f"{OURS} learns most" in said[0] and "klda keeps most" in said[0]
    assert said[-1] == "collapsed in some cell: online_linear (2 of 2)"


def test_the_table_of_the_search_begins_with_the_winner():
    rng, rows = np.random.default_rng(0), []
    settings = tune.drawn(6)
    for seed in range(3):
        names = ["static_linear", "ncm", *(f"{OURS} {n}" for n in range(6 if seed == 0 else 3))]
        for name in names:
            values = settings[int(name.split()[1])] if name.startswith(OURS) else {}
            place = dict(system=name, dataset="banking77", policy="oracle", seed=seed)
            rows.append(place | dict(novel=rng.uniform(0.7, 0.8), original=rng.uniform(0.85, 0.9)) | values)
    table = tuning.search(pd.DataFrame(rows))
    first = table.numbers.iloc[0]
    assert {name: first[name] for name in tune.SPACE} == tune.winner(pd.DataFrame(rows))
    said = table.text.set_index("")
    assert list(said) == ["1.", "2.", "3.", "4.", "5.", "6."] and said.loc["Seeds"].tolist() == list("333111")
    assert said.loc["neighbour weight", "1."] == f"{first['neighbour_weight']:g}" and len(said) == 2 + len(tune.SPACE)
    quoted = tuning.quoted(table.numbers)
    assert quoted["beyond.search.tried"].text == "6"
    assert quoted["beyond.search.behind"].text == said.loc["Behind (pp)", "1."] + "\N{NO-BREAK SPACE}pp"
    inner = {name: values[1] for name, values in tune.SPACE.items()} | {"k": max(tune.SPACE["k"])}
    assert tuning.quoted(table.numbers.head(1).assign(**inner))["beyond.search.edges"].text == "1"


def test_what_a_reader_is_worth_is_what_is_lost_without_it_where_that_is_most():
    rows = []
    for policy, losses in {"oracle": (0.01, 0.0), "random10": (0.03, -0.02)}.items():
        for parameter, lost in {"": (0, 0), **dict.fromkeys(tune.left_out(REGISTRY[OURS].params), losses)}.items():
            cell = dict(dataset="banking77", policy=policy, seed=1000, parameter=parameter)
            rows.append(cell | dict(novel=0.8 - lost[0], original=0.9 - lost[1]))
    found = tuning.without(pd.DataFrame(rows))
    assert set(found) == {"no_plda", "no_kernel", "no_neighbours", "no_head"}
    for own in found.values():
        assert (own["novel"].text, own["original"].text) == ("3.0\u00a0pp", "0.0\u00a0pp")


def test_collapsed_systems_are_ahead_where_they_are_most():
    rows = [
        ("oracle", OURS, 0.8, False),
        ("oracle", "pa", 0.85, True),
        ("oracle", "klda", 0.9, False),
        ("random10", OURS, 0.5, False),
        ("random10", "pa", 0.52, True),
    ]
    table = pd.DataFrame(rows, columns=["policy", "system", "novel", "collapsed"]).assign(dataset="banking77")
    assert quotes.ahead_at_a_price(table)["beyond.collapsed_ahead"].text == "5.0\u00a0pp"


def test_who_is_a_rival_depends_on_the_limit_and_collapses_before_the_stream_are_counted_apart():
    systems = {"static_linear": (0.0, 0.95), "substrate": (0.8, 0.94), "slda": (0.95, 0.87), "er": (0.5, 0.80)}
    results = checkpoints(systems | {OURS: (0.9, 0.945)}, seeds=12, cells=[("banking77", "oracle")])
    results.loc[(results["system"] == "er") & (results["step"] == 0), "original_acc"] = 0.94
    told = quotes.of_collapse(results, drops=(0.05, 0.1))
    assert (told["beyond.collapses"], told["beyond.collapses_early"]) == (2, 1)  # er and slda; slda alone
    assert (told["beyond.cells_within_5"], told["beyond.cells_within_10"]) == (1, 0)
    starts = {name: told[f"beyond.start.banking77.{name}"].value for name in ("ours", "substrate")}
    assert starts == pytest.approx({"ours": 0.945, "substrate": 0.94}, abs=0.01)
