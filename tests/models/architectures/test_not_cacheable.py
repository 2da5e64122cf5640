"""A kind that cannot be cached is read anew at each token, and writes the same."""

import torch

from regard.generation.generate import Greedy, generate
from regard.models.families.decoder import Decoder


def test_rows_are_read_anew_where_attention_cannot_be_cached():
    cached = Decoder(layers=2, heads=2, width=8, context=9).build(vocabulary=20, seed=0).double()
    anew = Decoder(layers=2, heads=2, width=8, context=9).build(vocabulary=20, seed=0).double()
    anew.cacheable = False
    prompts = [[2, 7, 9], [2, 8], [2, 5, 6, 7, 8, 9, 10]]
    written = [
        generate(model, prompts, strategy=Greedy(), max_new=12, stop=3, pad=0)
        for model in (cached, anew)
    ]
    assert [one.ids for one in written[0]] == [one.ids for one in written[1]]
    for one, other in zip(*written, strict=True):
        assert abs(one.logprob - other.logprob) < 1e-9


def test_the_row_follows_its_beam():
    model = Decoder(layers=1, heads=2, width=8, context=9).build(vocabulary=20, seed=0).eval()
    model.cacheable = False
    ids = torch.tensor([[2, 5, 6], [2, 7, 8]])
    cache = model.new_cache(2)
    valid = torch.ones(2, 3, dtype=torch.bool)
    model.step(ids[:, :2], valid=valid[:, :2], positions=ids, cache=cache)
    cache.reorder(torch.tensor([1, 0]))
    assert cache.length == 2
    last = model.step(ids.flip(0)[:, 2:], valid=valid, positions=ids, cache=cache)
    assert torch.allclose(last, model.logits(ids.flip(0))[:, -1])
