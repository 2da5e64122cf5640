"""Every family from a recipe to a report; what a family cannot do is said."""

import json

import pytest
from tests.journeys.workspace import Workspace

from regard.models.families import FAMILIES

OBJECTIVES = {"decoder": "causal", "encoder": "masked", "encoder-decoder": "prefix"}


@pytest.mark.parametrize("family", FAMILIES.names())
def test_every_family_trains_and_is_measured_beside_baselines(
    workspace: Workspace, family: str
) -> None:
    size = {} if family == "recurrent" else {"heads": 2}
    model = {"family": family, "layers": 1, "width": 16, "context": 16, **size}
    workspace.recipe(model=model, train__batches="bucketed")
    workspace.run("train", "tiny.toml")
    run = workspace.folder / "runs" / "tiny"
    figures = json.loads((run / "results.json").read_text())
    assert figures["audit"]["verdict"] == "clean"
    measured = {
        row["of"]: row
        for row in figures["estimates"]
        if (row["split"], row["metric"]) == ("dev", "perplexity")
    }
    assert set(measured) == {"model", "unigram", "Kneser-Ney 3-gram"}
    assert len({row["n"] for row in measured.values()}) == 1
    objective = OBJECTIVES.get(family, "prefix")
    assert f"tells:{objective}" in measured["model"]["signature"]
    per_byte = [row for row in figures["estimates"] if row["metric"] == "bits_per_byte"]
    assert bool(per_byte) == (objective == "causal")
    written = workspace.invoke("generate", "runs/tiny", "the cat", "--max-new-tokens", "5")
    if family == "encoder":
        assert written.exit_code == 2
        assert "cannot generate text" in written.error
        assert figures["samples"] == []
    else:
        assert written.exit_code == 0
    again = json.loads(workspace.run("evaluate", "runs/tiny", "--json"))
    assert again["estimates"] == figures["estimates"]


def test_an_objective_that_a_family_cannot_learn(workspace: Workspace) -> None:
    workspace.recipe()
    refused = workspace.invoke("train", "tiny.toml", "--set", "objective=masked")
    assert refused.exit_code == 2
    assert "'decoder' does not learn objective = 'masked'" in refused.error
