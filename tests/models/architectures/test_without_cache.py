"""Models whose attention cannot be cached recompute the row at each step, with equal results."""

import torch

from regard.generation.generate import Greedy, generate
from regard.models.families.decoder import Decoder
from regard.models.inputs import ModelInputs


def test_generation_without_a_cache_equals_cached_generation():
    cached = Decoder(layers=2, heads=2, width=8, context=9).build(vocabulary=20, seed=0).double()
    uncached = Decoder(layers=2, heads=2, width=8, context=9).build(vocabulary=20, seed=0).double()
    uncached.cacheable = False
    prompts = [[2, 7, 9], [2, 8], [2, 5, 6, 7, 8, 9, 10]]
    generated = [
        generate(model, prompts, strategy=Greedy(), max_new_tokens=12, stop=3, pad=0)
        for model in (cached, uncached)
    ]
    assert [one.ids for one in generated[0]] == [one.ids for one in generated[1]]
    for one, other in zip(*generated, strict=True):
        assert abs(one.logprob - other.logprob) < 1e-9


def test_token_history_follows_a_reordered_beam():
    model = Decoder(layers=1, heads=2, width=8, context=9).build(vocabulary=20, seed=0).eval()
    model.cacheable = False
    ids = torch.tensor([[2, 5, 6], [2, 7, 8]])
    cache = model.new_cache(2)
    valid = torch.ones(2, 3, dtype=torch.bool)
    model.step(ids[:, :2], valid=valid[:, :2], positions=ids, cache=cache)
    cache.reorder(torch.tensor([1, 0]))
    assert cache.length == 2
    last = model.step(ids.flip(0)[:, 2:], valid=valid, positions=ids, cache=cache)
    assert torch.allclose(last, model.logits(ModelInputs(ids.flip(0)))[:, -1])
