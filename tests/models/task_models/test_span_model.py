"""Extractive question answering: span search, loss, null answer."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.batch import Batch, Example, collate
from regard.models.families.encoder import Encoder
from regard.models.heads.task_heads import SpanHead, SpanLogits
from regard.models.task_models.span_model import SpanModel, best_spans, passage_mask, span_losses

CLS, SEP = 4, 5
VOCABULARY = 30


def example(question: list[int], passage: list[int], label: tuple[int, int]) -> Example:
    ids = np.array([CLS, *question, SEP, *passage, SEP])
    segments = np.array([0] * (len(question) + 2) + [1] * (len(passage) + 1))
    weights = np.zeros(len(ids), dtype=np.float32)
    weights[0] = 1
    return Example(ids, ids, weights, segments, labels=np.array(label))


def batch_of(*examples: Example) -> Batch:
    return collate(examples, pad_id=0, rows=range(len(examples)))


def span_model(*, seed: int = 0, context: int = 32) -> SpanModel:
    family = Encoder(layers=1, heads=2, width=16, context=context)
    return SpanModel(family.build(vocabulary=VOCABULARY, seed=seed), SpanHead(16), seed=seed)


BATCH = batch_of(
    example([7, 8], [9, 10, 11, 12], (5, 6)),
    example([7], [20, 21], (0, 0)),
)


@given(st.data())
def test_best_spans_equals_exhaustive_search(data: st.DataObject) -> None:
    positions, max_length = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 8))
    # Whole numbers, so that sums are exact and ties happen.
    scores = st.lists(st.integers(-3, 3), min_size=positions, max_size=positions)
    start, end = data.draw(scores), data.draw(scores)
    logits = SpanLogits(*(torch.tensor([side], dtype=torch.float32) for side in (start, end)))
    first, last, score = (int(value) for value in best_spans(logits, max_length=max_length))
    allowed = [
        (start[i] + end[j], -(j - i), -i)
        for i in range(positions)
        for j in range(i, min(i + max_length, positions))
    ]
    assert (score, -(last - first), -first) == max(allowed)


def test_answers_lie_in_the_passage_alone() -> None:
    expected = [[0, 0, 0, 0, 1, 1, 1, 1, 0], [0, 0, 0, 1, 1, 0, 0, 0, 0]]
    assert passage_mask(BATCH).int().tolist() == expected
    start, end = span_model().logits(BATCH)
    allowed = torch.tensor(expected, dtype=torch.bool)
    allowed[:, 0] = True
    for side in (start, end):
        assert torch.equal(side.isfinite(), allowed)


def test_loss_is_the_mean_of_start_and_end() -> None:
    model = span_model()
    start, end = model.logits(BATCH)
    expected = [
        -(start[row].log_softmax(0)[begin] + end[row].log_softmax(0)[last]) / 2
        for row, (begin, last) in enumerate(((5, 6), (0, 0)))
    ]
    term = model(BATCH)["span"]
    assert float(term.sum.detach()) == pytest.approx(float(torch.stack(expected).sum().detach()))
    assert float(term.weight) == 2


def test_span_losses_pass_gradcheck() -> None:
    torch.manual_seed(0)
    start, end = (torch.randn(2, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    masked = torch.tensor([[False, True, False, False, True]])
    labels = torch.tensor([[2, 3], [0, 0]])

    def loss(start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
        sides = (side.masked_fill(masked, -torch.inf) for side in (start, end))
        return span_losses(SpanLogits(*sides), labels)

    assert torch.autograd.gradcheck(loss, (start, end))


def test_logprobs_are_those_of_the_two_softmaxes() -> None:
    model = span_model()
    predictions = model.predict(BATCH, max_length=30)
    start, end = (side.detach() for side in model.logits(BATCH))
    probabilities = start.softmax(1)[:, :, None] * end.softmax(1)[:, None, :]
    spans_only = probabilities[:, 1:, 1:].triu()
    for row in range(2):
        assert float(predictions.logprob[row].exp()) == pytest.approx(
            float(spans_only[row].max()), rel=1e-5
        )
        assert float(predictions.null_logprob[row].exp()) == pytest.approx(
            float(probabilities[row, 0, 0]), rel=1e-5
        )
    losses = span_losses(SpanLogits(start, end), BATCH.labels)  # type: ignore[arg-type]
    assert torch.allclose(predictions.loss, losses)


def test_padding_has_no_influence() -> None:
    model = span_model().eval()
    alone = model.predict(batch_of(example([7], [20, 21], (0, 0))), max_length=30)
    batched = model.predict(BATCH, max_length=30)
    for one, other in zip(alone, batched, strict=True):
        assert float(one[0]) == pytest.approx(float(other[1]), abs=1e-5)


def test_an_empty_passage_has_no_span() -> None:
    predictions = span_model().predict(batch_of(example([7], [], (0, 0))), max_length=30)
    assert float(predictions.score) == -torch.inf
    assert float(predictions.null_logprob) == pytest.approx(0, abs=1e-6)


def test_the_seed_decides_the_initial_head() -> None:
    first, same, different = span_model(seed=1), span_model(seed=1), span_model(seed=2)
    weights = [model.head.boundaries.weight for model in (first, same, different)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
