import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.chunks import DocumentChunks, PackedBlocks

START, STOP = 2, 3


class FakeSplit:
    """Documents in memory with the interface of a cached split."""

    def __init__(self, documents: list[list[int]]) -> None:
        self.lengths = np.array([len(document) for document in documents], dtype=np.int64)
        self.offsets = np.concatenate(([0], np.cumsum(self.lengths)))
        self._tokens = np.array([i for document in documents for i in document], dtype=np.uint16)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> np.ndarray:
        return self._tokens[self.offsets[index] : self.offsets[index + 1]]


documents = st.lists(st.lists(st.integers(7, 60_000), max_size=15), min_size=1, max_size=8)


def test_document_chunks() -> None:
    rows = DocumentChunks(
        FakeSplit([[10, 11, 12, 13, 14], [20]]), context=3, start=START, stop=STOP
    )
    assert [row.ids.tolist() for row in rows] == [
        [START, 10, 11, 12],
        [12, 13, 14, STOP],
        [START, 20, STOP],
    ]
    assert rows.lengths.tolist() == [4, 4, 3]
    assert [rows.document_of(i) for i in range(3)] == [0, 0, 1]
    assert rows[-1].ids.tolist() == [START, 20, STOP]


def test_packed_blocks() -> None:
    rows = PackedBlocks(FakeSplit([[10, 11], [20], [30, 31]]), context=4, start=START, stop=STOP)
    assert [row.ids.tolist() for row in rows] == [
        [START, 10, 11, STOP, START],
        [START, 20, STOP, START, 30],
    ]
    assert [row.segments.tolist() for row in rows] == [[0, 0, 0, 0, 1], [0, 0, 0, 1, 1]]


@given(documents, st.integers(1, 9))
def test_every_token_after_start_is_a_target_once(texts: list[list[int]], context: int) -> None:
    rows = DocumentChunks(FakeSplit(texts), context=context, start=START, stop=STOP)
    targets: list[list[int]] = [[] for _ in texts]
    for number, row in enumerate(rows):
        assert row.segments is None
        assert row.ids.dtype == np.int64
        assert 2 <= len(row.ids) == rows.lengths[number] <= context + 1
        targets[rows.document_of(number)] += row.ids[1:].tolist()
    assert targets == [[*text, STOP] for text in texts]


@given(documents, st.integers(1, 9))
def test_chunks_continue_where_the_previous_one_ended(texts: list[list[int]], context: int) -> None:
    rows = DocumentChunks(FakeSplit(texts), context=context, start=START, stop=STOP)
    for number in range(len(rows)):
        follows = number and rows.document_of(number) == rows.document_of(number - 1)
        before = rows[number - 1].ids[-1] if follows else START
        assert rows[number].ids[0] == before


@given(documents, st.integers(1, 9))
def test_packed_blocks_are_the_concatenated_documents(texts: list[list[int]], context: int) -> None:
    stream = [i for text in texts for i in (START, *text, STOP)]
    owner = [d for d, text in enumerate(texts) for _ in range(len(text) + 2)]
    if len(stream) < context + 1:
        with pytest.raises(UserError):
            PackedBlocks(FakeSplit(texts), context=context, start=START, stop=STOP)
        return
    rows = PackedBlocks(FakeSplit(texts), context=context, start=START, stop=STOP)
    covered = rows[0].ids[:1].tolist()
    for number, row in enumerate(rows):
        begin = number * context
        assert row.ids.tolist() == stream[begin : begin + context + 1]
        owners = np.array(owner[begin : begin + context + 1])
        assert row.segments.tolist() == (owners - owners[0]).tolist()
        covered += row.ids[1:].tolist()
    assert covered == stream[: len(covered)]
    assert len(stream) - len(covered) < context
    assert rows.lengths.tolist() == [context + 1] * len(rows)


def test_text_shorter_than_a_block_is_refused() -> None:
    with pytest.raises(UserError, match=r"61 tokens .*model\.context = 100\. .*model\.context"):
        PackedBlocks(FakeSplit([list(range(7, 66))]), context=100, start=START, stop=STOP)


def test_index_out_of_range() -> None:
    rows = DocumentChunks(FakeSplit([[7]]), context=4, start=START, stop=STOP)
    with pytest.raises(IndexError):
        rows[1]
