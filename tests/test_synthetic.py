"""Data of any size: the same rows whatever the chunks, classes in equal shares, exact on its grid."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocrrlib.errors import InputError
from ocrrlib.synthetic import BLOCK, STEP, Synthetic, to_grid

DATA = Synthetic(n=2 * BLOCK + 900, classes=37, noise=0.1, dim=6)  # two whole blocks and a part of one
SHORT = Synthetic(n=50, classes=7, noise=0.1, dim=3)


def unit_rows(n, d, seed):
    return to_grid(np.random.default_rng(seed).normal(size=(n, d)))


def centres(data):
    return replace(data, n=data.classes, noise=0.0).rows(0, data.classes)


# --- the same whatever the chunks


@pytest.fixture(scope="module")
def whole():
    """All of ``DATA`` and ``SHORT`` at once."""
    return {data: data.rows(0, data.n) for data in (DATA, SHORT)}


near_a_block = st.sampled_from([block * BLOCK + by for block in (0, 1, 2) for by in (-1, 0, 1) if block or by >= 0])
places = st.one_of(near_a_block, st.integers(0, DATA.n), st.just(DATA.n))


@given(ends=st.tuples(places, places))
def test_rows_are_the_same_whatever_is_asked_for_with_them(whole, ends):
    start, stop = sorted(ends)
    rows = DATA.rows(start, stop)
    assert rows.dtype == np.float32 and rows.shape == (stop - start, DATA.dim)
    np.testing.assert_array_equal(rows, whole[DATA][start:stop])


@pytest.mark.parametrize(
    "start, stop",
    [
        (0, 0),
        (0, 1),
        (BLOCK - 1, BLOCK),
        (BLOCK, BLOCK),
        (BLOCK - 1, BLOCK + 1),
        (BLOCK, 2 * BLOCK),
        (BLOCK - 3, 2 * BLOCK + 3),
        (2 * BLOCK, DATA.n),
        (DATA.n - 1, DATA.n),
        (DATA.n, DATA.n),
    ],
)
def test_rows_are_the_same_at_the_edges_of_blocks(whole, start, stop):
    np.testing.assert_array_equal(DATA.rows(start, stop), whole[DATA][start:stop])


@given(size=st.integers(300, 3 * BLOCK), start=places)
@settings(max_examples=30)
def test_chunks_put_together_are_all_rows_whatever_their_size(whole, size, start):
    chunks = list(DATA.chunks(size, start))
    assert all(len(chunk) == size for chunk in chunks[:-1]) and all(0 < len(chunk) <= size for chunk in chunks)
    np.testing.assert_array_equal(np.concatenate([whole[DATA][:start], *chunks]), whole[DATA])


@given(size=st.integers(1, 60), start=st.integers(0, 50))
@settings(max_examples=30)
def test_small_chunks_put_together_are_all_rows(whole, size, start):
    chunks = list(SHORT.chunks(size, start))
    assert sum(map(len, chunks)) == SHORT.n - start
    np.testing.assert_array_equal(np.concatenate([whole[SHORT][:start], *chunks]), whole[SHORT])


def test_entries_are_rows_of_their_class_to_the_last():
    data = Synthetic(n=BLOCK + 300, classes=40, noise=0.02, dim=64)
    y = data.labels(0, data.n)
    np.testing.assert_array_equal((data.rows(0, data.n) @ centres(data).T).argmax(axis=1), y)
    assert y[-1] == data.classes - 1


def peak(data, size):
    """Bytes held at most while all rows pass by, and rows that did."""
    tracemalloc.start()
    try:
        seen = sum(len(chunk) for chunk in data.chunks(size))
        return tracemalloc.get_traced_memory()[1], seen
    finally:
        tracemalloc.stop()


def test_chunks_never_hold_all_rows():
    data = Synthetic(n=50_000, classes=20, noise=0.1, dim=32)
    held, seen = peak(data, 1000)
    assert seen == data.n
    assert held < data.n * data.dim * 4 / 2
    assert peak(replace(data, n=20_000), 1000)[0] == pytest.approx(held, rel=0.1)  # it depends on the block, not on n


# --- one seed, one dataset


def test_the_same_seed_gives_the_same_bytes():
    again = replace(DATA)
    assert again.rows(0, 500).tobytes() == DATA.rows(0, 500).tobytes()
    (first, first_y), (second, second_y) = again.queries(50), DATA.queries(50)
    assert first.tobytes() == second.tobytes() and first_y.tobytes() == second_y.tobytes()


def test_another_seed_shares_no_row():
    other = replace(DATA, seed=1)
    for first, second in ((DATA.rows(0, 900), other.rows(0, 900)), (DATA.queries(900)[0], other.queries(900)[0])):
        assert not {row.tobytes() for row in first} & {row.tobytes() for row in second}


@pytest.mark.parametrize("change", [dict(noise=0.11), dict(classes=36)], ids=lambda change: next(iter(change)))
def test_other_noise_or_another_number_of_classes_gives_other_rows(whole, change):
    other = replace(DATA, **change)
    assert other.rows(0, DATA.n).tobytes() != whole[DATA].tobytes()
    assert other.queries(400)[0].tobytes() != DATA.queries(400)[0].tobytes()


def test_no_two_blocks_seeds_or_kinds_share_draws():
    """With nothing but noise in them, all rows are far from each other: 384 independent coordinates each."""
    drawn = []
    for seed in range(3):
        data = Synthetic(n=3 * BLOCK, classes=1, noise=1000.0, seed=seed)
        drawn += [data.rows(block * BLOCK, block * BLOCK + 8) for block in range(3)]
        queries = data.queries(BLOCK + 8)[0]
        drawn += [queries[:8], queries[-8:], centres(data)]
    rows = np.concatenate(drawn).astype(np.float64)
    cosines = rows @ rows.T - np.eye(len(rows))
    assert np.abs(cosines).max() < 0.3  # six times the deviation of independent rows


# --- labels


@given(n=st.integers(1, 3000), seed=st.integers(0, 99))
def test_classes_stand_one_after_the_other_in_equal_shares(n, seed):
    classes = int(np.random.default_rng([n, seed]).integers(1, n + 1))
    labels = Synthetic(n, classes, 0.1).labels(0, n)
    assert labels[0] == 0 and set(np.diff(labels)) <= {0, 1}
    sizes = np.bincount(labels, minlength=classes)
    assert len(sizes) == classes and sizes.max() - sizes.min() <= 1


@given(n=st.integers(1, 300), ends=st.tuples(st.integers(0, 300), st.integers(0, 300)))
def test_labels_are_the_same_whatever_is_asked_for_with_them(n, ends):
    start, stop = sorted(min(end, n) for end in ends)
    data = Synthetic(n, (n + 2) // 3, 0.1)
    np.testing.assert_array_equal(data.labels(start, stop), data.labels(0, n)[start:stop])


def test_ten_million_entries_have_their_labels():
    data = Synthetic(10_000_000, 100_000, 0.1)
    np.testing.assert_array_equal(data.labels(data.n - 150, data.n), [99_998] * 50 + [99_999] * 100)


# --- queries


@given(classes=st.integers(1, 80), m=st.integers(1, 200))
@settings(max_examples=40)
def test_queries_are_evenly_spread_over_the_classes(classes, m):
    Q, labels = Synthetic(100, classes, 0.1, dim=2).queries(m)
    assert Q.shape == (m, 2) and Q.dtype == np.float32
    assert labels.min() >= 0 and labels.max() < classes and (np.diff(labels) >= 0).all()
    counts = np.bincount(labels, minlength=classes)
    assert counts.max() - counts.min() <= 1  # all classes alike, or none twice
    if 2 <= m < classes:
        gaps = np.diff(labels)
        assert labels[0] == 0 and labels[-1] == classes - 1 and gaps.max() - gaps.min() <= 1


def test_queries_are_rows_of_their_class():
    data = Synthetic(n=500, classes=40, noise=0.02, dim=64)
    for m in (11, 40, 130):
        Q, labels = data.queries(m)
        np.testing.assert_array_equal((Q @ centres(data).T).argmax(axis=1), labels)


def test_queries_are_new_rows_also_beyond_a_block():
    Q, _ = replace(DATA, dim=16).queries(BLOCK + 500)
    entries = replace(DATA, dim=16).rows(0, DATA.n)
    assert len({row.tobytes() for row in (*Q, *entries)}) == len(Q) + len(entries)


def test_queries_do_not_depend_on_the_number_of_entries():
    """So that indexes of different sizes are asked the same."""
    for m in (20, 100):
        few, many = DATA.queries(m), replace(DATA, n=10 * DATA.n).queries(m)
        np.testing.assert_array_equal(few[0], many[0])
        np.testing.assert_array_equal(few[1], many[1])


# --- the grid


@given(n=st.integers(1, 6), d=st.integers(2, 400), seed=st.integers(0, 999), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_rows_on_the_grid_are_multiples_of_its_step(n, d, seed, scale):
    X = to_grid(scale * np.random.default_rng(seed).normal(size=(n, d)))
    assert X.dtype == np.float32 and X.shape == (n, d)
    whole = X.astype(np.float64) / STEP
    np.testing.assert_array_equal(whole, np.round(whole))
    assert STEP == 2.0**-11


def test_rows_on_the_grid_are_of_length_one():
    for data in (Synthetic(2000, 50, 0.06), Synthetic(2000, 50, 0.0), Synthetic(2000, 50, 50.0)):
        lengths = np.linalg.norm(data.rows(0, 2000).astype(np.float64), axis=1)
        assert np.abs(lengths - 1).max() < 0.002


def test_the_grid_leaves_what_it_is_given_alone():
    X = np.random.default_rng(0).normal(size=(5, 7))
    kept = X.copy()
    moved = to_grid(X)
    np.testing.assert_array_equal(X, kept)
    np.testing.assert_allclose(moved, X / np.linalg.norm(X, axis=1, keepdims=True), atol=STEP / 2 + 1e-7)


def one_after_the_other(products, order):
    return np.add.accumulate(products[order], dtype=np.float32)[-1]


@given(d=st.integers(1, 384), seed=st.integers(0, 9999), same=st.booleans())
def test_float32_cosines_on_the_grid_are_exact_in_any_order_of_summation(d, seed, same):
    rng = np.random.default_rng(seed)
    q, x = unit_rows(2, d, seed)
    x = q if same else x
    products = q * x
    assert products.dtype == np.float32
    true = float(q.astype(np.float64) @ x.astype(np.float64))
    by_size = np.argsort(products, kind="stable")  # the longest ways from zero and back
    for order in (np.arange(d), by_size, by_size[::-1], *(rng.permutation(d) for _ in range(3))):
        assert float(one_after_the_other(products, order)) == true
        assert float(products[order].sum()) == true  # pairwise
        assert float(q[order] @ x[order]) == true  # as the linear algebra library does


def test_float32_cosines_of_all_rows_are_those_of_float64():
    data = Synthetic(400, 20, 0.06)
    X, Q = data.rows(0, 400), data.queries(60)[0]
    order = np.random.default_rng(0).permutation(data.dim)
    true = Q.astype(np.float64) @ X.astype(np.float64).T
    np.testing.assert_array_equal(Q @ X.T, true)
    np.testing.assert_array_equal(Q[:, order] @ X[:, order].T, true)
    np.testing.assert_array_equal(np.stack([Q[:, :200] @ X[:, :200].T, Q[:, 200:] @ X[:, 200:].T]).sum(axis=0), true)


# --- noise


def test_without_noise_every_entry_is_its_classs_centre():
    data = Synthetic(n=200, classes=9, noise=0.0, dim=20)
    rows, y = data.rows(0, 200), data.labels(0, 200)
    np.testing.assert_array_equal(rows, centres(data)[y])
    np.testing.assert_array_equal(rows, to_grid(data._centres)[y])
    Q, query_y = data.queries(30)
    np.testing.assert_array_equal(Q, centres(data)[query_y])
    assert len(np.unique(rows, axis=0)) == 9


@pytest.mark.parametrize("noise", [0.02, 0.06, 0.1])
def test_noise_has_the_standard_deviation_that_is_stated(noise):
    """Scaled back to where its centre is, a row differs from the centre by its noise, but for one direction."""
    data = Synthetic(n=600, classes=12, noise=noise)
    for rows, y in ((data.rows(0, 600), data.labels(0, 600)), data.queries(600)):
        centre, rows = data._centres[y].astype(np.float64), rows.astype(np.float64)
        apart = rows / (rows * centre).sum(axis=1, keepdims=True) - centre
        assert np.sqrt((apart**2).sum(axis=1).mean() / (data.dim - 1)) == pytest.approx(noise, rel=0.03)
        assert np.abs(apart.mean(axis=0)).max() < 6 * noise / np.sqrt(600)


# --- what cannot be used


@pytest.mark.parametrize("classes, n", [(0, 10), (-1, 10), (11, 10), (1, 0), (0, 0)])
def test_an_impossible_number_of_classes_is_refused_in_one_line(classes, n):
    with pytest.raises(InputError, match=f"^{classes} classes are out of range: .* {n}$") as caught:
        Synthetic(n, classes, 0.1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("noise", [-0.1, float("nan"), float("inf"), float("-inf")])
def test_impossible_noise_is_refused_in_one_line(noise):
    with pytest.raises(InputError, match=f"^noise {noise} is out of range: ") as caught:
        Synthetic(10, 2, noise)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("classes", [1, 10])
def test_one_class_and_a_class_for_every_entry_can_be_had(classes):
    data = Synthetic(10, classes, 0.1, dim=4)
    assert len(data.rows(0, 10)) == 10 and set(data.labels(0, 10)) == set(range(classes))


def test_no_queries_are_none():
    Q, labels = DATA.queries(0)
    assert Q.shape == (0, DATA.dim) and Q.dtype == np.float32 and labels.shape == (0,)


@pytest.mark.parametrize("size", [1, 7, 5000])
def test_classes_that_come_in_turn_are_the_same_rows_whatever_the_chunks(size):
    data = Synthetic(5000, 6, 0.1, dim=8, in_turn=True)
    np.testing.assert_array_equal(data.labels(0, 9), [0, 1, 2, 3, 4, 5, 0, 1, 2])
    chunks = [data.rows(start, min(start + size, 100)) for start in range(0, 100, size)]
    np.testing.assert_array_equal(
        np.concatenate(chunks), data.rows(0, 5000)[:100] if size == 5000 else data.rows(0, 100)
    )
    centres = Synthetic(6, 6, 0, dim=8).rows(0, 6)
    nearest = (data.rows(0, 5000) @ centres.T).argmax(axis=1)
    assert np.mean(nearest == data.labels(0, 5000)) > 0.9
