"""Tables of products that learn from corrections, and of our memory beside them."""

from collections.abc import Iterable

import pandas as pd

from ocrrlib.metrics import harmonic_mean
from paper.claims import SIGNS
from paper.style import POLICY_TITLES, title_of
from paper.tables import Table, shown

CELL_PRODUCT = ["dataset", "policy", "product"]
ACCURACIES = ["novel", "original", "hm"]
OTHERS = ["holds_at_once", "holds", "corrections", "correct_ms", "answer_ms", "bytes"]


def shared(rows: pd.DataFrame) -> pd.DataFrame:
    """Runs of the streams that every product has met."""
    met = rows.groupby(["dataset", "policy", "seed"])["product"].transform("nunique")
    return rows[met == rows["product"].nunique()]


def by_cell(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds by dataset, policy and product, and the range of each accuracy."""
    runs = rows.assign(hm=harmonic_mean(rows["novel"], rows["original"]))
    groups = runs.groupby(CELL_PRODUCT, sort=False)
    numbers = groups[ACCURACIES + OTHERS].mean().assign(seeds=groups.size())
    for name in ACCURACIES:
        numbers[f"{name}_low"] = groups[name].min()
        numbers[f"{name}_high"] = groups[name].max()
    places = {
        "dataset": list(dict.fromkeys(rows["dataset"])),
        "policy": list(POLICY_TITLES),
        "product": list(dict.fromkeys(rows["product"])),
    }
    numbers = numbers.reset_index()
    order = pd.DataFrame({name: numbers[name].map(own.index) for name, own in places.items()})
    return numbers.loc[order.sort_values(CELL_PRODUCT).index].reset_index(drop=True)


def products(numbers: pd.DataFrame, versions: dict[str, str]) -> Table:
    """Table of ``by_cell``; ``versions`` of the products by name."""
    names = {name: f"{name} {version}" for name, version in versions.items()}
    text = {
        "Dataset": numbers["dataset"].map(title_of),
        "Policy": numbers["policy"].map(POLICY_TITLES),
        "Product": numbers["product"].map(names),
        "Seeds": shown(numbers["seeds"], "d"),
    }
    for title, name in zip(("Novel", "Original", "HM"), ACCURACIES):
        text[title] = _ranges(numbers, name)
    text["Holds at once"] = shown(numbers["holds_at_once"], ".3f")
    text["Holds at the end"] = shown(numbers["holds"], ".3f")
    text["Corrections"] = shown(numbers["corrections"], ".0f")
    text["Correction, ms"] = _times(numbers["correct_ms"])
    text["Answer, ms"] = _times(numbers["answer_ms"])
    text["MB"] = shown(numbers["bytes"] / 1e6, ".1f")
    caption = (
        "Products as shipped, and our memory as shipped, with the reader by default and the "
        "proposed one: means over seeds, in brackets the lowest and the highest, none where there "
        "is one seed. HM is the harmonic mean of final novel and original accuracy. A correction "
        "holds if its text is answered as corrected, right after it or at the end of the stream. "
        "Times are medians of processor time; waiting for the disk, which corrigible alone does, "
        "is not in them. corrigible and adaptive-classifier encode each text in them, "
        "semantic-router gets its row, microresolve reads words."
    )
    return Table("table_products", caption, numbers, pd.DataFrame(text))


def _ranges(numbers, name):
    """Means with the lowest and the highest seed, where there are several."""
    text = []
    columns = [name, f"{name}_low", f"{name}_high", "seeds"]
    for mean, low, high, seeds in numbers[columns].itertuples(index=False):
        text.append(f"{mean:.3f} [{low:.3f}, {high:.3f}]" if seeds > 1 else f"{mean:.3f}")
    return text


def stored_wrong(rows: pd.DataFrame) -> Table:
    """Share of corrections that hold of texts stored under a wrong label, by number of copies.

    ``rows`` are those of products and of systems of ours, in the order of the table.
    """
    names = [*dict.fromkeys(rows["system"])]
    means = rows.groupby(["system", "copies"])["holds"].mean().unstack().loc[names]
    numbers = means.rename(columns="copies {}".format).rename_axis(columns=None).reset_index()
    numbers["at_once"] = rows.groupby("system")["holds_at_once"].mean().loc[names].to_numpy()
    text = pd.DataFrame({"Product or system": names})
    for copies in means:
        text[f"{copies} wrong" if copies == 1 else str(copies)] = shown(means[copies], ".2f")
    text["Right after it"] = shown(numbers["at_once"], ".2f")
    caption = (
        "Texts that were stored under a wrong label and then corrected once: share of corrections "
        "that hold when all are made, by the number of wrong entries of the text, and right after "
        "each, over all numbers. Banking77, 20 classes with 40 rows, 10 texts for each number, "
        f"{rows['seed'].nunique()} seeds. A memory answers by the newest label of an equal text; "
        "its readers alone, and products, weigh all entries."
    )
    return Table("table_stored_wrong", caption, numbers, text)


def _times(values: Iterable[float]) -> list[str]:
    """Milliseconds with three significant digits from 1 down, whole ones from 100 up."""
    forms = [".0f" if value >= 100 else ".2f" for value in values]
    return ["–" if pd.isna(value) else format(value, form) for value, form in zip(values, forms)]


def product_claims(claims: pd.DataFrame) -> Table:
    """Vendors' figures, found with and without the leak, and the verdicts."""
    text = pd.DataFrame(
        {
            "Product": claims["product"],
            "Claim": claims["claim"],
            "Printed": _figures(claims["printed"], claims["unit"]),
            "As printed": _figures(claims["with_leak"], claims["unit"]),
            "Without leak": _figures(claims["without_leak"], claims["unit"]),
            "Verdict": claims["verdict"].map(SIGNS) + " " + claims["verdict"],
        }
    )
    caption = (
        "Figures that the products' descriptions print, and the same derived again: as printed, "
        "which after learning means that wrongly answered test sentences are learnt and the same "
        "test file is scored, and without that leak, from as many training sentences. Verdicts as "
        "for the original's claims; without the leak, where there is such a figure."
    )
    return Table("table_product_claims", caption, claims, text)


def _figures(values: Iterable[float], units: Iterable[str]) -> list[str]:
    """Numbers with their units; shares with three decimals."""
    text = []
    for value, unit in zip(values, units):
        if pd.isna(value):
            text.append("–")
        elif unit:
            text.append(f"{value:.2g} {unit}")
        else:
            text.append(f"{value:.3f}")
    return text
