"""Properties of every model family in the catalogue."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load, save
from tests.adapters.small_models import VOCABULARY, body, family_of, outputs

from regard.core.ledger import total_parameters
from regard.core.setting_docs import setting_docs
from regard.core.settings import read_settings, to_table
from regard.models.families import FAMILIES
from regard.objectives import OBJECTIVES


@pytest.mark.parametrize("name", FAMILIES.names())
class TestEveryFamily:
    def test_is_documented_and_names_its_objectives(self, name):
        entry = FAMILIES.get(name)
        assert entry.summary
        assert entry.properties["predicts"]
        assert {*entry.properties["objectives"]} <= {*OBJECTIVES.names()}
        assert setting_docs(entry.part).keys() >= entry.part.model_fields.keys()

    def test_settings_survive_a_recipe(self, name):
        family = family_of(name)
        assert read_settings(type(family), to_table(family)) == family

    @pytest.mark.parametrize("table", [{}, {"width": 8}, {"layers": 1}, {"context": 7}])
    def test_parameters_are_counted_by_formula(self, name, table):
        family = family_of(name, **table)
        for vocabulary in (11, 40):
            model = family.build(vocabulary=vocabulary, seed=0)
            built = sum(parameter.numel() for parameter in model.parameters())
            assert built == total_parameters(family.count_parameters(vocabulary))

    def test_initial_weights_depend_on_name_and_seed_alone(self, name):
        first = family_of(name).build(vocabulary=VOCABULARY, seed=0).state_dict()
        torch.manual_seed(7)  # the global state has no influence
        again = family_of(name).build(vocabulary=VOCABULARY, seed=0).state_dict()
        other = family_of(name).build(vocabulary=VOCABULARY, seed=1).state_dict()
        assert all(torch.equal(first[key], again[key]) for key in first)
        assert any(not torch.equal(first[key], other[key]) for key in first)
        # Parameters of the same name and shape agree between models of other sizes.
        longer = family_of(name, context=30).build(vocabulary=VOCABULARY, seed=0).state_dict()
        shared = [k for k in longer if k in first and first[k].shape == longer[k].shape]
        assert len(shared) > len(first) / 2
        assert all(torch.equal(first[key], longer[key]) for key in shared)

    def test_save_and_load(self, name):
        model, loaded = body(name), body(name)
        with torch.no_grad():
            for parameter in loaded.parameters():
                parameter.zero_()
        assert not torch.equal(outputs(loaded), outputs(model))
        # A tied tensor is one tensor under two names, which safetensors stores as copies.
        tensors = {key: tensor.clone() for key, tensor in model.state_dict().items()}
        loaded.load_state_dict(load(save(tensors)))
        assert torch.equal(outputs(loaded), outputs(model))
