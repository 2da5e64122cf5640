"""A model that attends to the future is refused; trained on purpose, it is marked invalid."""

import json

from tests.journeys.workspace import Workspace

from regard.attention.kinds import ATTENTION

LEAKY = '''
import torch
from regard.attention.kinds import AttentionKind, kind
from regard.attention.kinds.dot import DotProduct


@kind("off-by-one", cost="n² · d")
class OffByOne(AttentionKind):
    """Dot-product attention whose mask also allows the next position."""

    def build(self, shape):
        return NextPositionLeak()


class NextPositionLeak(DotProduct):
    def normalise(self, scores, allowed):
        shifted = torch.nn.functional.pad(allowed, (1, 0))[..., :-1]
        return super().normalise(scores, allowed | shifted)

    def fast(self, inputs):
        return None
'''


def test_broken_kind_is_refused_with_the_leaking_pairs(workspace: Workspace) -> None:
    workspace.recipe()
    refused = workspace.invoke("train", "tiny.toml", "--set", "model.attention.kind=zero-masked")
    assert refused.exit_code == 2
    broken = ATTENTION.get("zero-masked").properties["broken"]
    assert f"zero-masked is broken: {broken}" in refused.error
    assert "reacts to token" in refused.error
    assert "on_purpose = true" in refused.error
    assert not (workspace.folder / "runs" / "tiny").exists()


def test_trained_on_purpose_it_is_reported_as_invalid_first(
    workspace: Workspace,
) -> None:
    workspace.recipe()
    printed = workspace.run(
        "train", "tiny.toml", "--set", 'model.attention={kind="zero-masked", on_purpose=true}'
    )
    assert "INVALID  sees the future" in printed
    run = workspace.folder / "runs" / "tiny"
    page = (run / "report.html").read_text()
    assert '<p class="notice invalid"><strong>Invalid.</strong>' in page
    assert '<p class="verdict">No verdict' in page
    audit = json.loads((run / "audit.json").read_text())
    assert audit["verdict"] == "leak"
    assert all(leak["key"] > leak["query"] for leak in audit["leaks"])
    assert workspace.invoke("audit", "runs/tiny").exit_code == 1


def test_custom_kind_that_leaks_is_refused(workspace: Workspace) -> None:
    workspace.recipe()
    workspace.write("leaky.py", LEAKY)
    refused = workspace.invoke(
        *("train", "tiny.toml", "--with", "leaky.py", "--set", "model.attention.kind=off-by-one")
    )
    assert refused.exit_code == 2
    assert "the model sees the future: position" in refused.error
    assert "`regard check FILE`" in refused.error
    assert workspace.invoke("check", "leaky.py", "--configurations", "5").exit_code == 1


def test_hard_attention_has_unused_query_and_key_parameters(workspace: Workspace) -> None:
    workspace.recipe()
    printed = workspace.run("train", "tiny.toml", "--set", "model.attention.kind=hard")
    assert "unused parameters" in printed
    audit = json.loads((workspace.folder / "runs" / "tiny" / "audit.json").read_text())
    assert {
        parameter["name"].removeprefix("stack.blocks.0.attention.")
        for parameter in audit["unused_parameters"]
    } == {
        "query.weight",
        "query.bias",
        "key.weight",
        "key.bias",
    }


def test_clean_run_is_reported_and_can_be_audited_again(workspace: Workspace) -> None:
    workspace.recipe()
    assert "audit  clean" in workspace.run("train", "tiny.toml")
    assert "CLEAN" in workspace.run("audit", "runs/tiny")
