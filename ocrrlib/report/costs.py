"""Section 5.7: what corrections and predictions cost, as tables and figures."""

import matplotlib.pyplot as plt
import pandas as pd

from ocrrlib.experiments import OURS
from ocrrlib.report.style import PALETTE, WIDTH, title_of
from ocrrlib.report.table import Table
from ocrrlib.report.values import Value
from studies.costs import MEASURED, MEASURED_ON, REFERENCE

# Per correction, in µs (section 5.7; LoRA's on an RTX 4090).
PAPER = dict(substrate=10, knn_lm=10, online_linear=1e3, ewc=1e3, lwf=1e3, a_gem=3e3, river_logreg=5e3, lora=5e4)
ENTRY_BYTES = 4 * 384  # what an exact search must read of an entry


def _time(us):
    """Microseconds with a unit that fits."""
    return f"{us:.1f} µs" if us < 100 else f"{us:.0f} µs" if us < 1e3 else f"{us / 1e3:.1f} ms"


def _times(ratio):
    return f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"


def _range(rows, what):
    """Medians with their 5-95 %."""
    return [
        f"{_time(middle)} ({_time(low)}-{_time(high)})"
        for middle, low, high in zip(*(rows[f"{what}_{part}"] for part in ("median", "low", "high")))
    ]


def on(dataset, costs):
    """Costs on one dataset, by system."""
    return costs[costs["dataset"] == dataset].set_index("system")


def beside(costs, *what):
    """Medians of a correction and a prediction, or of one of them, by the substrate's in the same run on this data."""
    what = what or ("correct", "predict")
    return sum(costs[f"{one}_median"] for one in what) / sum(costs[f"{REFERENCE}_{one}"] for one in what)


def times_of_ours(costs):
    """Time of a correction and the prediction after it with ours, as many times the substrate's, by dataset."""
    return beside(costs[costs["system"] == OURS].set_index("dataset")).to_dict()


def per_item(costs):
    """The paper's table of costs beside ours."""
    first, second = MEASURED_ON
    order = {name: place for place, name in enumerate((*MEASURED_ON, *MEASURED))}
    numbers = costs.drop(columns="made_by", errors="ignore")
    numbers = numbers.sort_values(["dataset", "system"], key=lambda names: names.map(order), ignore_index=True)
    table, other = on(first, numbers), beside(on(second, numbers))
    text = {
        "System": table.index,
        "Correction": _range(table, "correct"),
        "Paper": [f"~{_time(PAPER[name])}" if name in PAPER else "" for name in table.index],
        "Prediction": _range(table, "predict"),
        "Both ÷ substrate": [_times(value) for value in beside(table)],
        f"Both ÷ substrate, {title_of(second)}": [_times(other[name]) if name in other else "" for name in table.index],
        "One seed (s)": [f"{value:.1f}" for value in table["seed_s"]],
        "MB held": [f"{value / 1e6:.2f}" for value in table["bytes"]],
    }
    caption = (
        "Time of one correction and of one prediction through the public contract, on one core: median and "
        f"5–95\N{NO-BREAK SPACE}% over the start of {title_of(first)}'s stream; and of a whole run with one seed. "
        "Both: a correction and the prediction after it, by the substrate's in the same run, also over the start of "
        f"{title_of(second)}'s stream. The paper's are for 1024 dimensions, and LoRA's for DeBERTa-v3-large on a GPU."
    )
    usual = table[f"{REFERENCE}_predict"].mode()[0]
    for predict, rows in table[table[f"{REFERENCE}_predict"] != usual].groupby(f"{REFERENCE}_predict"):
        names, correct = ", ".join(rows.index), rows[f"{REFERENCE}_correct"].iloc[0]
        caption += f" Beside {names}, the {REFERENCE} took {_time(correct)} and {_time(predict)}."
    return Table("table_costs", caption, numbers, pd.DataFrame(text))


def with_floor(growth):
    """Growth with the least time that reading all entries takes, and how far above it exact search is."""
    floor = 1e6 * growth["entries"] * ENTRY_BYTES / growth["bandwidth"]
    exact = growth["system"] == "substrate"
    return growth.assign(floor=floor, times_floor=(growth["predict_median"] / floor).where(exact))


def ledger_growth(growth):
    """Costs by size of the ledger."""
    numbers = with_floor(growth).sort_values(["entries", "system"], ignore_index=True)
    numbers = numbers.drop(columns="made_by", errors="ignore")
    text = {
        "Entries": [f"{n:,}" for n in numbers["entries"]],
        "System": numbers["system"],
        "Correction": _range(numbers, "correct"),
        "Prediction": _range(numbers, "predict"),
        "Bandwidth floor": [_time(value) for value in numbers["floor"]],
        "Prediction ÷ floor": ["" if pd.isna(value) else f"{value:.2f}" for value in numbers["times_floor"]],
        "MB held": [f"{value / 1e6:,.1f}" for value in numbers["bytes"]],
    }
    caption = (
        "Costs by size of the ledger, on one core. The floor is the time to read every entry once, at the bandwidth of "
        "memory copies made in the same run."
    )
    return Table("table_growth", caption, numbers, pd.DataFrame(text))


def growth(rows):
    """One prediction and one correction against the size of the ledger, with the floor drawn in."""
    rows = with_floor(rows)
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 3.3), sharey=True)
    looks = {"substrate": ("vermilion", "*"), "substrate_hnsw": ("blue", "o")}
    for axes, (what, title) in zip(panels, {"predict": "one prediction", "correct": "one correction"}.items()):
        for system, (colour, marker) in looks.items():
            one = rows[rows["system"] == system].sort_values("entries")
            axes.fill_between(
                one["entries"], one[f"{what}_low"], one[f"{what}_high"], color=PALETTE[colour], alpha=0.15, linewidth=0
            )
            axes.plot(one["entries"], one[f"{what}_median"], color=PALETTE[colour], marker=marker, label=system)
        axes.set(xscale="log", yscale="log", xlabel="entries", title=title)
    floor = rows[rows["system"] == "substrate"].sort_values("entries")
    panels[0].plot(
        floor["entries"], floor["floor"], color=PALETTE["grey"], linestyle="--", linewidth=1, label="bandwidth floor"
    )
    panels[0].set_ylabel("time (µs)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def quoted(costs, growth):
    """Values for the paper's prose."""
    first, second = MEASURED_ON
    table, ours = on(first, costs), times_of_ours(costs)
    own, append = table["correct_median"], beside(table, "correct")
    exact = with_floor(growth).dropna(subset="times_floor").sort_values("entries")
    largest = exact.iloc[-1]
    alike = table["predict_median"][["online_linear", "online_linear_tuned"]]  # which predict by the same code
    values = {
        "alike_times": Value(alike.max() / alike.min(), digits=1),
        "ours_times": Value(append[OURS], digits=1),
        "ours_times_with_prediction": Value(ours[first], digits=1),
        f"ours_times_with_prediction_{second}": Value(ours[second], digits=1),
        "ours_memory_times": Value(table["bytes"][OURS] / table["bytes"]["substrate"], digits=2),
        "append": Value(own["substrate"], digits=1, unit="µs"),
        "empty": Value(own["static_knn"], digits=1, unit="µs"),
        "append_warm": Value(exact["correct_median"].iloc[0], digits=1, unit="µs"),
        "online_linear_times": Value(append["online_linear"], digits=1),
        "online_linear_times_warm": Value(own["online_linear"] / exact["correct_median"].iloc[0], digits=1),
        "a_gem_times": Value(append["a_gem"], digits=0),
        "largest": int(largest["entries"]),
        "largest_search": Value(largest["predict_median"] / 1e3, digits=0, unit="ms"),
        "largest_floor": Value(largest["times_floor"], digits=2),
    }
    return {f"cost.{name}": value for name, value in values.items()}


def lines(costs, growth):
    """What the tables say, in sentences."""
    table = on(MEASURED_ON[0], costs)
    own, append = table["correct_median"], beside(table, "correct")
    for name in own.index.intersection(["online_linear", "ewc", "lwf", "a_gem", "river_logreg", "lora"]):
        yield f"one correction: {name} takes {append[name]:,.1f} times as long as the substrate"
    warm = growth[growth["system"] == "substrate"].sort_values("entries")["correct_median"]
    yield (
        f"the substrate's append takes {_time(own['substrate'])} after a search, which has filled the caches, and "
        f"{_time(warm.iloc[0])} to {_time(warm.iloc[-1])} after another append"
    )
    exact = with_floor(growth).dropna(subset="times_floor").sort_values("entries")
    for row in exact.to_dict("records"):
        yield (
            f"{row['entries']:,} entries: an exact search takes {_time(row['predict_median'])}, "
            f"{row['times_floor']:.2f} times the bandwidth floor"
        )
