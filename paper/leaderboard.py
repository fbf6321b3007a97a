"""Rank published and contributed systems: figures/leaderboard.csv and figures/leaderboard.md."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from ocrr.board.verify import CONTRIBUTED, KINDS, RERUN, contributions
from ocrr.evaluation import CELL, MEASURED, PUBLISHED, following, published_runs, ranking
from ocrrlib.embeddings import load
from ocrrlib.files import ROOT, InputError, write_text
from ocrrlib.stream import EVERY
from paper import rows_log
from paper.style import cell_title

MISSING = "–"
SEEDS = range(20)  # of a system that is ranked, as of the published ones: nobody picks others
CAPTION = (
    "Published and contributed systems, best first by *HM*, the harmonic mean of *novel* and "
    "*original*, the accuracies at the end of the stream: who forgets the known classes ranks as "
    "low as who learns no new one. *Best HM* is the highest on the curve of both, *AUSUC* the area "
    "under it. *Starts at* is original accuracy before the first correction, *lost* are the points "
    "from there to the end. A correction *holds* if its text, asked again *at once* or at the end, "
    "is answered as corrected. "
    "Means over seeds ± half the width of the 95 % t interval. A system is *checked against* what "
    "the tests compare it with. Only systems that were run again here rank (ours by `make check`, "
    f"others by `ocrr verify`), with seeds 0 to {SEEDS[-1]}. Others stand apart: *replayed* "
    "ones with all their answers, *reported* ones with their numbers alone."
)
APART = "Not ranked"
NOTHING = "nothing"
AUTHORS = "authors' code"  # at each checkpoint, but for what rounded embeddings change
AUTOGRAD = "formula by autograd"  # of adapters without dropout
FORMULA = "formula"  # written out over all rows
LIBRARY = "library"
CHECKED = (  # with what, in which file of tests, of which systems in the registry
    (
        AUTHORS,
        "parity",
        "static_knn static_linear online_linear ewc a_gem lwf knn_lm substrate",
    ),
    (AUTOGRAD, "heads", "static_linear online_linear ewc a_gem lwf"),
    (AUTOGRAD, "replay", "online_linear_tuned er er_tuned er_ace er_ace_tuned der_pp mir gdumb"),
    (
        AUTOGRAD,
        "lora",
        "lora lora_replay lora_replay_summed lora_no_dropout lora_epochs_5 lora_epochs_10",
    ),
    (FORMULA, "neighbours", "knn_lm"),
    (
        FORMULA,
        "voting",
        "static_knn substrate substrate_k1 substrate_sumsim substrate_count_only "
        "substrate_no_recency bounded_reservoir_100 bounded_reservoir_500 bounded_reservoir_1000 "
        "bounded_reservoir_5000 bounded_fifo_100 bounded_fifo_500 bounded_fifo_1000 "
        "bounded_fifo_5000",
    ),
    (
        FORMULA,
        "discriminants",
        "ncm ncm_cosine slda slda_frozen slda_shrunk klda klda_held",
    ),
    (FORMULA, "ridge", "rls ranpac"),
    (FORMULA, "ledger_lda", "ledger_lda"),
    (
        FORMULA,
        "even",
        "slda_even klda_held_even slda_even_lookup klda_held_even_lookup ranpac_even_lookup",
    ),
    (LIBRARY, "river", "river_logreg pa"),
)


def checked_against(system: str) -> str:
    """What the tests compare a system of the registry with; ``NOTHING`` for any other."""
    found = [kind for kind, _, names in CHECKED if system in names.split()]
    return ", ".join(dict.fromkeys(found)) or NOTHING


def leaderboard(folder: Path = CONTRIBUTED) -> pd.DataFrame:
    """One row per cell, system and kind: the cell, ``rank``, ``kind``, then as ``ranking``.

    Only systems that were run again rank, ours as those of others, with the seeds ``SEEDS``, where
    ours are; equals have equal ranks. Those without a rank come last. Raises ``InputError`` if a
    file has no such rows, or others than follow from its transcript, two have one system in one
    cell, or rows of a published dataset are not of its data.
    """
    published = published_runs().copy()
    # As contributed rows are.
    published[MEASURED] = published[MEASURED].map(lambda value: round(value, 6))
    prints = published[["dataset", "encoder"]].drop_duplicates()
    prints["fingerprint"] = [load(*one).fingerprint for one in prints.itertuples(index=False)]
    theirs = [rows.assign(kind=kind) for rows, kind in contributions(folder)]
    _check_files(theirs, prints)
    runs = pd.concat([published.merge(prints).assign(kind=RERUN), *theirs])
    blocks = []
    for place, own in following(runs).groupby(CELL, sort=False):
        kinds = {kind: own[own["kind"] == kind] for kind in KINDS}
        parts = [ranking(rows).assign(kind=kind) for kind, rows in kinds.items() if len(rows)]
        block = pd.concat(parts, ignore_index=True)
        seeds = kinds[RERUN].groupby(["system", "source"])["seed"].agg(set)
        names = zip(block["system"], block["source"])
        whole = pd.Series([seeds.get(name) == {*SEEDS} for name in names])
        ours = block["source"] == PUBLISHED  # another's may have the name of one of ours
        ranked = (block["kind"] == RERUN) & whole & ours.any()
        ranks = block["hm"].where(ranked).rank(ascending=False, method="min").astype("Int64")
        cell = block.assign(**dict(zip(CELL, place)), draw="fresh", cap="", rank=ranks)
        against = cell["system"].map(checked_against).where(ours, NOTHING)
        cell = cell.assign(**{"checked against": against})
        first = [*CELL[:5], "draw", "cap", CELL[5], "rank", "kind", "checked against"]
        cell = cell[[*first, *block.columns.drop("kind")]]
        blocks.append(cell.sort_values("rank", kind="stable", na_position="last"))
    return pd.concat(blocks, ignore_index=True)


def _check_files(files, prints):
    """``InputError`` for a system in two files, or other data under a published name."""
    if not files:
        return
    rows = pd.concat(files)
    for (dataset, *_, system), names in rows.groupby([*CELL, "system"])["file"].unique().items():
        if len(names) > 1:
            raise InputError(
                f"{' and '.join(names)} both have {system} on {dataset}: "
                "put all its seeds into one, or give one system another name"
            )
    both = rows.merge(prints, on=["dataset", "encoder"], suffixes=("", " published"))
    others = both[both["fingerprint"] != both["fingerprint published"]]
    if not others.empty:
        first = others.iloc[0]
        raise InputError(
            f"{first['file']}: the data are not the published {first['dataset']}, as their "
            "fingerprint differs: give the dataset another name"
        )


def cells(table: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Title, setting and rows of each cell of a leaderboard."""
    for (dataset, _, encoder, policy, held_out, every), block in table.groupby(CELL, sort=False):
        often = "" if every == EVERY else f" every {every} stream items"
        setting = f"{encoder}, {held_out} classes held out, all test rows{often}"
        yield cell_title(dataset, policy), setting, block


def markdown(table: pd.DataFrame) -> str:
    """A leaderboard for readers: a heading and a table for each cell."""
    blocks = [f"# Leaderboard\n\n{CAPTION}"]
    for title, setting, block in cells(table):
        ranked, others = apart(block)
        blocks.append(f"## {title}\n\n{setting}\n\n{_markdown_table(ranked)}")
        if len(others):
            blocks.append(f"### {APART}: {title}\n\n{_markdown_table(others)}")
    return "\n\n".join(blocks) + "\n"


def apart(block: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of a cell with a rank, and those without."""
    ranked = block["rank"].notna()
    return block[ranked], block[~ranked]


def _markdown_table(block):
    text = {
        "Rank": ranks(block),
        "System": block["system"],
        "Novel": halves(block, "novel"),
        "Original": halves(block, "original"),
        "HM": halves(block, "hm"),
        "Best HM": halves(block, "best hm"),
        "AUSUC": halves(block, "ausuc"),
        "Starts at": halves(block, "starts at"),
        "Lost (pp)": halves(block, "lost", 100, 1),
        "Holds at once": _means(block, "holds at once"),
        "Holds": _means(block, "holds"),
        "Seeds": block["seeds"],
        "Kind": block["kind"],
        "Checked against": block["checked against"],
        "Source": block["source"],
    }
    return pd.DataFrame(text).to_markdown(index=False, disable_numparse=True)


def ranks(block: pd.DataFrame) -> list[str]:
    """Ranks of a cell for readers, a dash for none."""
    return [MISSING if pd.isna(rank) else f"{rank:.0f}" for rank in block["rank"]]


def halves(block: pd.DataFrame, name: str, times: float = 1, digits: int = 3) -> list[str]:
    """Means ± half the interval, so many times as large; the mean alone for one seed."""
    if name not in block:
        return [MISSING] * len(block)
    text = []
    for mean, low, high in zip(block[name], block[f"{name} low"], block[f"{name} high"]):
        shown = MISSING if pd.isna(mean) else f"{times * mean:.{digits}f}"
        half = "" if pd.isna(high) else f" ± {times * (high - low) / 2:.{digits}f}"
        text.append(shown + half)
    return text


def _means(block, name):
    """Means alone."""
    if name not in block:
        return [MISSING] * len(block)
    return [MISSING if pd.isna(mean) else f"{mean:.3f}" for mean in block[name]]


def main(folder: Path = CONTRIBUTED, target: Path = ROOT / "figures") -> None:
    """Write the table, for programs and readers, and the log of its rows with a head.

    Raises ``InputError`` as ``leaderboard`` does, and if a row has vanished.
    """
    table = leaderboard(folder).round(6)
    head = rows_log.update(table, target)
    write_text(target / "leaderboard.csv", table.to_csv(index=False, lineterminator="\n"))
    write_text(target / "leaderboard.md", f"{markdown(table)}\n{rows_log.shown(head)}")
    print(f"{len(table)} rows: {target / 'leaderboard.csv'}, {target / 'leaderboard.md'}")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"error: {error}")
