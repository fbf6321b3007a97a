"""Numbers that prose quotes: expressions on published results and tables, one line a number.

    python -m paper.quotes README.md

brings a Markdown file up to date. The head of ``quotes.yml`` says how a line is written.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, partial
from numbers import Integral, Real
from pathlib import Path

import numpy as np
import pandas as pd
import simpleeval
import yaml
from scipy.stats import kendalltau

from ocrrlib import embeddings
from ocrrlib.experiments import SUBSTRATE
from ocrrlib.files import ROOT, InputError, pick, write_text
from ocrrlib.runs import read_results
from ocrrlib.systems import SYSTEMS
from paper import claims, products
from paper.streams import ALPHA
from paper.style import Value
from paper.tables import relative
from studies import mixed
from studies.differences import detection_rows
from studies.statistics import REFERENCE, measure, t_intervals

# What an expression can raise: by its own form, of a missing row, of numbers.
ERRORS = (SyntaxError, LookupError, TypeError, ValueError, ArithmeticError, NameError)
RUNS = "runs of "  # before the name of results: one row a run, as of ``measure``
# Modules of memories and class models in the registry
MODELS = ("neighbours", "discriminants", "even", "ledger_lda", "ridge")
CELL = ("dataset", "policy")  # columns that name a cell
BY_CELL = ".by_cell"  # after a key: the number, and its range over cells
KEY = r"{{([\w.]+)}}|<!--{([\w.]+)}-->"  # in Markdown


@dataclass(frozen=True)
class Cells:
    """Cells that a quote is taken over: a column of some rows of a table, which are kept whole."""

    table: str
    column: str
    rows: pd.DataFrame


@dataclass(frozen=True)
class Quote:
    """A number with its display, and all cells that it is taken over."""

    value: Value
    cells: list[Cells]

    @property
    def text(self) -> str:
        return self.value.text


def facts(frame: Callable[[str], pd.DataFrame]) -> pd.DataFrame:
    """Printed and released figures of the original in ``claims.yml``, by their dotted names."""
    quoted, listed = claims.read()
    tree = quoted | {claim["id"]: claim["printed"] for claim in listed}
    (row,) = pd.json_normalize(tree).to_dict("records")
    rows = [(fact, value) for fact, value in row.items() if isinstance(value, Real)]
    return pd.DataFrame(rows, columns=["fact", "value"])


def shared_products(frame: Callable[[str], pd.DataFrame]) -> pd.DataFrame:
    """Means of products over the streams that all of them have met."""
    return products.by_cell(products.shared(frame("products")))


def labels(frame: Callable[[str], pd.DataFrame]) -> pd.DataFrame:
    """Classes of CLINC150's rows by split."""
    data = embeddings.load("clinc150")
    rows = [("train", data.classes[y]) for y in data.y_train]
    rows += [("test", data.classes[y]) for y in data.y_test]
    return pd.DataFrame(rows, columns=["split", "label"])


def detection(frame: Callable[[str], pd.DataFrame]) -> pd.DataFrame:
    """How well queries out of scope are told from all others, before and after the stream."""
    return detection_rows(frame("streams")).query("within == 'all'")


def mixed_even(frame: Callable[[str], pd.DataFrame]) -> pd.DataFrame:
    """Systems with the even rule against those without it, where 90 % of the rows are known."""
    plain = {f"{name}{mixed.EVEN}": name for name in mixed.MIXED_SYSTEMS}
    return mixed.compared(mixed.measured(frame("mixed").query("share == 90")), plain)


def models(frame: Callable[[str], pd.DataFrame]) -> pd.DataFrame:
    """Rows of ``table_beyond`` of memories and class models that learn, but the reference."""
    rows = frame("table_beyond")
    modules = rows["system"].map(lambda system: SYSTEMS[system].module.partition(".")[2])
    return rows[modules.isin(MODELS) & ~rows["system"].isin(("static_knn", REFERENCE))]


def dominating(frame: Callable[[str], pd.DataFrame]) -> pd.DataFrame:
    """Rows of ``table_beyond`` of systems that dominate the substrate in their cell."""
    rows = frame("table_beyond")
    cell = rows[list(CELL)].agg(tuple, axis=1)
    theirs = rows[rows["system"] == SUBSTRATE].set_index(list(CELL))[["novel", "original"]]
    gaps = (rows[["novel", "original"]] - theirs.loc[cell].to_numpy()).round(12)
    return rows[(gaps >= 0).all(axis=1) & (gaps > 0).any(axis=1)]


# Frames that functions make of published ones, by name.
MADE = {"facts": facts, "shared products": shared_products}
MADE |= {"labels": labels, "detection": detection, "mixed even": mixed_even, "models": models}
MADE["dominating"] = dominating


class Quotes:
    """Quotes by key: lines of ``quotes.yml`` in a folder, on its ``tables`` and on results.

    Results lie in ``data/results`` beside the folder.
    """

    def __init__(self, folder: Path = ROOT / "paper"):
        self.folder = folder
        self.lines = yaml.safe_load((folder / "quotes.yml").read_text(encoding="utf-8"))
        self.names = self.lines.pop("names", {})
        self.used: set[str] = set()  # lines, by what stands before their colon
        self.frame = cache(self._frame)
        self.quote = cache(self._quote)

    def text(self, key: str) -> str:
        """A quote as text; InputError if there is none, or if its line selects nothing.

        With ``.by_cell`` behind its key, the range of the number over its cells follows.
        """
        quote = self.quote(key.removesuffix(BY_CELL))
        if not key.endswith(BY_CELL):
            return quote.text
        numbers = self.by_cell(key.removesuffix(BY_CELL))
        if not numbers:
            raise InputError(f"quote {key!r}: the number is not taken over several cells")
        low, high = (Value(end, quote.value.digits).text for end in (min(numbers), max(numbers)))
        return f"{quote.text} ({low} to {high} by cell)"

    def by_cell(self, key: str) -> list[float]:
        """The number in each dataset and policy that has it, if it is taken over several.

        Cells over which a table took the mean already are not seen.
        """
        line, bound = self._line(key)
        expression = self.lines[line].partition(" | ")[0]
        rows = [cells.rows for cells in self.quote(key).cells]
        names = [name for name in CELL if rows and all(name in own for own in rows)]
        if not names:
            return []
        places = pd.concat([own[names] for own in rows]).drop_duplicates()
        numbers = []
        for place in places.itertuples(index=False) if len(places) > 1 else ():
            here = _Expression(partial(self._in_cell, names, place), [], bound)
            try:
                numbers.append(_value(here.eval(expression), "").value)
            except (InputError, simpleeval.InvalidExpression, *ERRORS):
                continue  # a cell that lacks a row, or a number that compares cells
        return numbers if len(numbers) > 1 else []

    def _in_cell(self, names, place, table):
        rows = self.frame(table)
        return rows[np.all([rows[name] == word for name, word in zip(names, place)], axis=0)]

    def check_headlines(self, text: str) -> None:
        """Check the quotes of Markdown that readers take for the result.

        InputError if one is a mean whose sign differs between cells, unless its range is told.
        """
        for found in re.finditer(KEY, text):
            key = found[1] or found[2]
            if key.endswith(BY_CELL):
                continue
            numbers = self.by_cell(key)
            least = 0.5 * 10.0 ** -self.quote(key).value.digits
            if numbers and min(numbers) < -least and max(numbers) > least:
                ends = f"{min(numbers):.3g} to {max(numbers):.3g}"
                raise InputError(
                    f"quote {key!r} hides a change of sign, {ends} by cell: "
                    f"quote {key + BY_CELL!r}, or the cells where it holds"
                )

    def _quote(self, key):
        line, bound = self._line(key)
        self.used.add(line)
        expression, _, form = self.lines[line].partition(" | ")
        taken = []
        try:
            found = _Expression(self.frame, taken, bound).eval(expression)
            return Quote(_value(found, form), taken)
        except (InputError, simpleeval.InvalidExpression, *ERRORS) as error:
            raise InputError(f"quote {key!r}: {expression!r} fails: {error}") from error

    def _line(self, key):
        """The line of a key, and the words of its names in braces."""
        if key in self.lines:
            return key, {}
        for line in self.lines:
            pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^.]+)", re.escape(line))
            if match := re.fullmatch(pattern, key):
                bound = match.groupdict()
                return line, {name: self.names.get(word, word) for name, word in bound.items()}
        close = get_close_matches(key, self.lines, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise InputError(f"unknown quote {key!r}{hint}")

    def _frame(self, name):
        """A table of the paper, results, one row a run of results, or a frame of ``MADE``."""
        if name in MADE:
            return MADE[name](self.frame)
        if name.startswith(RUNS):
            return measure(self.frame(name.removeprefix(RUNS)))
        if name.startswith("table"):
            folder, end = self.folder / "tables", ".csv"
        else:
            folder, end = self.folder.parent / "data/results", ".parquet"
        paths = {path.stem: path for path in folder.glob(f"[!.]*{end}")}
        path = pick("table or result", name, paths)
        return pd.read_csv(path) if end == ".csv" else read_results(path)


class _Expression(simpleeval.EvalWithCompoundTypes):
    """An expression of one quote, with what it can call."""

    def __init__(self, frame, taken, names):
        functions = (self.cells, self.one, self.interval, mean, means, most, distinct, tau)
        functions += (abs, int, len, max, min, round, sum)
        super().__init__(names=names, functions={f.__name__: f for f in functions})
        self.frame = frame
        self.taken = taken

    def cells(self, table, column, where="", by="", **words) -> pd.Series:
        """A column of the rows that have these words in these columns, and where ``where`` holds.

        A word is a value or a list of some. The values are named by the columns ``by``, else by
        place. InputError if a column or a word is unknown, no row is left, or a cell is empty.
        """
        rows = self.frame(table)
        columns = dict.fromkeys(rows)
        for name in (column, *by.split(), *words):
            pick(f"column of {table}", name, columns)
        for name, word in words.items():
            known = dict.fromkeys(rows[name])
            wanted = word if isinstance(word, list) else [word]
            for one in wanted:
                pick(f"{name} in these rows of {table}", one, known)
            rows = rows[rows[name].isin(wanted)]
        if where:
            rows = rows.query(where)
        if rows.empty:
            raise InputError(f"no row of {table} has {words or ''} {where}")
        if rows[column].isna().any():
            raise InputError(f"{column} of {table} has empty cells where {words or ''} {where}")
        self.taken.append(Cells(table, column, rows))
        return rows.set_index(by.split())[column] if by else rows[column]

    def one(self, table, column, where="", **words):
        """The only cell of a selection; InputError if there are several."""
        found = self.cells(table, column, where, **words)
        if len(found) > 1:
            raise InputError(f"{len(found)} rows of {table} have {words or ''} {where}, not one")
        return found.iloc[0]

    def interval(self, table, **words):
        """The difference of a row with its interval; it stands if Holm's p is below ``ALPHA``."""
        middle, low, high, p = (
            self.one(table, column, **words) for column in ("difference", "low", "high", "p_holm")
        )
        return Value(middle, low=low, high=high, stands=bool(p < ALPHA))


def mean(cells: pd.Series) -> float:
    """The mean of all values."""
    return float(np.mean(cells.to_numpy(float)))


def means(cells: pd.Series, by: str) -> pd.Series:
    """The mean for each word of some of the columns that name the values."""
    return cells.groupby(level=by.split(), sort=False).mean()


def most(cells: pd.Series, by: str) -> pd.Series:
    """The largest for each word of some of the columns that name the values."""
    return cells.groupby(level=by.split(), sort=False).max()


def tau(cells: pd.Series, other: pd.Series) -> float:
    """Kendall's tau between two orders of the same names."""
    return kendalltau(cells, other.loc[cells.index]).statistic


def distinct(cells: pd.Series) -> int:
    """How many different values there are."""
    return cells.nunique()


def _value(found, form):
    """What an expression gives, in a form of digits and unit; by default three, of integers none.

    InputError if it is no finite number.
    """
    if not isinstance(found, Value):
        if not isinstance(found, Real):
            raise InputError(f"it gives no number but a {type(found).__name__}")
        if not np.isfinite(found):
            raise InputError(f"it gives {found}: quote a finite number")
        found = Value(float(found), digits=0 if isinstance(found, Integral) else 3)
    if form:
        digits, _, unit = form.partition(" ")
        found = replace(found, digits=int(digits), unit=unit)
    return found


def refresh(text: str, quotes: Quotes) -> str:
    """Markdown with its numbers brought up to date.

    They are quotes between ``<!--{key}-->`` and ``<!---->``, and those of each system's row. These
    are means over seeds on Banking77, every mistake corrected: novel and original accuracy, their
    harmonic mean and area, each with half of its 95 % t-interval; share of corrections that hold at
    the end, time of a correction and the prediction after it in the substrate's, MB.
    """
    cell = quotes.frame("beyond").query("dataset == 'banking77' and policy == 'oracle'")
    systems = measure(cell).groupby("system")
    costs = quotes.frame("costs").query("dataset == 'banking77'").set_index("system")
    times = relative(costs)

    def row(match):
        own = systems.get_group(match[2])
        bounds = t_intervals(own[["novel", "original", "hm", "ausuc"]].T)
        numbers = [
            f"{Value(middle).text} ± {Value(high - middle).text}"
            for middle, high in zip(bounds["mean"], bounds["high"])
        ]
        numbers.append(Value(own["holds"].mean()).text)
        numbers.append(Value(times[match[2]], 2).text)
        numbers.append(Value(own["storage_bytes"].mean() / 1e6, 1).text)
        return "|".join([match[1], *numbers, ""])

    text = re.sub(r"(<!--{(.+?)}-->).*?(<!---->)", lambda m: m[1] + quotes.text(m[2]) + m[3], text)
    return re.sub(r"(?m)^(\|`(\w+)`\|[^|]*)(\|[^|]*){7}\|$", row, text)


if __name__ == "__main__":
    document = Path(sys.argv[1])
    quotes = Quotes()
    text = document.read_text(encoding="utf-8")
    quotes.check_headlines(text)
    write_text(document, refresh(text, quotes))
