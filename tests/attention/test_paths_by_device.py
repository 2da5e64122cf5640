"""Which path a mask takes on a CPU, an NVIDIA GPU and Apple's: the table of docs/architecture.md.

A GPU is a meta device here: tensors without values, and no CPU. What CUDA alone has is allowed to
it. Whether torch's kernels then run fast is not seen.
"""

import pytest
import torch

from regard.attention.attend import attend
from regard.attention.kinds import dot
from regard.attention.masks import mask as masks
from regard.attention.masks.mask import Mask
from regard.attention.paths import flex

ROWS, LENGTH = 2, 1024


def mask_of(name: str, device: str) -> Mask:
    valid = torch.ones(ROWS, LENGTH, dtype=torch.bool, device=device)
    documents = torch.ones(ROWS, LENGTH, dtype=torch.int64, device=device)
    made = {
        "none": masks.bidirectional,
        "causal": masks.causal,
        "padded": lambda: masks.padding(valid),
        "causal, padded on the left": lambda: masks.causal() & masks.padding(valid),
        "sliding window": lambda: masks.sliding_window(64),
        "documents apart": lambda: masks.causal() & masks.same_document(documents),
        "blocks": lambda: masks.causal() & masks.same_block(128),
    }
    return made[name]()


PATHS = {  # cpu, cuda, mps
    "none": ("fused-everything", "fused-everything", "fused-everything"),
    "causal": ("fused-causal", "fused-causal", "fused-causal"),
    "padded": ("fused-dense", "fused-dense", "fused-dense"),
    "causal, padded on the left": ("fused-dense", "fused-dense", "fused-dense"),
    "sliding window": ("stripes, fused-dense", "flex", "stripes, fused-dense"),
    "documents apart": ("fused-dense", "flex", "fused-dense"),
    "blocks": ("blocks, fused-causal", "blocks, fused-causal", "blocks, fused-causal"),
}


@pytest.mark.parametrize("name", PATHS)
def test_path_by_device(name, monkeypatch):
    monkeypatch.setattr(dot.kernels, "supports", lambda *_: False)
    monkeypatch.setattr(flex, "_is_compilable", lambda _: True)
    monkeypatch.setattr(flex, "flex", lambda inputs: torch.empty_like(inputs.q))
    monkeypatch.setattr(
        "regard.attention.kinds.dot.F.scaled_dot_product_attention",
        lambda q, k, v, **_: torch.empty_like(q),
    )
    taken = []
    for device, has_flex in (("cpu", False), ("meta", True), ("meta", False)):
        monkeypatch.setattr(flex, "DEVICES", ("meta",) if has_flex else ("cuda",))
        q = torch.empty(ROWS, 8, LENGTH, 64, device=device, dtype=torch.bfloat16)
        taken.append(attend(q, q, q, mask_of(name, device)).path)
    assert tuple(taken) == PATHS[name]
