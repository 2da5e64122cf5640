"""Every model family from recipe to report; unsupported objectives are refused."""

import json

import pytest
from tests.journeys.workspace import Workspace

from regard.models.families import FAMILIES

OBJECTIVES = {"decoder": "causal", "encoder": "masked", "encoder-decoder": "prefix"}


@pytest.mark.parametrize("family", FAMILIES.names())
def test_family_trains_and_is_evaluated_against_baselines(
    workspace: Workspace, family: str
) -> None:
    size = {} if family == "recurrent" else {"heads": 2}
    model = {"family": family, "layers": 1, "width": 16, "context": 16, **size}
    workspace.recipe(model=model, train__batches="bucketed")
    workspace.run("train", "tiny.toml")
    run = workspace.folder / "runs" / "tiny"
    results = json.loads((run / "results.json").read_text())
    assert results["audit"]["verdict"] == "clean"
    estimates = {
        row["of"]: row
        for row in results["estimates"]
        if (row["split"], row["metric"]) == ("dev", "perplexity")
    }
    assert set(estimates) == {"model", "unigram", "Kneser-Ney 3-gram"}
    assert len({row["n"] for row in estimates.values()}) == 1
    objective = OBJECTIVES.get(family, "prefix")
    assert f"objective:{objective}" in estimates["model"]["signature"]
    per_byte = [row for row in results["estimates"] if row["metric"] == "bits_per_byte"]
    assert bool(per_byte) == (objective == "causal")
    generation = workspace.invoke("generate", "runs/tiny", "the cat", "--max-new-tokens", "5")
    if family == "encoder":
        assert generation.exit_code == 2
        assert "cannot generate text" in generation.error
        assert results["samples"] == []
    else:
        assert generation.exit_code == 0
    again = json.loads(workspace.run("evaluate", "runs/tiny", "--json"))
    assert again["estimates"] == results["estimates"]


def test_objective_that_a_family_does_not_support_is_refused(workspace: Workspace) -> None:
    workspace.recipe()
    refused = workspace.invoke("train", "tiny.toml", "--set", "objective=masked")
    assert refused.exit_code == 2
    assert "'decoder' does not learn objective = 'masked'" in refused.error
