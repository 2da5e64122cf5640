"""`train.compile`: equal to eager within rounding, whole blocks, one graph for all layers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tests.journeys.workspace import TINY, Workspace, generated_text
from torch._dynamo.utils import counters

from regard.batch import Batch, Example, collate
from regard.core.errors import UserError
from regard.core.settings import read_settings
from regard.models.families.decoder import Decoder
from regard.training import compiled
from regard.training.compiled import (
    COMPILED_REMARK,
    check_compilable,
    compile_blocks,
    compile_errors_named,
    has_cpu_compiler,
)
from regard.training.device import choose_machine
from regard.training.loop import update
from regard.training.optimizer import build_optimizer
from regard.training.settings import Train

STEPS = 4
SIZES = {"layers": 2, "heads": 2, "width": 64, "context": 64}
TRACED = "aot_eager"
"A backend that compiles nothing: it needs no compiler, and traces what inductor would compile."
needs_compiler = pytest.mark.skipif(not has_cpu_compiler(), reason="there is no C++ compiler")


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def batches() -> list[Batch]:
    generator = np.random.default_rng(0)
    rows = generator.integers(7, 100, (STEPS, 4, 65))
    return [
        collate(
            [Example(ids[:-1], ids[1:], np.ones(64, np.float32)) for ids in step],
            pad_id=0,
            rows=range(4),
        )
        for step in rows
    ]


def losses(table: dict[str, Any], *, backend: str | None) -> list[float]:
    settings, machine = Train(), choose_machine("cpu", threads=torch.get_num_threads())
    family: Decoder = read_settings(Decoder, SIZES | table)
    model = family.build(vocabulary=100, seed=0).train()
    if backend is not None:
        compile_blocks(model, backend=backend)
    optimizer = build_optimizer(model, settings)
    return [
        update(model, optimizer, batch, step=i, lr=1e-2, settings=settings, machine=machine)[0]
        for i, batch in enumerate(batches(), start=1)
    ]


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize(
    "table",
    [{}, {"norm": "rms", "activation": "swiglu", "positions": {"kind": "rotary"}, "tied": False}],
)
def test_compiled_steps_equal_eager_ones(table: dict[str, Any]) -> None:
    assert losses(table, backend="inductor") == pytest.approx(losses(table, backend=None), rel=1e-5)


@pytest.mark.parametrize(
    "table",
    [
        {},
        pytest.param(
            {"positions": {"kind": "rotary"}, "key_value_heads": 1, "norm": "rms"},
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"across_documents": False, "attention": {"kind": "additive"}}, marks=pytest.mark.long
        ),
    ],
)
def test_a_block_is_one_graph_for_all_layers_and_steps(table: dict[str, Any]) -> None:
    expected = losses(table, backend=None)
    assert losses(table, backend=TRACED) == pytest.approx(expected, rel=1e-5)
    assert not counters["graph_break"]
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.long
def test_dropout_is_drawn_anew_and_the_same_again() -> None:
    first, second = (losses({"dropout": 0.5}, backend=TRACED) for _ in range(2))
    assert first == second
    assert first != losses({}, backend=TRACED)
    assert len(set(first)) == STEPS


def test_evaluation_and_names_stay_eager() -> None:
    model = Decoder(**SIZES).build(vocabulary=100, seed=0)
    names = list(model.state_dict())
    compile_blocks(model, backend=TRACED)
    assert list(model.state_dict()) == names
    [batch, *_] = batches()
    with torch.no_grad():
        model.eval()(batch)
    assert not counters["stats"]
    model.train()(batch)
    assert counters["stats"]["unique_graphs"] == 1


def test_what_cannot_be_compiled_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Decoder(**SIZES).build(vocabulary=100, seed=0)
    check_compilable(Train(), model, device="cpu")  # not asked for
    wanted = Train(compile=True)
    for settings, device, reason in (
        (Train(compile=True, batches="bucketed"), "cpu", "rows of many lengths"),
        (wanted, "mps", "Apple's GPUs"),
    ):
        with pytest.raises(UserError, match=f"train.compile = true is not possible.*{reason}"):
            check_compilable(settings, model, device=device)
    with pytest.raises(UserError, match="gathers blocks"):
        check_compilable(Train(compile=True, parallel="fsdp"), model, device="cpu", ranks=2)
    monkeypatch.setattr(compiled.shutil, "which", lambda _: None)
    with pytest.raises(UserError, match=r"there is no C\+\+ compiler"):
        check_compilable(wanted, model, device="cpu")


def test_a_block_that_reads_values_is_refused() -> None:
    class Reads(torch.nn.Module):
        def forward(self, x: torch.Tensor, **_: Any) -> torch.Tensor:
            return x * 2 if x.sum().item() > 0 else x

    model = Decoder(**SIZES).build(vocabulary=100, seed=0).train()
    model.stack.blocks[1].mlp = Reads()
    compile_blocks(model, backend=TRACED)
    with (
        pytest.raises(UserError, match="a block of this model cannot be compiled"),
        compile_errors_named(),
    ):
        model(batches()[0])


@needs_compiler
@pytest.mark.long
def test_a_compiled_training_says_so_and_a_missing_compiler_ends_it(tmp_path: Any) -> None:
    workspace = Workspace(tmp_path)
    workspace.write("generated.txt", generated_text(300))
    recipe = TINY | {"train": TINY["train"] | {"compile": True, "batches": "packed"}}
    workspace.write("tiny.json", json.dumps(recipe))
    script = (
        "import json, regard; table = json.load(open('tiny.json')); "
        "run = regard.train(table, out='runs/a'); "
        "print(json.dumps([list(run.results().remarks), table['train']['compile']]))"
    )
    environment = os.environ | {"REGARD_CACHE": str(tmp_path / "cache")}
    environment.pop(compiled.LIBRARY_VARIABLE, None)
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert COMPILED_REMARK in done.stdout
    made = [file for file in (tmp_path / "cache" / "inductor").rglob("*") if file.is_file()]
    assert [file for file in made if file.suffix == ".so"]
    assert not [file for file in made if file.read_bytes()[:1] == b"\x80"]  # how a pickle begins
    assert "compile = true" in (tmp_path / "runs/a/recipe.toml").read_text()
    missing = subprocess.run(
        [sys.executable, "-c", script.replace("runs/a", "runs/b")],
        cwd=tmp_path,
        env=environment | {"PATH": "", "CXX": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "there is no C++ compiler" in missing.stderr
    assert not (tmp_path / "runs/b").exists()
