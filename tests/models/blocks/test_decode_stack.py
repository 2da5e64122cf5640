"""Made ready for one place of each row, a stack computes what its readable pass does."""

import pytest
import torch

from regard.adapters.lora import Lora
from regard.adapters.prefix_tuning import PrefixTuning
from regard.adapters.prompt_tuning import PromptTuning
from regard.attention.kinds import ATTENTION
from regard.attention.positions import POSITIONS
from regard.core.settings import read_settings
from regard.models.blocks.decode_stack import LAID_OUT_AT, DecodeStack
from regard.models.families.decoder import Decoder
from regard.models.families.encoder_decoder import EncoderDecoder
from regard.nn import packed_linear

VOCABULARY = 23
SHAPE = {"layers": 2, "heads": 4, "width": 16, "context": 24}
KINDS = [{"attention": name} for name in ATTENTION.names()]
POSITION_KINDS = [{"positions": name} for name in POSITIONS.names()]
CHOICES = [
    {"projections": "shared-qk"},
    {"projections": "shared-qkv", "positions": "rotary"},
    {"key_value_heads": 2, "positions": "rotary", "norm": "rms", "activation": "swiglu"},
    {"key_value_heads": 1, "positions": "alibi", "biases": False},
    {"norm_place": "post", "activation": "relu", "tied": False},
    {"attention": {"kind": "group", "groups": 3, "fusion_every": 2}},
    {"positions": {"kind": "learned", "combine": "concatenate"}, "tied": False},
]


def decoder(**settings):
    family = read_settings(Decoder, {**SHAPE, **settings})
    return family.build(vocabulary=VOCABULARY, seed=1).double().eval()


def rows_of(rows, positions, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, VOCABULARY, (rows, positions), generator=generator)


def read(model, ids, gaps, *, learns, orders=()):
    """Scores after each token from the fourth on, one token at a time; `orders` says after which
    tokens rows change places. `learns` takes the readable pass."""
    valid = torch.arange(ids.shape[1]) >= gaps[:, None]
    cache, after = model.new_cache(len(ids)), []
    with torch.set_grad_enabled(learns):
        for end in range(4, ids.shape[1] + 1):
            begin = 0 if end == 4 else end - 1
            positions = (torch.arange(begin, end) - gaps[:, None]).clamp(min=0)
            new, seen = ids[:, begin:end], valid[:, :end] if gaps.any() else None
            after.append(model.step(new, valid=seen, positions=positions, cache=cache).detach())
            if end in dict(orders):
                order = torch.tensor(dict(orders)[end])
                cache.reorder(order)
                ids, valid, gaps = ids[order], valid[order], gaps[order]
    return after, cache


def check_same(model, ids, gaps, **how):
    readable, plain = read(model, ids, gaps, learns=True, **how)
    quick, ready = read(model, ids, gaps, learns=False, **how)
    for one, other in zip(quick, readable, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    return plain.ready, ready.ready


@pytest.mark.parametrize("settings", KINDS + POSITION_KINDS + CHOICES, ids=str)
@pytest.mark.parametrize("gaps", [[0], [0, 0, 0], [0, 3, 1]], ids=["alone", "even", "padded"])
def test_it_equals_the_readable_pass(settings, gaps):
    model = decoder(**settings)
    ends = [(5, [2, 0, 0]), (7, [0, 2]), (8, [1])] if len(gaps) == 3 else []
    ids = rows_of(len(gaps), 10)
    plain, ready = check_same(model, ids, torch.tensor(gaps), orders=ends)
    assert plain is None
    assert isinstance(ready, DecodeStack) is model.cacheable


@pytest.mark.parametrize("settings", [{}, CHOICES[2], {"biases": False}], ids=str)
@pytest.mark.parametrize("rows", [1, 2, packed_linear.MANY_ROWS + 1])
@pytest.mark.parametrize("columns_pay", [False, True])
def test_weights_laid_out_for_the_rows_give_the_same(settings, rows, columns_pay, monkeypatch):
    monkeypatch.setattr(packed_linear, "COLUMNS_PAY", columns_pay)
    monkeypatch.setattr(packed_linear, "VERY_WIDE", 1)
    ids, gaps = rows_of(rows, 4 + LAID_OUT_AT + 2), torch.arange(rows) % 4
    check_same(decoder(**settings), ids, gaps)


@pytest.mark.parametrize(
    "adapter",
    [
        Lora(rank=2, targets=("query", "value", "up_proj")),
        PromptTuning(length=3),
        PrefixTuning(length=3),
    ],
    ids=lambda adapter: type(adapter).__name__,
)
@pytest.mark.parametrize("positions", ["learned", "alibi"])
def test_adapters_take_part(adapter, positions):
    model = decoder(positions=positions)
    before, _ = read(model, rows_of(2, 7), torch.tensor([0, 2]), learns=False)
    adapter.apply(model, seed=0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(generator=torch.Generator().manual_seed(0))
    check_same(model, rows_of(2, 7), torch.tensor([0, 2]))
    check_same(model, rows_of(1, 7), torch.tensor([0]))
    after, _ = read(model, rows_of(2, 7), torch.tensor([0, 2]), learns=False)
    assert not torch.allclose(before[-1], after[-1])


@pytest.mark.parametrize("cross_attention", ["dot", "additive", "linear", "hard"])
def test_a_target_is_written_from_its_source(cross_attention):
    table = {**SHAPE, "cross_attention": cross_attention}
    family = read_settings(EncoderDecoder, table)
    model = family.build(vocabulary=VOCABULARY, seed=1).double().eval()
    source, lengths = rows_of(3, 5, seed=4), torch.tensor([[5], [2], [4]])
    writer = model.given(source, torch.arange(5) < lengths)
    orders = [(5, [0, 0, 2]), (6, [0, 1, 2]), (7, [2, 1])]
    plain, ready = check_same(writer, rows_of(3, 9), torch.tensor([0, 1, 2]), orders=orders)
    assert plain is None
    assert isinstance(ready, DecodeStack)


def test_what_listens_to_a_layer_goes_on_hearing():
    model, heard = decoder(), []
    handle = model.stack.blocks[1].mlp.down_proj.register_forward_hook(
        lambda module, given, out: heard.append(out.shape)
    )
    check_same(model, rows_of(2, 7), torch.tensor([0, 0]))
    handle.remove()
    # Both passes read four tokens at once, then three times one.
    assert len(heard) == 2 * 4
