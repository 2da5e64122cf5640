"""The KV cache: extending, reordering for beam search without needless copies, clearing."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.cache import BlockCache, KVCache, ModelCache


def filled_cache(rows, positions=3, capacity=5):
    cache = KVCache(capacity)
    generator = torch.Generator().manual_seed(0)
    k, v = torch.randn(2, rows, 2, positions, 4, generator=generator)
    cache.extend(k, v)
    return cache, k, v


@settings(deadline=None)
@given(st.data())
def test_reorder_gathers_rows(data):
    rows = data.draw(st.integers(1, 6))
    cache, k, v = filled_cache(rows)
    for _ in range(3):
        order = torch.tensor(data.draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=8)))
        cache.reorder(order)
        k, v, rows = k[order], v[order], len(order)
        assert torch.equal(cache.contents()[0], k)
        assert torch.equal(cache.contents()[1], v)
    new = torch.ones(rows, 2, 1, 4)
    keys, values = cache.extend(new, -new)
    assert torch.equal(keys, torch.cat([k, new], dim=2))
    assert torch.equal(values, torch.cat([v, -new], dim=2))


def test_rows_that_stay_are_not_copied():
    cache, k, _ = filled_cache(4)
    address = cache.contents()[0].data_ptr()
    cache.reorder(torch.tensor([0, 3, 2]))
    assert cache.contents()[0].data_ptr() == address
    assert torch.equal(cache.contents()[0], k[[0, 3, 2]])


def test_reordering_beams_of_one_source_does_not_copy_its_memory():
    self_attention, _, _ = filled_cache(4)
    cross_attention, k, _ = filled_cache(4)
    k[1], k[3] = k[0], k[2]
    cross_attention.clear()
    cross_attention.extend(k, k)
    cache = ModelCache([BlockCache(self_attention, cross_attention)])
    cache.memory, cache.memory_valid = k[:, 0], torch.ones(4, 3, dtype=torch.bool)
    cache.reorder(torch.tensor([0, 0, 2, 2]))  # two beams per source
    cross_attention.contents()[0][1] += 1  # lost if the row were copied from another
    cache.reorder(torch.tensor([1, 0, 3, 2]))
    assert torch.equal(cross_attention.contents()[0][1], k[1] + 1)
    cache.reorder(torch.tensor([2, 3, 0]))
    assert torch.equal(cross_attention.contents()[0], k[[2, 3, 0]])
    assert torch.equal(cache.memory, k[[2, 3, 0], 0])


def test_clear_keeps_cross_attention():
    self_attention, _, _ = filled_cache(2)
    cross_attention, k, _ = filled_cache(2)
    cache = ModelCache([BlockCache(self_attention, cross_attention)])
    cache.clear()
    assert cache.length == 0
    assert torch.equal(cross_attention.contents()[0], k)
