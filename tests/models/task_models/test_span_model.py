import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.batch import Batch, Example, collate
from regard.models.families.encoder import Encoder
from regard.models.heads.heads import SpanHead, SpanLogits
from regard.models.task_models.span_model import SpanModel, best_spans, passage_places, span_losses

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


TWO = batch_of(
    example([7, 8], [9, 10, 11, 12], (5, 6)),
    example([7], [20, 21], (0, 0)),
)


@given(st.data())
def test_the_best_span_is_the_best_of_all(data: st.DataObject) -> None:
    positions, longest = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 8))
    # Whole numbers, so that sums are exact and ties happen.
    side = st.lists(st.integers(-3, 3), min_size=positions, max_size=positions)
    start, end = data.draw(side), data.draw(side)
    tables = SpanLogits(*(torch.tensor([scores], dtype=torch.float32) for scores in (start, end)))
    first, last, score = (int(value) for value in best_spans(tables, longest=longest))
    allowed = [
        (start[i] + end[j], -(j - i), -i)
        for i in range(positions)
        for j in range(i, min(i + longest, positions))
    ]
    assert (score, -(last - first), -first) == max(allowed)


def test_answers_stand_in_the_passage_alone() -> None:
    expected = [[0, 0, 0, 0, 1, 1, 1, 1, 0], [0, 0, 0, 1, 1, 0, 0, 0, 0]]
    assert passage_places(TWO).int().tolist() == expected
    start, end = span_model().scores(TWO)
    may = torch.tensor(expected, dtype=torch.bool)
    may[:, 0] = True
    for scores in (start, end):
        assert torch.equal(scores.isfinite(), may)


def test_the_loss_is_the_mean_of_both_ends() -> None:
    model = span_model()
    start, end = model.scores(TWO)
    by_hand = [
        -(start[row].log_softmax(0)[begin] + end[row].log_softmax(0)[last]) / 2
        for row, (begin, last) in enumerate(((5, 6), (0, 0)))
    ]
    term = model(TWO)["span"]
    assert float(term.sum.detach()) == pytest.approx(float(torch.stack(by_hand).sum().detach()))
    assert float(term.weight) == 2


def test_the_gradient_of_the_loss_is_right() -> None:
    torch.manual_seed(0)
    start, end = (torch.randn(2, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    hidden = torch.tensor([[False, True, False, False, True]])
    labels = torch.tensor([[2, 3], [0, 0]])

    def loss(start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
        sides = (side.masked_fill(hidden, -torch.inf) for side in (start, end))
        return span_losses(SpanLogits(*sides), labels)

    assert torch.autograd.gradcheck(loss, (start, end))


def test_shares_of_all_spans_and_of_none_add_up() -> None:
    model = span_model()
    spans = model.spans(TWO, longest=30)
    start, end = (side.detach() for side in model.scores(TWO))
    shares = start.softmax(1)[:, :, None] * end.softmax(1)[:, None, :]
    inside = shares[:, 1:, 1:].triu()
    for row in range(2):
        assert float(spans.log_share[row].exp()) == pytest.approx(
            float(inside[row].max()), rel=1e-5
        )
        assert float(spans.null_log_share[row].exp()) == pytest.approx(
            float(shares[row, 0, 0]), rel=1e-5
        )
    losses = span_losses(SpanLogits(start, end), TWO.labels)  # type: ignore[arg-type]
    assert torch.allclose(spans.loss, losses)


def test_padding_changes_no_answer() -> None:
    model = span_model().eval()
    alone = model.spans(batch_of(example([7], [20, 21], (0, 0))), longest=30)
    beside = model.spans(TWO, longest=30)
    for one, other in zip(alone, beside, strict=True):
        assert float(one[0]) == pytest.approx(float(other[1]), abs=1e-5)


def test_a_passage_without_a_token_has_no_span() -> None:
    spans = span_model().spans(batch_of(example([7], [], (0, 0))), longest=30)
    assert float(spans.score) == -torch.inf
    assert float(spans.null_log_share) == pytest.approx(0, abs=1e-6)


def test_the_same_seed_starts_the_same_head() -> None:
    one, other, third = span_model(seed=1), span_model(seed=1), span_model(seed=2)
    weights = [model.head.boundaries.weight for model in (one, other, third)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
