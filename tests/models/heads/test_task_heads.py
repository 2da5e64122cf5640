"""Task heads: shapes, parameter counts, padding, pooling."""

import pytest
import torch

from regard.models.heads.task_heads import (
    ClassificationHead,
    SentenceHead,
    SpanHead,
    TokenHead,
    ValueHead,
    pool,
)

WIDTH = 6


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 5, WIDTH, generator=generator, dtype=torch.float64)
    valid = torch.tensor([[True, True, True, False, False], [False, True, True, True, True]])
    return x, valid


def parameter_count(head: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in head.parameters())


def test_parameter_counts_equal_the_formulas():
    assert parameter_count(ClassificationHead(WIDTH, labels=2)) == 2 * WIDTH + 2
    assert parameter_count(TokenHead(WIDTH, labels=5)) == 5 * WIDTH + 5
    assert parameter_count(SpanHead(WIDTH)) == 2 * WIDTH
    assert parameter_count(ValueHead(WIDTH)) == WIDTH + 1
    assert parameter_count(SentenceHead()) == 0


@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize(
    "build",
    [
        lambda pooling: ClassificationHead(WIDTH, labels=3, pooling=pooling),
        lambda pooling: ValueHead(WIDTH, pooling=pooling),
        lambda pooling: SentenceHead(pooling=pooling),
    ],
)
def test_padding_has_no_influence(build, pooling):
    head = build(pooling).double()
    x, valid = rows()
    before = head(x, valid)
    x[~valid] += 100.0
    assert torch.equal(head(x, valid), before)
    assert before.shape[0] == 2


def test_pooling_takes_the_first_token_or_the_mean_of_tokens():
    x, valid = rows()
    assert torch.equal(pool(x, valid, "first"), torch.stack((x[0, 0], x[1, 1])))
    expected = torch.stack((x[0, :3].mean(dim=0), x[1, 1:].mean(dim=0)))
    assert torch.allclose(pool(x, valid, "mean"), expected)


def test_sentence_embeddings_have_norm_one():
    x, valid = rows()
    norms = SentenceHead()(x, valid).norm(dim=-1)
    assert torch.allclose(norms, torch.ones_like(norms))


def test_span_logits_are_minus_infinity_on_padding():
    x, valid = rows()
    start, end = SpanHead(WIDTH).double()(x, valid)
    assert start.shape == end.shape == (2, 5)
    assert torch.isneginf(start[~valid]).all()
    assert torch.isneginf(end[~valid]).all()
    assert torch.isfinite(start[valid]).all()


def test_token_head_has_logits_at_every_position():
    x, _ = rows()
    assert TokenHead(WIDTH, labels=4).double()(x).shape == (2, 5, 4)
