"""Search for neighbours on a PostgreSQL server, by pgvector."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from pgvector import Vector
from psycopg.sql import SQL, Composed, Identifier

ROWS_AT_ONCE = 1024  # vectors read at once
# Neighbours that do not count are passed over, as many as there are.
BY_INDEX = """
SELECT set_config('hnsw.ef_search', %s, true),
    set_config('hnsw.iterative_scan', 'relaxed_order', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true)
"""


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
            "SELECT place, x FROM {schema}.entries WHERE place = ANY(%s) AND x IS NOT NULL"
        )
        parts = []
        for start in range(0, len(places), ROWS_AT_ONCE):
            wanted = places[start : start + ROWS_AT_ONCE]
            found = dict(self._ask(select, [wanted.tolist()]))
            parts += [found[place].to_numpy() for place in wanted.tolist()]
        return np.array(parts)

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
        select = self._sql(
            "SELECT place, x FROM {schema}.entries "
            "WHERE place >= 0 AND place < %s AND x IS NOT NULL {others}"
            "ORDER BY {column} OPERATOR({vector}.<#>) {query} LIMIT %s",
            others=others,
            column=column,
            query=query,
        )
        left_out = [without.tolist()] if len(without) else []
        found = self._ask(select, [end, *left_out, Vector(q), n])
        if not found:
            return np.empty(0, np.int64), np.empty((0, len(q)), np.float32)
        return _places_and_vectors(found)

    def all_vectors(self, end: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """See ``Source``."""
        select = self._sql(
            "SELECT place, x FROM {schema}.entries "
            "WHERE place > %s AND place < %s AND x IS NOT NULL ORDER BY place LIMIT %s"
        )
        before = -1
        while True:
            found = self._ask(select, [before, end, ROWS_AT_ONCE])
            if not found:
                return
            before = found[-1][0]
            yield _places_and_vectors(found)


def _places_and_vectors(found):
    """Places (n,) and vectors (n, d) of rows of both."""
    return np.array([place for place, _ in found]), np.array([x.to_numpy() for _, x in found])
