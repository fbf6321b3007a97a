"""How large a file may be once it is unpacked: a small one can stand for more than memory holds."""

import zipfile
from pathlib import Path

from ocrrlib.files import InputError

CELLS = 20_000_000
ROWS = 5_000_000
UNPACKED = 2**29  # bytes; larger ones may have the TIMES of their own size
TIMES = 20
CHARACTERS = 2**31  # of all values of a column


def check_cells(n: int, n_rows: int) -> None:
    """Refuse a table of so many cells, or rows, blank ones included."""
    if n > CELLS or n_rows > ROWS:
        raise InputError(
            f"it has more than {CELLS:,} cells or {ROWS:,} rows, blank ones included: clear what "
            "is beside and below the rows, or give the columns in a file of their own"
        )


def check_unpacked(path: Path, n_bytes: int) -> None:
    """Refuse a file that has so many bytes once unpacked, far more than it seems to have."""
    if n_bytes > max(UNPACKED, TIMES * path.stat().st_size):
        raise InputError(
            f"it has {n_bytes / 1e9:.1f} GB once unpacked, over {TIMES} times its size: "
            "give the rows that are needed in a file of their own"
        )


def check_characters(n: int) -> None:
    """Refuse a column whose values have so many characters, of which a file can hold one copy."""
    if n > CHARACTERS:
        raise InputError(
            f"a column has more than {CHARACTERS / 1e9:.1f} billion characters: shorten its texts"
        )


def check_zip(path: Path) -> None:
    """Refuse a zip file, as .xlsx and .npz are, that is far larger once unpacked."""
    with zipfile.ZipFile(path) as file:
        check_unpacked(path, sum(one.file_size for one in file.infolist()))
