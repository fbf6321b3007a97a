"""Rows of the leaderboard as a contribution has them, in a CSV file."""

from pathlib import Path

import numpy as np
import pandas as pd

from ocrr.evaluation import CELL, COLUMNS, MEASURED, OPTIONAL, PUBLISHED
from ocrrlib.files import InputError, check_name

WHOLE = ["held_out", "every", "seed"]
NUMBERS = [*WHOLE, *MEASURED]
TEXT_COLUMNS = [name for name in COLUMNS if name not in NUMBERS]


def contributed(path: Path) -> pd.DataFrame:
    """Rows of a contributed system, as ``Evaluation.to_csv`` writes them.

    Raises ``InputError`` if they are not such.
    """
    try:
        rows = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""])
        absent = [name for name in OPTIONAL if name not in rows]  # in files of earlier versions
        rows = rows.assign(**dict.fromkeys(absent, np.nan))[COLUMNS]
        rows = rows.astype(dict.fromkeys(NUMBERS, float))
        for value in pd.unique(rows[TEXT_COLUMNS].to_numpy().ravel()):
            check_name("name", value)
        _check_numbers(rows)
        rows = rows.astype(dict.fromkeys(WHOLE, int))
        ours = rows["source"].str.normalize("NFKC").str.casefold() == PUBLISHED
        if rows.duplicated([*CELL, "system", "seed"]).any() or ours.any():
            raise ValueError(f"a seed is there twice, or the source is {PUBLISHED!r}")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: {error}: write it with Evaluation.to_csv") from error
    return rows


def _check_numbers(rows):
    numbers = rows[NUMBERS].fillna(dict.fromkeys(OPTIONAL, 0))
    negative = not numbers.ge(0).all(axis=None)
    above_one = rows[MEASURED[:-1]].gt(1).any(axis=None)
    if rows.empty or negative or above_one:
        raise ValueError("there are no rows, negative numbers or accuracies above 1")
    if not (rows[WHOLE] % 1).eq(0).all(axis=None) or np.isinf(rows["corrections"]).any():
        raise ValueError(f"{', '.join(WHOLE)} are not whole, or corrections infinite")
