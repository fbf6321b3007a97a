"""Vectors in PostgreSQL, as values of pgvector: how they are kept, searched, and indexed.

A ``vector`` holds float32 numbers, so the bytes that were hashed come back as they were. The index
holds them as float16.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.sql import SQL, Composed, Identifier

from ocrrlib.memory.rows import VALUE, Row

HEADER = 4  # bytes before the numbers of a vector: its length, and nothing
BLOCK = 1024  # vectors read at once
# Neighbours that do not count are passed over, as many as there are.
BY_INDEX = """
SELECT set_config('hnsw.ef_search', %s, true),
    set_config('hnsw.iterative_scan', 'relaxed_order', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true)
"""


class Packed(bytes):
    """A vector, as PostgreSQL sends and receives it."""


class _PackedDumper(Dumper):
    format = Format.BINARY
    oid = 0  # the server knows which type is meant

    def dump(self, obj):
        return obj


psycopg.adapters.register_dumper(Packed, _PackedDumper)


def packed(x: bytes) -> Packed:
    """Pack the bytes of a vector, float32 little-endian."""
    length = len(x) // VALUE
    return Packed(
        length.to_bytes(2, "big") + bytes(2) + np.frombuffer(x, "<f4").astype(">f4").tobytes()
    )


def unpacked(x: bytes) -> bytes:
    """Return the bytes of a vector, float32 little-endian."""
    return np.frombuffer(x, ">f4", offset=HEADER).astype("<f4").tobytes()


def _table(vectors):
    """Rows (n, d) float32 of packed vectors of one length."""
    size = len(vectors[0])
    raw = np.frombuffer(b"".join(vectors), np.uint8).reshape(-1, size)
    return raw[:, HEADER:].copy().view(">f4").astype(np.float32)


def row_to_send(row: Row) -> Row:
    """An entry as its table holds it: no vector is NULL there, as an erased one is."""
    return row._replace(x=packed(row.x) if row.x else None)


def row_received(values: Iterable) -> Row:
    """An entry from the values in its table."""
    row = Row(*values)
    if row.x is not None:
        return row._replace(x=unpacked(row.x))
    return row if row.salt is None else row._replace(x=b"")


class PostgresVectors:
    """Vectors of a memory's entries, a ``Source``.

    ``ask`` returns the server's reply to a query and its values, in the transaction that is on.
    ``schema`` is that of the memory, ``extension`` that of pgvector.
    """

    def __init__(self, ask: Callable[[Any, Iterable], list[tuple]], schema: str, extension: str):
        self._ask = ask
        self._names = {"schema": Identifier(schema), "vector": Identifier(extension)}

    def _sql(self, text: str, **names: Any) -> Composed:
        return SQL(text).format(**self._names, **names)  # type: ignore[arg-type]

    def vectors(self, places: np.ndarray) -> np.ndarray:
        """See ``Source``."""
        select = self._sql(
            "SELECT place, {vector}.vector_send(x) FROM {schema}.entries "
            "WHERE place = ANY(%s) AND x IS NOT NULL"
        )
        parts = []
        for start in range(0, len(places), BLOCK):
            wanted = places[start : start + BLOCK]
            found = dict(self._ask(select, [wanted.tolist()]))
            parts.append(_table([found[place] for place in wanted.tolist()]))
        return np.concatenate(parts)

    def nearest(
        self, q: np.ndarray, n: int, end: int, without: np.ndarray, ef_search: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """See ``Source``."""
        column = self._sql("x")
        query = self._sql("%s::{vector}.vector")
        if ef_search is not None:
            half = self._sql("{vector}.halfvec({dim})", dim=SQL(str(len(q))))
            column = self._sql("(x::{half})", half=half)
            query = self._sql("{query}::{half}", query=query, half=half)
            self._ask(BY_INDEX, [str(ef_search)])
        others = self._sql("AND place <> ALL(%s) ") if len(without) else SQL("")
        # Only what is found is made ready to be sent.
        select = self._sql(
            "SELECT place, {vector}.vector_send(x) FROM (SELECT place, x FROM {schema}.entries "
            "WHERE place >= 0 AND place < %s AND x IS NOT NULL {others}"
            "ORDER BY {column} OPERATOR({vector}.<#>) {query} LIMIT %s) nearest",
            others=others,
            column=column,
            query=query,
        )
        values = [
            end,
            *([without.tolist()] if len(without) else []),
            packed(q.astype("<f4").tobytes()),
        ]
        found = self._ask(select, [*values, n])
        if not found:
            return np.empty(0, np.int64), np.empty((0, len(q)), np.float32)
        return np.array([place for place, _ in found]), _table([x for _, x in found])

    def all_vectors(self, end: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """See ``Source``."""
        select = self._sql(
            "SELECT place, {vector}.vector_send(x) FROM {schema}.entries "
            "WHERE place > %s AND place < %s AND x IS NOT NULL ORDER BY place LIMIT %s"
        )
        before = -1
        while True:
            found = self._ask(select, [before, end, BLOCK])
            if not found:
                return
            before = found[-1][0]
            yield np.array([place for place, _ in found]), _table([x for _, x in found])
