"""A model that sees the future is not trained, unless on purpose, and then nobody can miss it."""

import json

from tests.journeys.workspace import Workspace

LEAKY = '''
import torch
from regard.attention.kinds import AttentionKind, kind
from regard.attention.kinds.dot import DotProduct


@kind("off-by-one", cost="n² · d")
class OffByOne(AttentionKind):
    """Dot-product whose mask lets each place see one place too many."""

    def build(self, shape):
        return SeesOneAhead()


class SeesOneAhead(DotProduct):
    def normalise(self, scores, allowed):
        ahead = torch.nn.functional.pad(allowed, (1, 0))[..., :-1]
        return super().normalise(scores, allowed | ahead)

    def fast(self, inputs):
        return None
'''


def test_a_broken_kind_is_refused_and_the_pairs_are_named(workspace: Workspace) -> None:
    workspace.recipe()
    refused = workspace.invoke("train", "tiny.toml", "--set", "model.attention.kind=zero-masked")
    assert refused.exit_code == 2
    assert "attention zero-masked is broken: the mask comes after the softmax" in refused.error
    assert "reacts to token" in refused.error
    assert "on_purpose = true" in refused.error
    assert not (workspace.folder / "runs" / "tiny").exists()


def test_on_purpose_it_trains_and_everything_begins_with_what_is_wrong(
    workspace: Workspace,
) -> None:
    workspace.recipe()
    told = workspace.run(
        "train", "tiny.toml", "--set", 'model.attention={kind="zero-masked", on_purpose=true}'
    )
    assert "INVALID  sees the future" in told
    run = workspace.folder / "runs" / "tiny"
    page = (run / "report.html").read_text()
    assert '<p class="notice invalid"><strong>Invalid.</strong>' in page
    assert "No verdict: a model that can see the answers" in page
    kept = json.loads((run / "audit.json").read_text())
    assert kept["verdict"] == "leak"
    assert all(leak["key"] > leak["query"] for leak in kept["leaks"])
    assert workspace.invoke("audit", "runs/tiny").exit_code == 1


def test_a_kind_of_ones_own_that_leaks_is_refused(workspace: Workspace) -> None:
    workspace.recipe()
    workspace.write("leaky.py", LEAKY)
    refused = workspace.invoke(
        *("train", "tiny.toml", "--with", "leaky.py", "--set", "model.attention.kind=off-by-one")
    )
    assert refused.exit_code == 2
    assert "the model sees the future: position" in refused.error
    assert "`regard check FILE`" in refused.error
    assert workspace.invoke("check", "leaky.py", "--configurations", "5").exit_code == 1


def test_hard_attention_trains_nothing_in_queries_and_keys(workspace: Workspace) -> None:
    workspace.recipe()
    told = workspace.run("train", "tiny.toml", "--set", "model.attention.kind=hard")
    assert "can learn nothing" in told
    kept = json.loads((workspace.folder / "runs" / "tiny" / "audit.json").read_text())
    assert {
        one["name"].removeprefix("stack.blocks.0.attention.") for one in kept["unused_parameters"]
    } == {
        "query.weight",
        "query.bias",
        "key.weight",
        "key.bias",
    }


def test_a_clean_run_says_so_and_can_be_audited_again(workspace: Workspace) -> None:
    workspace.recipe()
    assert "audit  clean" in workspace.run("train", "tiny.toml")
    assert "CLEAN" in workspace.run("audit", "runs/tiny")
