"""FlexAttention equals the explicit path; torch runs its forward pass on the CPU, eagerly."""

import pytest
import torch

from regard.attention.attend import attend
from regard.attention.kinds.group import GroupDotProduct
from regard.attention.masks import mask as masks
from regard.attention.paths import flex
from regard.attention.positions.alibi import AlibiBias

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
ROWS, LENGTH = 2, 150
DOCUMENTS = torch.arange(LENGTH).expand(ROWS, -1) // 40
VALID = torch.arange(LENGTH) >= torch.tensor([[0], [70]])
PREFIXES = torch.tensor([5, 60])
COMPOSED = {
    "sliding window": masks.sliding_window(9),
    "documents": masks.causal() & masks.same_document(DOCUMENTS),
    "documents of one row": masks.causal() & masks.same_document(DOCUMENTS[:1]),
    "prefix": masks.prefix(PREFIXES),
    "union": masks.sliding_window(4) | masks.prefix(PREFIXES),
    "complement": ~masks.same_document(DOCUMENTS),
    "padded window": masks.sliding_window(9) & masks.padding(VALID),
    "virtual tokens": masks.same_document(DOCUMENTS[:, 3:]).with_virtual_tokens(3),
    "per head": masks.Mask(lambda b, h, i, j: (j <= i) & (i - j <= 8 * h), "per head"),
}


@pytest.fixture
def on_a_gpu(monkeypatch):
    monkeypatch.setattr(flex, "DEVICES", ("cpu",))
    monkeypatch.setattr("regard.attention.kinds.dot.kernels.supports", lambda *_: False)


def inputs(*, width: int = 16) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (3, ROWS, 2, LENGTH, width)
    return list(torch.randn(shape, generator=generator).unbind())


@pytest.mark.usefixtures("on_a_gpu")
@pytest.mark.parametrize("name", COMPOSED)
def test_any_composed_mask(name):
    q, k, v = inputs()
    attended = attend(q, k, v, COMPOSED[name])
    assert attended.path == "flex"
    oracle = attend(q, k, v, COMPOSED[name], need_weights=True)
    assert oracle.path == "explicit"
    assert torch.allclose(attended.out, oracle.out, atol=1e-6)
    empty = ~COMPOSED[name].dense(LENGTH, LENGTH, batch=ROWS, heads=2).any(dim=-1)
    assert not attended.out[empty.expand(ROWS, 2, -1)].any()


@pytest.mark.usefixtures("on_a_gpu")
def test_queries_after_cached_keys():
    (q, k, v), mask = inputs(), COMPOSED["documents"]
    last = attend(q[:, :, 90:], k, v, mask, first_query=90)
    assert last.path == "flex"
    assert torch.allclose(last.out, attend(q, k, v, mask).out[:, :, 90:], atol=1e-6)


@pytest.mark.usefixtures("on_a_gpu")
def test_layers_share_the_block_mask_and_masks_do_not(monkeypatch):
    built = []
    build = flex._build_block_mask
    monkeypatch.setattr(
        flex, "_build_block_mask", lambda inputs: built.append(inputs.mask) or build(inputs)
    )
    q, k, v = inputs()
    for mask in (COMPOSED["prefix"], COMPOSED["prefix"], COMPOSED["union"], COMPOSED["prefix"]):
        attend(q, k, v, mask)
    attend(q[:, :, 1:], k, v, COMPOSED["prefix"], first_query=1)
    assert [mask.name for mask in built[1:]] == [
        COMPOSED["union"].name,
        COMPOSED["prefix"].name,
        COMPOSED["prefix"].name,
    ]


@pytest.mark.usefixtures("on_a_gpu")
def test_torchs_fused_kernels_keep_what_they_know():
    """Patterns, also with padding; a bias, dropout, narrow heads and float64 are not for it."""
    q, k, v = inputs()
    composed, bias = COMPOSED["prefix"], AlibiBias(2).bias(*[torch.arange(LENGTH)[None]] * 2)
    paths = [
        attend(q, k, v, masks.causal()).path,
        attend(q, k, v, masks.causal() & masks.padding(VALID)).path,
        attend(q, k, v, composed, bias=bias).path,
        attend(q, k, v, composed, dropout=0.1).path,
        attend(*inputs(width=8), composed).path,
        attend(*[x.double() for x in inputs()], composed).path,
    ]
    assert "flex" not in paths


@pytest.mark.usefixtures("on_a_gpu")
def test_a_kind_that_restricts_the_mask_takes_it():
    q, k, v = inputs()
    function = GroupDotProduct(lambda _: masks.bidirectional())
    assert attend(q, k, v, COMPOSED["documents"], function).path == "flex"


def test_on_the_cpu_it_is_not_taken():
    assert "flex" not in attend(*inputs(), COMPOSED["prefix"]).path
