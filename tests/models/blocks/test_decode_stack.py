"""The decode stack equals the forward pass with a KV cache, step by step."""

import pytest
import torch

from regard.adapters.lora import Lora
from regard.adapters.prefix_tuning import PrefixTuning
from regard.adapters.prompt_tuning import PromptTuning
from regard.attention.kinds import ATTENTION
from regard.attention.positions import POSITIONS
from regard.core.settings import read_settings
from regard.models.architectures.source_bound_decoder import SourceBoundDecoder
from regard.models.blocks.decode_stack import PACK_AT_STEP, DecodeStack
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
    {"norm_placement": "post", "activation": "relu", "tied": False},
    {"attention": {"kind": "group", "groups": 3, "fusion_every": 2}},
    {"positions": {"kind": "learned", "combine": "concatenate"}, "tied": False},
]


def decoder(**settings):
    family = read_settings(Decoder, {**SHAPE, **settings})
    return family.build(vocabulary=VOCABULARY, seed=1).double().eval()


def random_ids(rows, length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, VOCABULARY, (rows, length), generator=generator)


def decode(model, ids, gaps, *, grad, orders=()):
    """Logits after each token from the fourth on, one token at a time; `orders` says after which
    tokens rows are reordered. With `grad` the decode stack is not used."""
    valid = torch.arange(ids.shape[1]) >= gaps[:, None]
    cache, logits = model.new_cache(len(ids)), []
    with torch.set_grad_enabled(grad):
        for end in range(4, ids.shape[1] + 1):
            begin = 0 if end == 4 else end - 1
            positions = (torch.arange(begin, end) - gaps[:, None]).clamp(min=0)
            new, new_valid = ids[:, begin:end], valid[:, :end] if gaps.any() else None
            step = model.step(new, valid=new_valid, positions=positions, cache=cache)
            logits.append(step.detach())
            if end in dict(orders):
                order = torch.tensor(dict(orders)[end])
                cache.reorder(order)
                ids, valid, gaps = ids[order], valid[order], gaps[order]
    return logits, cache


def check_same(model, ids, gaps, **options):
    reference, plain_cache = decode(model, ids, gaps, grad=True, **options)
    fast, cache = decode(model, ids, gaps, grad=False, **options)
    for got, expected in zip(fast, reference, strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
    return plain_cache.decode_stack, cache.decode_stack


@pytest.mark.parametrize("settings", KINDS + POSITION_KINDS + CHOICES, ids=str)
@pytest.mark.parametrize("gaps", [[0], [0, 0, 0], [0, 3, 1]], ids=["alone", "even", "padded"])
def test_decode_stack_equals_the_forward_pass(settings, gaps):
    model = decoder(**settings)
    orders = [(5, [2, 0, 0]), (7, [0, 2]), (8, [1])] if len(gaps) == 3 else []
    ids = random_ids(len(gaps), 10)
    without, with_stack = check_same(model, ids, torch.tensor(gaps), orders=orders)
    assert without is None
    assert isinstance(with_stack, DecodeStack) is model.cacheable


@pytest.mark.parametrize("settings", [{}, CHOICES[2], {"biases": False}], ids=str)
@pytest.mark.parametrize("rows", [1, 2, packed_linear.MANY_ROWS + 1])
@pytest.mark.parametrize("columns_pay", [False, True])
def test_packed_weights_give_the_same_logits(settings, rows, columns_pay, monkeypatch):
    monkeypatch.setattr(packed_linear, "TRANSPOSE_WIDE_LAYERS", columns_pay)
    monkeypatch.setattr(packed_linear, "WIDE_RATIO", 1)
    ids, gaps = random_ids(rows, 4 + PACK_AT_STEP + 2), torch.arange(rows) % 4
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
def test_adapters_are_part_of_decoding(adapter, positions):
    model = decoder(positions=positions)
    before, _ = decode(model, random_ids(2, 7), torch.tensor([0, 2]), grad=False)
    adapter.apply(model, seed=0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(generator=torch.Generator().manual_seed(0))
    check_same(model, random_ids(2, 7), torch.tensor([0, 2]))
    check_same(model, random_ids(1, 7), torch.tensor([0]))
    after, _ = decode(model, random_ids(2, 7), torch.tensor([0, 2]), grad=False)
    assert not torch.allclose(before[-1], after[-1])


@pytest.mark.parametrize("cross_attention", ["dot", "additive", "linear", "hard"])
def test_seq2seq_decoding_equals_the_forward_pass(cross_attention):
    table = {**SHAPE, "cross_attention": cross_attention}
    family = read_settings(EncoderDecoder, table)
    model = family.build(vocabulary=VOCABULARY, seed=1).double().eval()
    source, lengths = random_ids(3, 5, seed=4), torch.tensor([[5], [2], [4]])
    decoder = SourceBoundDecoder(model, source, torch.arange(5) < lengths)
    orders = [(5, [0, 0, 2]), (6, [0, 1, 2]), (7, [2, 1])]
    without, with_stack = check_same(
        decoder, random_ids(3, 9), torch.tensor([0, 1, 2]), orders=orders
    )
    assert without is None
    assert isinstance(with_stack, DecodeStack)


def test_forward_hooks_are_still_called():
    model, shapes = decoder(), []
    handle = model.stack.blocks[1].mlp.down_proj.register_forward_hook(
        lambda module, inputs, out: shapes.append(out.shape)
    )
    check_same(model, random_ids(2, 7), torch.tensor([0, 0]))
    handle.remove()
    # Both passes process four tokens at once, then three times one.
    assert len(shapes) == 2 * 4
