"""The language model: causality, padding, cached decoding, packed documents, parameter count."""

import pytest
import torch

from regard.batch import Example, collate
from regard.core.errors import UserError
from regard.core.settings import read_settings
from regard.models.families.decoder import Decoder
from regard.models.inputs import ModelInputs
from regard.models.model import token_losses

VOCABULARY = 31


def build(**settings: object):
    table = {"layers": 2, "heads": 2, "width": 8, "context": 12, **settings}
    return read_settings(Decoder, table).build(vocabulary=VOCABULARY, seed=3).double().eval()


VARIANTS = [
    {},
    {"tied": False},
    {"norm_placement": "post"},
    {"positions": "sinusoidal"},
    {"positions": {"kind": "learned", "combine": "concatenate"}, "tied": False},
    {"positions": "rotary", "norm": "rms", "activation": "swiglu", "biases": False},
    {"positions": "alibi", "key_value_heads": 1, "activation": "relu"},
    {"positions": "relative", "projections": "shared-qk"},
    {"attention": "linear"},
    {"attention": {"kind": "group", "groups": 3, "fusion_every": 2}},
]


def ids(rows: int, positions: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, VOCABULARY, (rows, positions), generator=generator)


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_logits_are_causal(settings):
    model = build(**settings)
    tokens = ids(1, 10)
    before = model.logits(ModelInputs(tokens))[:, :6]
    tokens[:, 6:] = (tokens[:, 6:] + 1) % VOCABULARY
    assert torch.equal(model.logits(ModelInputs(tokens))[:, :6], before)


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_cached_steps_equal_the_full_forward(settings):
    model = build(**settings)
    tokens = ids(2, 9)
    full = model.logits(ModelInputs(tokens))
    cache = model.new_cache(2)
    for first, last in [(0, 4), (4, 5), (5, 9)]:
        logits = model.step(
            tokens[:, first:last],
            valid=torch.ones(2, last, dtype=torch.bool),
            positions=torch.arange(first, last).expand(2, -1),
            cache=cache,
        )
        assert torch.allclose(logits, full[:, last - 1], atol=1e-12)


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_left_padding_changes_nothing(settings):
    model = build(**settings)
    tokens = ids(1, 5)
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), tokens], dim=1)
    valid = torch.tensor([[False] * 3 + [True] * 5])
    positions = torch.tensor([[0, 0, 0, 0, 1, 2, 3, 4]])
    logits = model.step(padded, valid=valid, positions=positions, cache=model.new_cache(1))
    assert torch.allclose(logits, model.logits(ModelInputs(tokens))[:, -1], atol=1e-12)


def test_right_padding_changes_nothing():
    model = build()
    long, short = ids(1, 9)[0].numpy(), ids(1, 5, seed=1)[0].numpy()

    def example(row):
        return Example(row[:-1], row[1:], torch.ones(len(row) - 1).numpy(), None)

    together = collate([example(long), example(short)], pad_id=0, rows=(0, 1))
    alone = collate([example(short)], pad_id=0, rows=(1,))
    assert torch.allclose(
        token_losses(model, together)[1, :4], token_losses(model, alone)[0], atol=1e-12
    )
    whole = model(together)["token"]
    assert float(whole.weight) == 12
    terms = [model(micro_batch)["token"] for micro_batch in together.micro_batches(2)]
    assert torch.allclose(whole.sum, terms[0].sum + terms[1].sum, atol=1e-10)


def test_across_documents_decides_whether_packed_documents_interact():
    row = ids(1, 9)[0].numpy()
    segments = (torch.arange(9) >= 4).long().numpy()

    def losses(row, **settings):
        example = Example(row[:-1], row[1:], torch.ones(8).numpy(), segments[:-1])
        return token_losses(build(**settings), collate([example], pad_id=0, rows=(0,)))[0]

    other = row.copy()
    other[1] = (other[1] + 1) % VOCABULARY
    apart, changed = (losses(r, across_documents=False) for r in (row, other))
    assert torch.equal(apart[4:], changed[4:])
    together, changed = losses(row), losses(other)
    assert not torch.equal(together[4:], changed[4:])


def test_parameter_count_of_the_default_settings():
    width, layers, context = 8, 2, 12
    block = 4 * (width * width + width) + 2 * 2 * width
    block += width * 4 * width + 4 * width + 4 * width * width + width
    shared = VOCABULARY * width + context * width + layers * block + 2 * width
    count = sum(p.numel() for p in build().parameters())
    assert count == shared
    untied = sum(p.numel() for p in build(tied=False).parameters())
    assert untied == shared + VOCABULARY * width


def test_initial_weights_depend_on_seed_and_name_alone():
    small, large = build(), build(layers=4, positions="sinusoidal", mlp_width=5)
    assert torch.equal(
        small.stack.blocks[1].attention.query.weight,
        large.stack.blocks[1].attention.query.weight,
    )
    other_seed = Decoder(layers=2, heads=2, width=8).build(vocabulary=VOCABULARY, seed=4)
    assert not torch.equal(
        other_seed.double().embedding.tokens.weight, small.embedding.tokens.weight
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, "heads = 3 does not divide width = 8; the nearest width that fits is 9"),
        ({"positions": {"kind": "learned", "combine": "concatenate"}}, "set tied = false"),
        ({"width": 0}, "width = 0 is not allowed"),
        ({"attention": {"kind": "dott"}}, "did you mean dot"),
        ({"atention": "dot"}, "did you mean attention"),
        ({"positions": 3}, "takes a name or a table"),
        ({"key_value_heads": 3, "heads": 4}, "key_value_heads = 3 does not divide heads = 4"),
        ({"key_value_heads": 1, "projections": "shared-qk"}, 'needs projections = "separate"'),
        ({"attention": "linear", "positions": "rotary"}, "attention linear does not support"),
        ({"attention": "linear", "across_documents": False}, "cannot keep documents apart"),
        ({"attention": "synthesizer-dense", "projections": "shared-qk"}, "only separate"),
        ({"attention": "synthesizer-random", "key_value_heads": 1}, "leave key_value_heads out"),
        ({"positions": "sinusoidal", "width": 9, "heads": 3}, "9 is odd"),
        ({"positions": "rotary", "width": 6}, "odd|even"),
        ({"positions": {"kind": "relative", "clip": 12}}, "clip"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        build(**settings)
