"""FLOPs counted while they run, against torch's own counter."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from regard.attention.kinds.additive import Additive
from regard.attention.kinds.dot import Dot
from regard.attention.kinds.linear import LinearAttention
from regard.models.families.decoder import Decoder
from regard.models.inputs import ModelInputs
from regard.ops.cpu import library
from regard.studies.flop_count import CPU_FLASH, FlopCount


def decoder_loss(kind):
    family = Decoder(width=16, heads=2, layers=1, context=8, attention=kind)
    model = family.build(vocabulary=11, seed=0)
    ids = torch.arange(16).view(2, 8) % 11

    def loss():
        with library.without_kernels():
            return model.logits(ModelInputs(ids)).square().sum()

    return loss


def convolution_loss():
    layer = nn.Conv1d(3, 4, 2)
    x = torch.ones(2, 3, 9, requires_grad=True)
    return lambda: F.softmax(layer(x).flatten(1) @ torch.ones(32, 5), dim=-1).square().sum()


LOSSES = {
    "dot": lambda: decoder_loss(Dot()),
    "additive": lambda: decoder_loss(Additive()),
    "linear attention": lambda: decoder_loss(LinearAttention()),
    "convolution": convolution_loss,
}


def flops(counter, work):
    with counter:
        work()
    return counter.flops if isinstance(counter, FlopCount) else counter.get_total_flops()


@pytest.mark.parametrize("name", LOSSES)
def test_as_torch_counts(name):
    loss = LOSSES[name]()

    def trained():
        loss().backward()

    inferred = torch.no_grad()(loss)
    for work in (trained, inferred):
        oracle = FlopCounterMode(display=False, custom_mapping=CPU_FLASH)
        assert flops(FlopCount(), work) == flops(oracle, work) > 0


def test_it_is_not_wrapped_in_what_imports_the_compiler():
    assert not hasattr(FlopCount.__torch_dispatch__, "__wrapped__")
