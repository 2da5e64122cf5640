"""Blocked exact search equals the naive one, for any block size, rounding and ties."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard.core.errors import UserError
from regard.ops import knn as knn_module
from regard.ops.knn import knn

SMALL_INTEGERS = st.integers(-2, 2).map(float)
NEARLY_EQUAL = st.integers(-3, 3).map(lambda n: 1.0 + n * 2.0**-23)
"Values whose products float32 cannot distinguish."


@st.composite
def tables(draw):
    width = draw(st.integers(1, 5))
    elements = draw(st.sampled_from([SMALL_INTEGERS, NEARLY_EQUAL, st.floats(-100, 100, width=32)]))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    queries = draw(arrays(dtype, (draw(st.integers(0, 5)), width), elements=elements))
    vectors = draw(arrays(dtype, (draw(st.integers(0, 12)), width), elements=elements))
    return queries, vectors


def naive_knn(queries, vectors, k):
    """Each product alone in float64, then sorted by score and id."""
    scores = np.array(
        [[(q.astype(np.float64) * v).sum() for v in vectors] for q in queries]
    ).reshape(len(queries), len(vectors))
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return ids, np.take_along_axis(scores, ids, axis=1)


@given(tables(), st.integers(1, 6), st.integers(1, 13))
def test_knn_equals_naive_search(queries_and_vectors, k: int, block: int) -> None:
    ids, scores = naive_knn(*queries_and_vectors, k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knn_module, "QUERY_BLOCK", 2)
        patch.setattr(knn_module, "PAIR_BLOCK", 3)
        neighbours = knn(*queries_and_vectors, k, block=block)
    np.testing.assert_array_equal(neighbours.ids, ids)
    np.testing.assert_array_equal(neighbours.scores, scores)


@pytest.mark.parametrize("block", [7, 64, 5000])
def test_wide_vectors_with_duplicates_and_near_duplicates(block: int) -> None:
    generator = np.random.default_rng(0)
    vectors = np.repeat(generator.standard_normal((200, 96)), 3, axis=0).astype(np.float32)
    vectors[::3] += (generator.standard_normal((200, 96)) * 1e-7).astype(np.float32)
    vectors = vectors[generator.permutation(600)]
    queries = generator.standard_normal((9, 96)).astype(np.float32)
    ids, scores = naive_knn(queries, vectors, 50)
    neighbours = knn(queries, vectors, 50, block=block)
    np.testing.assert_array_equal(neighbours.ids, ids)
    np.testing.assert_array_equal(neighbours.scores, scores)


def test_ties_are_broken_by_id() -> None:
    neighbours = knn(np.ones((2, 3)), np.ones((1000, 3)), 4, block=10)
    assert neighbours.ids.tolist() == [[0, 1, 2, 3]] * 2


def test_memory_map_is_read_block_by_block(tmp_path) -> None:
    shape = (100_000, 32)
    stored = np.lib.format.open_memmap(tmp_path / "v.npy", "w+", dtype=np.float16, shape=shape)
    stored[:] = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    stored.flush()
    vectors = np.load(tmp_path / "v.npy", mmap_mode="r")
    queries = np.asarray(vectors[[5, 99_999]], np.float32)
    tracemalloc.start()
    neighbours = knn(queries, vectors, 10, block=2_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert neighbours.ids[:, 0].tolist() == [5, 99_999]
    assert peak < vectors.nbytes / 4  # a float32 copy of all vectors would take 2 × nbytes


def test_float16_and_integer_vectors() -> None:
    vectors = np.array([[1, 2], [3, 4], [3, 4]])
    for dtype in (np.float16, np.int8):
        assert knn(np.array([[1, 0]]), vectors.astype(dtype), 2).ids.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("queries", "vectors", "k", "message"),
    [
        (np.ones((1, 2)), np.ones((1, 3)), 1, "do not match"),
        (np.ones(2), np.ones((1, 2)), 1, "do not match"),
        (np.ones((1, 2)), np.ones((1, 2)), 0, "k = 0"),
        (np.ones((1, 2)), np.array([[1, 1], [np.nan, 1]]), 1, "vector 1 and a query"),
        (np.full((1, 2), 1e30), np.full((1, 2), 1e30), 1, "vector 0 and a query"),
    ],
)
def test_invalid_inputs_are_refused(queries, vectors, k, message) -> None:
    with pytest.raises(UserError, match=message):
        knn(queries, vectors, k)
