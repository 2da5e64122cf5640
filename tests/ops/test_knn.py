"""Exact search in blocks equals the naive answer, whatever the block, the rounding and the ties."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard.core.errors import UserError
from regard.ops import knn as searching
from regard.ops.knn import knn

FEW = st.integers(-2, 2).map(float)
CLOSE = st.integers(-3, 3).map(lambda n: 1.0 + n * 2.0**-23)
"Numbers whose products float32 cannot tell apart."


@st.composite
def tables(draw):
    width = draw(st.integers(1, 5))
    numbers = draw(st.sampled_from([FEW, CLOSE, st.floats(-100, 100, width=32)]))
    kind = draw(st.sampled_from([np.float32, np.float64]))
    queries = draw(arrays(kind, (draw(st.integers(0, 5)), width), elements=numbers))
    vectors = draw(arrays(kind, (draw(st.integers(0, 12)), width), elements=numbers))
    return queries, vectors


def naive(queries, vectors, k):
    """Every product alone in float64, then sorted by score and number."""
    scores = np.array(
        [[(q.astype(np.float64) * v).sum() for v in vectors] for q in queries]
    ).reshape(len(queries), len(vectors))
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return ids, np.take_along_axis(scores, ids, axis=1)


@given(tables(), st.integers(1, 6), st.integers(1, 13))
def test_equals_the_naive_answer(both, k: int, block: int) -> None:
    ids, scores = naive(*both, k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "QUERIES_AT_ONCE", 2)
        patch.setattr(searching, "PAIRS_AT_ONCE", 3)
        found = knn(*both, k, block=block)
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_array_equal(found.scores, scores)


@pytest.mark.parametrize("block", [7, 64, 5000])
def test_wide_vectors_with_duplicates_and_nearly_equal_ones(block: int) -> None:
    generator = np.random.default_rng(0)
    vectors = np.repeat(generator.standard_normal((200, 96)), 3, axis=0).astype(np.float32)
    vectors[::3] += (generator.standard_normal((200, 96)) * 1e-7).astype(np.float32)
    vectors = vectors[generator.permutation(600)]
    queries = generator.standard_normal((9, 96)).astype(np.float32)
    ids, scores = naive(queries, vectors, 50)
    found = knn(queries, vectors, 50, block=block)
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_array_equal(found.scores, scores)


def test_all_the_same_gives_the_first() -> None:
    found = knn(np.ones((2, 3)), np.ones((1000, 3)), 4, block=10)
    assert found.ids.tolist() == [[0, 1, 2, 3]] * 2


def test_a_memory_map_is_read_a_block_at_a_time(tmp_path) -> None:
    shape = (100_000, 32)
    stored = np.lib.format.open_memmap(tmp_path / "v.npy", "w+", dtype=np.float16, shape=shape)
    stored[:] = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    stored.flush()
    vectors = np.load(tmp_path / "v.npy", mmap_mode="r")
    queries = np.asarray(vectors[[5, 99_999]], np.float32)
    tracemalloc.start()
    found = knn(queries, vectors, 10, block=2_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.ids[:, 0].tolist() == [5, 99_999]
    assert peak < vectors.nbytes / 4  # whole in float32 it would be twice its bytes


def test_float16_and_integers() -> None:
    vectors = np.array([[1, 2], [3, 4], [3, 4]])
    for kind in (np.float16, np.int8):
        assert knn(np.array([[1, 0]]), vectors.astype(kind), 2).ids.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("queries", "vectors", "k", "says"),
    [
        (np.ones((1, 2)), np.ones((1, 3)), 1, "cannot be held against"),
        (np.ones(2), np.ones((1, 2)), 1, "cannot be held against"),
        (np.ones((1, 2)), np.ones((1, 2)), 0, "k = 0"),
        (np.ones((1, 2)), np.array([[1, 1], [np.nan, 1]]), 1, "vector 1 and a query"),
        (np.full((1, 2), 1e30), np.full((1, 2), 1e30), 1, "vector 0 and a query"),
    ],
)
def test_what_cannot_be_searched(queries, vectors, k, says) -> None:
    with pytest.raises(UserError, match=says):
        knn(queries, vectors, k)
