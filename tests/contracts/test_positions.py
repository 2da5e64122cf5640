"""What every position kind owes."""

import pytest
import torch

from regard.attention.positions import POSITIONS
from regard.settings import read_settings, table_of


@pytest.mark.parametrize("name", POSITIONS.names())
class TestEveryPosition:
    def test_is_documented_and_found(self, name):
        entry = POSITIONS.get(name)
        assert entry.summary
        assert "reach" in entry.properties

    def test_settings_survive_a_recipe(self, name):
        settings = POSITIONS.get(name).part(combine="concatenate", own_width=4)
        assert read_settings(type(settings), table_of(settings)) == settings

    def test_places_have_vectors_of_their_own(self, name):
        module = POSITIONS.get(name).part().build(width=8, context=16)
        vectors = module(torch.arange(16)).detach()
        assert vectors.shape == (16, 8)
        distances = torch.cdist(vectors, vectors) + torch.eye(16)
        assert float(distances.min()) > 1e-3
