"""Transcripts: what a system answered, in the order in which the stream asked it.

A transcript has one row per answer: ``row`` is the number of the row asked about, among the
scenario's ``queries`` (stream, novel, original), ``asked`` how many answers came before, ``answer``
the class id given. At the last checkpoint, test rows of a system with probabilities have its curve,
too: the best ``known`` and the best ``new`` class, and the place of the new one's ``lead`` in the
order of all leads.

From it follow, by the stream loop itself, corrections, coins and every metric of the leaderboard.
It cannot show that answers came before labels: who writes down the right ones has a transcript of a
perfect system. For this, the system itself must run (``ocrr.board.rerun``).
"""

import base64
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ocrrlib.files import InputError
from ocrrlib.metrics import best_known_and_new
from ocrrlib.stream import Unwatched
from ocrrlib.systems.base import Storage

CURVE = ["known", "new", "lead"]
COLUMNS = ["row", "asked", "answer", *CURVE]
STEADY = ["row", "asked"]  # grow in steps that are much alike


class Recorder:
    """A system that notes every answer it gives, and changes none."""

    def __init__(self, system: Any):
        self.system = system
        self.fit = system.fit
        self.correct = system.correct
        self.storage = system.storage
        self.asked: list[np.ndarray] = []
        self.given: list[np.ndarray] = []
        self.curve: tuple[int, Any] | None = None  # of the last checkpoint, and where

    def watch(self, Q: np.ndarray) -> "Recorder":
        """Watch fixed queries (q, d) as the system does."""
        watch = getattr(self.system, "watch", lambda Q: Unwatched(self.system, Q))
        self.queries = watch(Q)
        self.predict_proba = getattr(self.queries, "predict_proba", None)  # no policy here asks
        self.log_probabilities = self.queries.log_probabilities
        return self

    def answers(self, rows: np.ndarray) -> np.ndarray:
        """The system's answers to the queries ``rows`` (m,), noted."""
        given = self.queries.answers(rows)
        self.asked.append(np.array(rows, np.int32))
        self.given.append(np.array(given, np.int32))
        return given

    def whole_log_probabilities(self, rows: np.ndarray) -> Any:
        """The system's, of the test rows, which were answered just before."""
        whole = self.queries.whole_log_probabilities(rows)
        self.curve = (len(self.asked) - 1, whole)
        return whole

    def packed(self, held_out: np.ndarray) -> str:
        """The transcript as text that ``unpacked`` reads; ``held_out`` are the new class ids."""
        asked = np.concatenate(self.asked)
        given = np.concatenate(self.given)
        order = np.arange(len(asked), dtype=np.int32)
        table = pd.DataFrame({"row": asked, "asked": order, "answer": given})
        table = table.reindex(columns=COLUMNS).astype(dict.fromkeys(CURVE, "Int32"))
        if self.curve is not None:
            block, log_p = self.curve
            start = sum(map(len, self.asked[:block]))
            new = np.isin(np.arange(log_p.shape[1]), held_out)
            known, best, lead = best_known_and_new(log_p, new)
            places = np.unique(lead, return_inverse=True)[1]
            values = np.column_stack([known, best, places])
            table.loc[start : start + len(log_p) - 1, CURVE] = values
        sink = pa.BufferOutputStream()
        write(table, sink)
        return base64.b64encode(sink.getvalue().to_pybytes()).decode()


def unpacked(text: str) -> pd.DataFrame:
    """The transcript of one run, from the text of ``Recorder.packed``."""
    return pq.read_table(pa.BufferReader(base64.b64decode(text))).to_pandas()


def write(table: pd.DataFrame, where: Any) -> None:
    """Write transcripts as Parquet to a path or file, compressed to some 50 kB a run."""
    runs = [name for name in ("seed",) if name in table]
    table = table.sort_values([*runs, *STEADY])  # a row is mostly answered as before
    arrow = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
    others = [name for name in table if name not in STEADY]
    encoding = dict.fromkeys(STEADY, "DELTA_BINARY_PACKED")
    options: dict = dict(compression="zstd", compression_level=9, column_encoding=encoding)
    pq.write_table(arrow, where, use_dictionary=others, **options)


class Replayed:
    """A system that answers from the transcript of a run, and from nothing else.

    Raises ``InputError`` if the stream asks for another row than the transcript has next, as where
    a mistake or a correction was left out or made up.
    """

    def __init__(self, table: pd.DataFrame):
        table = table.sort_values("asked")
        self.rows = table["row"].to_numpy(np.int64)
        self.given = table["answer"].to_numpy(np.int64)
        self.curve = table[CURVE].astype("Int64")
        self.place = 0  # answers given so far

    def fit(self, X: np.ndarray, y: np.ndarray, classes: tuple[str, ...]) -> None:
        """Take note of the classes; what was learnt is in the answers."""
        self.n_classes = len(classes)

    def correct(self, x: np.ndarray, y: int) -> None:
        """Learn nothing."""

    def storage(self) -> Storage:
        """Nothing is known of it."""
        return Storage(bytes=0)

    def watch(self, Q: np.ndarray) -> "Replayed":
        """The system itself answers queries by number."""
        return self

    def answers(self, rows: np.ndarray) -> np.ndarray:
        """The next answers of the transcript, to the queries ``rows`` (m,)."""
        end = self.place + len(rows)
        if not np.array_equal(self.rows[self.place : end], rows):
            raise InputError(
                f"the stream asks for row {rows[0]} next, and the transcript has no answer to it "
                "there: a mistake or a correction was left out or made up"
            )
        given = self.given[self.place : end]
        if ((given < -1) | (given >= self.n_classes)).any():
            raise InputError(f"there is an answer that is no class id below {self.n_classes}")
        self.place = end
        return given

    def log_probabilities(self, rows: np.ndarray) -> np.ndarray | None:
        """Log-probabilities (m, C) with the noted curve; None where there is none."""
        noted = self.curve.iloc[self.place - len(rows) : self.place]
        if noted.isna().any(axis=None):
            return None
        known, new, lead = noted.to_numpy(np.int64).T
        log_p = np.full((len(rows), self.n_classes), -np.inf)
        for labels, value in ((known, np.zeros(len(rows))), (new, lead)):
            there = np.flatnonzero((labels >= 0) & (labels < self.n_classes))
            log_p[there, labels[there]] = value[there]
        return log_p

    whole_log_probabilities = log_probabilities

    def check_ended(self) -> None:
        """Raise ``InputError`` if there are answers that nobody asked for."""
        if self.place != len(self.rows):
            raise InputError(
                f"there are {len(self.rows) - self.place} answers after the end of the stream"
            )
