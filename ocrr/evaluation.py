"""Results of systems, as tables and a plot, and their ranks among all published systems."""

import functools
import io
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from filelock import FileLock
from scipy.special import stdtrit

from ocrr.submission import write_submission
from ocrr.transcript import unpacked
from ocrrlib import __version__
from ocrrlib.datasets import DATASETS
from ocrrlib.embeddings import load
from ocrrlib.files import (
    InputError,
    check_name,
    data_folder,
    needs,
    pick,
    writable,
    write_text,
)
from ocrrlib.metrics import RUN, final, harmonic_mean, over_steps
from ocrrlib.policies import POLICIES
from ocrrlib.stream import EVERY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HELD_OUT = 10  # classes, in all published cells
# Of a run's end: measured, or, as harmonic mean and points lost, following from these.
METRICS = ["novel", "original", "hm", "best hm", "ausuc", "anytime novel", "anytime original"]
METRICS += ["starts at", "lost", "holds at once", "holds", "corrections"]
# A system without probabilities has no curve, and nothing holds where nothing was corrected.
OPTIONAL = ["best hm", "ausuc", "holds at once", "holds"]
FOLLOWING = ["hm", "lost"]
SHORT = ["novel", "original", "hm", "ausuc", "corrections"]  # in a table to print
REPORT = "ocrrlib[report]"  # the extra for figures and LaTeX
NAMES = {  # of columns of checkpoints
    "novel_acc": "novel",
    "original_acc": "original",
    "best_hm": "best hm",
    "holds_at_once": "holds at once",
}
MEASURED = [name for name in METRICS if name not in FOLLOWING]
CELL = ["dataset", "fingerprint", "encoder", "policy", "held_out", "every"]
STREAM = ["dataset", "policy", "held_out", "every", "seed"]
COMPARABLE = ["dataset", "policy", "held_out", "every", "encoder"]  # with published runs
COLUMNS = ["system", "source", *CELL, "seed", *MEASURED, "version", "date"]  # of the leaderboard
ROW = ["system", "source", *CELL, "seed"]  # names a row there
PUBLISHED = "published here"
OWN = "own run"


def finals(curve: pd.DataFrame) -> pd.DataFrame:
    """One row per run of a curve: ``metrics.RUN`` and ``METRICS``.

    *anytime* is the mean over stream steps. The others are those of ``ocrrlib.metrics.Checkpoint``,
    NaN where the checkpoints have none.
    """
    last = final(curve).rename(columns=NAMES)
    runs = curve.groupby(RUN, sort=False, observed=True)
    for axis in ("novel", "original"):
        last[f"anytime {axis}"] = over_steps(runs, f"{axis}_acc")
    last["starts at"] = runs["original_acc"].first().to_numpy()
    return following(last.reindex(columns=RUN + MEASURED))[RUN + METRICS]


def following(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with the metrics ``FOLLOWING`` from ``MEASURED`` ones.

    ``hm`` is the harmonic mean of final novel and original accuracy, ``lost`` original accuracy
    before the stream (``starts at``) less that at its end.
    """
    hm = harmonic_mean(runs["novel"], runs["original"])
    return runs.assign(hm=hm, lost=runs["starts at"] - runs["original"])


def intervals(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean, standard deviation (n - 1) and 95 % t interval of each metric, a row each.

    Spread and interval of one run are NaN. A metric that no run has is left out.
    """
    runs = runs[METRICS].dropna(axis=1, how="all")
    mean = runs.mean()
    half = half_interval(runs)
    columns = {"mean": mean, "sd": runs.std(), "low": mean - half, "high": mean + half}
    return pd.DataFrame(columns | {"n": len(runs)}).rename_axis("metric").reset_index()


def half_interval(runs: pd.DataFrame) -> pd.Series:
    """Half the width of each column's 95 % t interval; NaN for one row."""
    n = len(runs)
    # t_(0.975, n - 1) sd / sqrt(n)
    return stdtrit(max(n - 1, 1), 0.975) * runs.std() / np.sqrt(n)


def ranking(runs: pd.DataFrame) -> pd.DataFrame:
    """Systems of one cell, best first by ``hm``, which asks for new and known classes alike.

    ``runs`` has one row per run: ``system``, ``source`` and ``METRICS``. The table has one per
    system and source: ``seeds``, the mean of each metric, and its bounds ``<metric> low`` and
    ``<metric> high``.
    """
    rows = []
    for (system, source), own in runs.groupby(["system", "source"]):
        row: dict = {"system": system, "source": source, "seeds": len(own)}
        for one in intervals(own).itertuples():
            row[one.metric] = one.mean
            row[f"{one.metric} low"] = one.low
            row[f"{one.metric} high"] = one.high
        rows.append(row)
    table = pd.DataFrame(rows)
    return table.sort_values("hm", ascending=False, kind="stable", ignore_index=True)


@functools.cache
def published_runs() -> pd.DataFrame:
    """One row per run of the published comparison.

    Columns are those of ``finals``, ``held_out``, ``every`` and ``source``.
    """
    curve = pd.read_parquet(data_folder() / "results/beyond.parquet")
    return finals(curve).assign(held_out=HELD_OUT, every=EVERY, source=PUBLISHED)


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation:
    """Results of the system ``name``, or of several, whose names are joined by commas.

    Of several, ``result[name]`` are those of one, and tables have a row, or rows, of each.

    ``curve`` has one row per checkpoint, with the columns of the published results; ``runs`` one
    row per seed, with ``CELL``, ``seed``, ``system``, ``METRICS``, and of the scenario the numbers
    of ``classes``, ``novel_rows`` and ``original_rows`` (tested), and ``refits`` of a ``Refit``.
    ``systems`` are those given, by name, ``answers`` what they answered, by name and seed, packed
    as in ``ocrr.transcript``.
    """

    name: str
    curve: pd.DataFrame
    runs: pd.DataFrame
    systems: dict[str, Any] = field(default_factory=dict)
    answers: dict[tuple[str, int], str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of the systems, in order."""
        return self.runs["system"].unique().tolist()

    def __getitem__(self, name: str) -> "Evaluation":
        """Results of one of the systems; ``InputError`` if there is none of this name."""
        pick("system", name, dict.fromkeys(self.names))
        frames = [frame[frame["system"] == name] for frame in (self.curve, self.runs)]
        curve, runs = (frame.reset_index(drop=True) for frame in frames)
        answers = {key: one for key, one in self.answers.items() if key[0] == name}
        return Evaluation(name, curve, runs, {name: self.systems.get(name)}, answers)

    @property
    def summary(self) -> pd.DataFrame:
        """One row per metric: ``mean``, ``sd``, ``low`` and ``high`` (95 % t interval), ``n``.

        ``ausuc`` and ``best hm`` are missing for a system without probabilities, ``holds`` where
        nothing was corrected; the interval is NaN for one seed. Of several systems, ``system`` is
        the first column.
        """
        return self._of_each(intervals)

    def _of_each(self, table: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
        """The tables of the systems' runs, one below the other."""
        parts = {name: table(runs) for name, runs in self.runs.groupby("system", sort=False)}
        if len(parts) == 1:
            return parts[self.name]
        return pd.concat(parts, names=["system"]).reset_index("system").reset_index(drop=True)

    @property
    def table(self) -> pd.DataFrame:
        """A row per system, to print: means ± half the 95 % t interval, as text.

        Columns are ``novel``, ``original``, ``hm``, ``ausuc`` and ``corrections``; ``summary`` has
        the numbers, and all metrics.
        """
        rows: dict = {name: {} for name in self.names}
        for name in rows:
            for one in self[name].summary.itertuples():
                digits = 0 if one.metric == "corrections" else 3
                half = f" ± {one.high - one.mean:.{digits}f}" if one.n > 1 else ""
                rows[name][one.metric] = f"{one.mean:.{digits}f}{half}"
        table = pd.DataFrame.from_dict(rows, orient="index")
        return table[[metric for metric in SHORT if metric in table]].fillna("–")

    def to_latex(self) -> str:
        """``table`` for LaTeX with the package booktabs; needs the extra ``report``."""
        with needs(REPORT):
            import jinja2  # noqa: F401  what pandas needs
        table = self.table
        latex = table.to_latex(escape=True, column_format="l" + "r" * len(table.columns))
        return latex.replace("±", r"$\pm$").replace("–", "--")

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draw accuracies over the stream, novel ones as lines, original ones dashed.

        A line is the mean over seeds, a band its 95 % t interval; a seed whose stream is over stays
        where it ended. Draws on new axes, if none are given, and returns them. Needs the extra
        ``report``.
        """
        with needs(REPORT):
            import matplotlib.pyplot as plt

        if axes is None:
            axes = plt.subplots()[1]
        for name, curve in self.curve.groupby("system", sort=False):
            colour = None  # the next one of the axes
            for axis, style in (("novel", "-"), ("original", "--")):
                seeds = curve.pivot(index="step", columns="seed", values=f"{axis}_acc")
                seeds = seeds.interpolate("index")
                mean = seeds.mean(axis=1)
                label = f"{name}, {axis}"
                (line,) = axes.plot(mean.index, mean, style, color=colour, label=label)
                colour = line.get_color()
                if len(seeds.columns) > 1:
                    half = half_interval(seeds.T)
                    band = (mean - half, mean + half)
                    axes.fill_between(mean.index, *band, color=colour, alpha=0.15, linewidth=0)
        axes.set(xlabel="stream items", ylabel="accuracy")
        axes.legend()
        return axes

    def compared(self) -> pd.DataFrame:
        """``ranking`` of these systems among all published ones of their cell.

        Only seeds that both have count; ``own`` marks these systems. Raises ``InputError`` if
        nothing is published for the cell or these seeds.
        """
        published = self._published()
        both = pd.concat([self.runs.assign(source=OWN), published])
        both = both[both["seed"].isin(self.runs["seed"]) & both["seed"].isin(published["seed"])]
        table = ranking(both)
        return table.assign(own=table["source"] == OWN)

    def _published(self):
        """Published runs on the same streams; ``InputError`` says why there are none."""
        runs = published_runs()
        mine = self.runs.iloc[0]
        for name in COMPARABLE:
            if mine[name] not in set(runs[name]):
                raise self._unpublished(f"{name} {mine[name]}")
            runs = runs[runs[name] == mine[name]]
        if load(mine["dataset"], mine["encoder"]).fingerprint != mine["fingerprint"]:
            raise self._unpublished("other rows or vectors than the dataset's")
        runs = runs[runs["seed"].isin(self.runs["seed"])]
        if runs.empty:
            raise self._unpublished("these seeds")
        return runs

    def _unpublished(self, reason):
        return InputError(
            f"nothing is published for {self.title} with {reason}: evaluate on a published "
            "dataset by its name, with the default encoder, held_out and every, and seeds 0 to 19"
        )

    def against(self, other: "Evaluation | str") -> pd.DataFrame:
        """``summary`` of the differences to another system on the same streams, seed by seed.

        ``other`` is an evaluation, or the name of a published system, whose published runs are
        taken. ``higher`` and ``lower`` count the seeds in which this system's metric is that. Of
        several systems, each is compared. Raises ``InputError`` if the name is unknown or no stream
        (dataset, policy, held-out classes, checkpoints, seed) is in both, if their data differ, or
        ``other`` has several systems. Two encoders can be compared on published datasets only: of
        others it is not known that the texts are the same.
        """
        if isinstance(other, str):
            names = published_runs()["system"].unique()
            pick("published system", other, dict.fromkeys(names))
            published = self._published()
            their_runs = published[published["system"] == other]
        elif isinstance(other, Evaluation):
            if len(other.names) > 1:
                raise InputError(
                    f"there are several systems to compare with: give one, as "
                    f"other[{other.names[0]!r}]"
                )
            self._refuse_other_data(other)
            their_runs = other.runs
        else:
            raise InputError(
                f"{type(other).__name__} is no evaluation: give one, or the name of a published "
                "system"
            )
        theirs = their_runs.set_index(STREAM)[METRICS]

        def gaps(runs):
            found = (runs.set_index(STREAM)[METRICS] - theirs).dropna(how="all")
            if found.empty:
                raise InputError(
                    f"{self!r} and {other!r} have no stream in common: evaluate them on the same"
                )
            table = intervals(found)
            found = found[table["metric"]]
            higher = (found > 0).sum().to_numpy()
            return table.assign(higher=higher, lower=(found < 0).sum().to_numpy())

        return self._of_each(gaps)

    def _refuse_other_data(self, other):
        mine = self.runs.iloc[0]
        theirs = other.runs.iloc[0]
        encoded_anew = mine["dataset"] in DATASETS and mine["encoder"] != theirs["encoder"]
        if mine["fingerprint"] != theirs["fingerprint"] and not encoded_anew:
            raise InputError(
                f"{self.title} and {other.title} are of different data: evaluate both on the same "
                "rows and vectors"
            )

    def to_csv(
        self,
        path: str | Path,
        source: str = OWN,
        date: str | None = None,
        keep: bool = False,
    ) -> None:
        """Write rows of the leaderboard, one per seed, whole or not at all.

        ``source`` names the author of the result, or links to it; ``date`` is YYYY-MM-DD, by
        default today. Rows that the file has are replaced; with ``keep``, those of other runs stay.
        `make leaderboard` lists the files in ``data/results/leaderboard/``; ``submit`` writes what
        can be ranked there. Raises ``InputError``
        if there is another kind of file.
        """
        check_name("source", source)
        date = date or time.strftime("%Y-%m-%d")
        rows = self.runs.assign(source=source, version=__version__, date=date)
        text = rows[COLUMNS].round(6).to_csv(index=False, lineterminator="\n")
        path = Path(path)
        check_folder(path.parent)
        with FileLock(path.with_name(f".{path.name}.lock")):  # other processes add rows, too
            there = _as_text(path) if path.exists() else None  # another kind of file is refused
            if keep and there is not None:
                both = pd.concat([there, _as_text(io.StringIO(text))])
                both = both.drop_duplicates(ROW, keep="last")
                text = both.to_csv(index=False, lineterminator="\n")
            write_text(path, text)

    def submit(self, folder: str | Path, source: str = OWN, date: str | None = None) -> str:
        """Write all that a contribution to the leaderboard needs, and tell what that is.

        These are the rows, as ``to_csv`` writes them, the transcript of all answers, and, of a
        class or function in a file, the file and the versions of the packages that it imports. Only
        a system with its file can be run again by others, and ranks. A folder in
        ``data/results/leaderboard/`` is a contribution; `ocrr verify` checks it.

        Raises ``InputError`` if there are several systems, or the folder cannot be written.
        """
        if len(self.names) > 1:
            raise InputError(
                f"there are several systems: submit one by one, as result[{self.names[0]!r}].submit"
            )
        folder = Path(folder)
        check_folder(folder)
        self.to_csv(folder / "rows.csv", source, date)
        tables = [unpacked(text).assign(seed=seed) for (_, seed), text in self.answers.items()]
        transcript = pd.concat(tables, ignore_index=True) if tables else None
        told = write_submission(folder, transcript, self.systems.get(self.name))
        mine = self.runs.iloc[0]
        if mine["dataset"] in DATASETS and mine["policy"] in POLICIES:
            return told
        return f"{folder}: reported, as {mine['dataset']} with {mine['policy']} is not published"

    @property
    def title(self) -> str:
        """System, dataset, policy and number of seeds."""
        first = self.runs.iloc[0]
        seeds = self.runs["seed"].nunique()
        return f"{self.name} on {first['dataset']}, {first['policy']}, {seeds} seeds"

    @property
    def sizes(self) -> str:
        """Numbers of held-out classes, and of test rows, which differ between seeds."""
        first = self.runs.iloc[0]
        novel, original = (_span(self.runs[f"{axis}_rows"]) for axis in ("novel", "original"))
        return (
            f"{first['held_out']} of {first['classes']} classes held out; "
            f"test rows: {novel} novel, {original} original"
        )

    def __repr__(self) -> str:
        if len(self.names) > 1:
            return "\n".join(repr(self[name]) for name in self.names)
        means = self.runs[METRICS].mean().drop([*FOLLOWING, "starts at"]).dropna()
        shown = ", ".join(f"{metric} {means[metric]:.3f}" for metric in means.index[:-1])
        shown += f", {means['corrections']:.0f} corrections"
        if "refits" in self.runs and self.runs["refits"].notna().all():
            shown += f", {self.runs['refits'].mean():.0f} refits"
        return f"<{self.title}: {shown}>"


def check_folder(folder: str | Path) -> None:
    """Raise ``InputError`` unless files can be written in a folder, or it can be made."""
    if not writable(Path(folder)):
        raise InputError(f"cannot write into {folder}: choose a folder that can be written")


def _as_text(file):
    """Rows of the leaderboard with all fields as they stand; ``InputError`` if there are none."""
    try:
        return pd.read_csv(file, dtype=str, keep_default_na=False)[COLUMNS]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{file} has no rows of the leaderboard that could be replaced or added to: "
            "move it, or choose another name"
        ) from error


def _span(numbers):
    """The one number of all seeds, or the least and the largest, as text."""
    least = numbers.min()
    most = numbers.max()
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
