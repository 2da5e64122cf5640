"""What attention remembers follows its rows, and only what moves is copied."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.cache import BlockCache, KVCache, ModelCache


def filled(rows, positions=3, capacity=5):
    cache = KVCache(capacity)
    generator = torch.Generator().manual_seed(0)
    k, v = torch.randn(2, rows, 2, positions, 4, generator=generator)
    cache.extend(k, v)
    return cache, k, v


@settings(deadline=None)
@given(st.data())
def test_rows_become_what_the_named_rows_were(data):
    contents = data.draw(st.integers(1, 6))
    cache, k, v = filled(contents)
    for _ in range(3):
        order = data.draw(st.lists(st.integers(0, contents - 1), min_size=1, max_size=8))
        rows = torch.tensor(order)
        cache.reorder(rows)
        k, v, contents = k[rows], v[rows], len(order)
        assert torch.equal(cache.contents()[0], k)
        assert torch.equal(cache.contents()[1], v)
    new = torch.ones(contents, 2, 1, 4)
    keys, values = cache.extend(new, -new)
    assert torch.equal(keys, torch.cat([k, new], dim=2))
    assert torch.equal(values, torch.cat([v, -new], dim=2))


def test_rows_that_stay_are_not_copied():
    cache, k, _ = filled(4)
    room = cache.contents()[0].data_ptr()
    cache.reorder(torch.tensor([0, 3, 2]))
    assert cache.contents()[0].data_ptr() == room
    assert torch.equal(cache.contents()[0], k[[0, 3, 2]])


def test_beams_of_one_source_leave_it_where_it_is():
    own, _, _ = filled(4)
    source, k, _ = filled(4)
    k[1], k[3] = k[0], k[2]
    source.clear()
    source.extend(k, k)
    cache = ModelCache([BlockCache(own, source)])
    cache.memory, cache.memory_valid = k[:, 0], torch.ones(4, 3, dtype=torch.bool)
    cache.reorder(torch.tensor([0, 0, 2, 2]))  # from here on two rows have each source
    source.contents()[0][1] += 1  # a mark: whoever is copied from elsewhere loses it
    cache.reorder(torch.tensor([1, 0, 3, 2]))
    assert torch.equal(source.contents()[0][1], k[1] + 1)
    cache.reorder(torch.tensor([2, 3, 0]))
    assert torch.equal(source.contents()[0], k[[2, 3, 0]])
    assert torch.equal(cache.memory, k[[2, 3, 0], 0])


def test_what_is_forgotten_is_not_the_source():
    own, _, _ = filled(2)
    source, k, _ = filled(2)
    cache = ModelCache([BlockCache(own, source)])
    cache.clear()
    assert cache.length == 0
    assert torch.equal(source.contents()[0], k)
