"""Planning for devices that are not here: `regard validate --world-size N --device NAME`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from tests.journeys.workspace import generated_text
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard import api
from regard.batch import Example, collate
from regard.cli.commands import app
from regard.core.errors import UserError
from regard.models.families.decoder import Decoder
from regard.ops.cpu.library import without_kernels
from regard.runs.preflight.memory_per_rank import MemoryPerRank, RankMemory, kept_free
from regard.training.planning import accelerators
from regard.training.planning.accelerators import ACCELERATORS, Accelerator
from regard.training.planning.step_memory import StepMemory

GB = 10**9


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    Path("generated.txt").write_text(generated_text(200), encoding="utf-8")
    return {
        "name": "large",
        "data": {"corpus": "generated.txt"},
        "tokenizer": {"vocabulary": 300},
        "model": {"layers": 3, "heads": 4, "width": 256, "context": 128},
        "train": {"batch_tokens": 128 * 64},
    }


def plan(table: dict[str, Any], *, world_size: int, device: str = "H100-80GB") -> MemoryPerRank:
    return api.memory_per_rank(table, world_size=world_size, device=device)


def options(planned: MemoryPerRank) -> dict[str, RankMemory]:
    return {option.parallel: option for option in planned.options}


def test_ranks_share_the_batch_and_fsdp_the_state(table: dict[str, Any]) -> None:
    one, eight = plan(table, world_size=1), plan(table, world_size=8)
    alone, ddp, fsdp = options(one)["one device"], options(eight)["ddp"], options(eight)["fsdp"]
    assert (one.rows, one.rank_rows, eight.rank_rows, eight.micro_rows) == (64, 64, 8, 8)
    assert alone.parameters == ddp.parameters == alone.gradients == 8 * fsdp.parameters
    assert ddp.moments == 2 * ddp.parameters == 8 * fsdp.moments
    assert ddp.activations == fsdp.activations < alone.activations
    assert alone.sent == 0
    assert ddp.sent == 2 * 7 * ddp.gradients // 8
    assert ddp.buffers == max(0, ddp.gradients - ddp.activations)
    assert ddp.parameters < fsdp.buffers < 2 * ddp.parameters  # rank 0 has the whole model
    assert one.precision == "bf16"


def test_gradients_between_activations_keep_memory_free() -> None:
    def kept(gradients: int, *, accumulates: bool) -> int:
        step = StepMemory(1, gradients, 1, activations=600, largest_block=1, blocks=1)
        return kept_free(step, accumulates=accumulates)

    assert kept(500, accumulates=False) == kept(0, accumulates=True) == 100
    assert kept(500, accumulates=True) == 100 + 300
    assert kept(10, accumulates=True) == 100 + 40


def test_accumulation_holds_one_micro_batch(table: dict[str, Any]) -> None:
    whole = plan(table, world_size=2)
    table["train"]["accumulate"] = 4
    quarter = plan(table, world_size=2)
    assert (quarter.rank_rows, quarter.micro_rows) == (32, 8)
    assert quarter.positions == 8 * 128 == whole.positions // 4
    assert options(quarter)["ddp"].activations < options(whole)["ddp"].activations / 2
    # Blocks are gathered for each micro-batch.
    assert options(quarter)["fsdp"].sent == pytest.approx(4 * options(whole)["fsdp"].sent, rel=1e-6)


def test_what_it_says_to_change_fits(
    table: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = options(plan(table, world_size=2))["fsdp"]
    state = needed.total - needed.activations
    small = Accelerator("small", gigabytes=0)
    for fraction in (0.5, 0.2):
        there_are = int(state + fraction * needed.activations)
        monkeypatch.setattr(Accelerator, "bytes", property(lambda _, n=there_are: n))
        monkeypatch.setitem(accelerators.ACCELERATORS, "small", small)
        planned = plan(table, world_size=2, device="small")
        assert not any(map(planned.fits, planned.options))
        by_setting = dict(
            change.split(" fits")[0].split(" = ")
            for change in planned.changes
            if "train." in change
        )
        assert set(by_setting) == {"train.accumulate", "train.batch_tokens"}
        for setting, value in by_setting.items():
            changed = table | {"train": table["train"] | {}}
            changed["train"][setting.removeprefix("train.")] = int(value.replace(",", ""))
            again = plan(changed, world_size=2, device="small")
            assert again.fits(options(again)["fsdp"]), (setting, value)


def test_fsdp_and_more_devices_are_suggested_where_they_help(
    table: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table["train"]["batch_tokens"] = 128
    found = options(plan(table, world_size=4))
    between = (found["ddp"].total + found["fsdp"].total) // 2
    monkeypatch.setattr(Accelerator, "bytes", property(lambda _: between))
    assert plan(table, world_size=4).changes == ('ddp does not fit: set train.parallel = "fsdp"',)
    monkeypatch.setattr(Accelerator, "bytes", property(lambda _: found["fsdp"].total - 10**6))
    [change] = plan(table, world_size=4).changes
    more = int(change.split()[1])
    assert more > 4
    assert "--world-size" in change
    again = plan(table, world_size=more)
    assert again.fits(options(again)["fsdp"])
    monkeypatch.setattr(Accelerator, "bytes", property(lambda _: 1000))
    assert "lower model.context" in plan(table, world_size=4).changes[-1]


@pytest.mark.long
def test_adapters_train_less(table: dict[str, Any]) -> None:
    run = api.train(
        table | {"model": {"layers": 1, "width": 48, "heads": 2, "context": 32}},
        set={"train.max_steps": 2, "train.batch_tokens": 64},
        out="runs/base",
    )
    adapted = {
        "name": "adapted",
        "init_from": str(run.folder),
        "data": table["data"],
        "adapt": {"kind": "lora", "rank": 2},
    }
    [option] = plan(adapted, world_size=1).options
    assert option.moments == 2 * option.gradients
    assert 0 < option.gradients < option.parameters / 10


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, {"world_size": 0}, "--world-size: a world size of 0 is not possible"),
        ({}, {"world_size": -8}, "a world size of -8"),
        ({}, {"world_size": 10**9}, "a world size of 1,000,000,000"),
        ({}, {"device": "H100-80B"}, "did you mean H100-80GB"),
        ({}, {"device": "abacus"}, "unknown device 'abacus'. Known are"),
        ({"precision": "bf16"}, {"device": "V100-32GB"}, "V100-32GB does not compute"),
        ({"max_steps": 0}, {}, "nothing is trained"),
    ],
)
def test_bad_input_is_one_sentence(
    table: dict[str, Any], changes: dict[str, Any], arguments: dict[str, Any], message: str
) -> None:
    table["train"] |= changes
    with pytest.raises(UserError, match=message):
        plan(table, **{"world_size": 2, **arguments})


def test_names_say_the_memory() -> None:
    for name, accelerator in ACCELERATORS.items():
        assert name == accelerator.name
        assert name.endswith(f"-{accelerator.gigabytes}GB")
        assert accelerator.bytes == accelerator.gigabytes * GB


def test_the_command_prints_it(table: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    Path("large.json").write_text(json.dumps(table))
    Path("large.toml").write_text(
        "\n".join(
            line
            for key, value in table.items()
            if isinstance(value, dict)
            for line in (f"[{key}]", *(f"{k} = {json.dumps(v)}" for k, v in value.items()))
        )
    )
    command = ["validate", "large.toml", "--world-size", "64", "--device", "h100-80gb"]
    app(command, standalone_mode=False)
    shown = capsys.readouterr().out
    for word in ("64 × H100-80GB", "ddp", "fsdp", "activations", "fits", "yes", "sent in a step"):
        assert word in shown
    app([*command, "--json"], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)
    assert [option["parallel"] for option in found["options"]] == ["ddp", "fsdp"]
    assert all(
        option["fits"] and option["total"] > option["parameters"] for option in found["options"]
    )


SIZES = {"layers": 3, "heads": 2, "width": 64, "context": 64}


class Sent(TorchDispatchMode):
    """Bytes of the whole tensor of each collective, by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func.namespace == "c10d":
            tensors = [one for one in tree_leaves(args) if isinstance(one, torch.Tensor)]
            self.bytes[func._schema.name] += max(one.nbytes for one in tensors)
        return func(*args, **(kwargs or {}))


@pytest.fixture
def ranks() -> Iterator[int]:
    """A process group of which this process is one, and which sends nothing."""
    dist.init_process_group("fake", rank=0, world_size=64, store=FakeStore())
    yield 64
    dist.destroy_process_group()


def test_fsdp_sends_what_the_formula_says(ranks: int) -> None:
    family = Decoder(**SIZES)
    ids = np.zeros(64, np.int64)
    batch = collate([Example(ids, ids, np.ones(64, np.float32))], pad_id=0, rows=[0])
    mesh = init_device_mesh("cpu", (ranks,))
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    with without_kernels():
        model = family.build(vocabulary=100, seed=0).train()
        values = sum(p.numel() for p in model.parameters())
        in_blocks = sum(p.numel() for p in model.stack.parameters()) - 2 * family.width  # the norm
        for module in (*model.stack.blocks, model):
            fully_shard(module, mesh=mesh, mp_policy=policy)
        with Sent() as sent, torch.autocast("cpu", dtype=torch.bfloat16):
            loss = sum(term.sum for term in model(batch).values())
            loss.backward()
    gathered = sent.bytes["c10d::_allgather_base_"]
    scattered = sent.bytes["c10d::_reduce_scatter_base_"]
    # A first dimension that 64 ranks do not divide is padded.
    assert gathered == pytest.approx(2 * (values + in_blocks), rel=0.02)
    assert scattered == pytest.approx(4 * values, rel=0.02)
    assert gathered >= 2 * (values + in_blocks)
