"""Two ranks train what one process trains: parameters within 1e-9 in float64, losses within 1e-5 in
float32, whatever is trained and however it is divided."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.training.parallel.rank_processes import finish, start_ranks
from tests.training.parallel.step_cases import CASES, losses_of, model_of

from regard.training.checkpoint import model_tensors
from regard.training.compiled import has_cpu_compiler

SHORT = (
    "ddp/encoder, accumulated",
    "ddp/LoRA",
    "ddp/negatives",
    "ddp/decoder, fewer rows than ranks",
    "ddp/nan",
    "fsdp/decoder, accumulated",
    "fsdp/encoder-decoder",
    "fsdp/nan",
)
IN_BF16 = "decoder in bf16"
COMPILED = ("decoder, traced blocks", "decoder, compiled blocks")
ALL = [
    f"{parallel}/{case}"
    for parallel in ("ddp", "fsdp")
    for case in (*CASES, "nan")
    if case not in (IN_BF16, *COMPILED)
]
MODULE = "tests.training.parallel.step_cases"


def run_cases(folder: Path, names: Sequence[str], *, size: int = 2) -> None:
    ranks = start_ranks(["-m", MODULE, str(folder), *names], size=size)
    for code, _, errors in finish(ranks):
        assert code == 0, errors


def check_case(folder: Path, name: str, *, size: int = 2) -> None:
    case = name.partition("/")[2]
    file = folder / name.replace("/", "-")
    if case == "nan":
        said = [file.with_suffix(f".{rank}").read_text() for rank in range(size)]
        assert len(set(said)) == 1
        assert "the loss is not finite at step 1 (batch of" in said[0]
        assert said[0].endswith("kept")
        return
    losses, model = losses_of(CASES[case], None)
    divided = json.loads(file.with_suffix(".json").read_text())
    assert divided == pytest.approx(losses, abs=1e-5)
    moved = [
        not torch.equal(one, other)
        for one, other in zip(model.parameters(), model_of(CASES[case]).parameters(), strict=True)
    ]
    assert any(moved)
    weights, expected = load_file(file.with_suffix(".safetensors")), model_tensors(model)
    assert weights.keys() == expected.keys()
    if CASES[case].dtype == torch.float64:
        for key, tensor in expected.items():
            assert torch.allclose(weights[key], tensor, rtol=0, atol=1e-9), key


@pytest.fixture(scope="module")
def short_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    run_cases(folder, SHORT)
    return folder


@pytest.mark.parametrize("name", SHORT)
def test_two_ranks_train_what_one_process_trains(name, short_folder):
    check_case(short_folder, name)


@pytest.mark.long
@pytest.mark.parametrize("size", [2, 3])
def test_ranks_train_what_one_process_trains(size, tmp_path):
    """Three ranks cut most parameters unevenly, and leave some of them none."""
    run_cases(tmp_path, ALL, size=size)
    for name in ALL:
        check_case(tmp_path, name, size=size)


@pytest.mark.long
@pytest.mark.usefixtures("bf16_matmul")
def test_ranks_in_bf16_train_as_one_process_but_for_rounding(tmp_path):
    names = [f"{parallel}/{IN_BF16}" for parallel in ("ddp", "fsdp")]
    run_cases(tmp_path, names)
    losses, _ = losses_of(CASES[IN_BF16], None)
    for name in names:
        file = tmp_path / name.replace("/", "-")
        assert json.loads(file.with_suffix(".json").read_text()) == pytest.approx(losses, rel=0.02)
        weights = load_file(file.with_suffix(".safetensors"))
        assert {tensor.dtype for tensor in weights.values()} == {torch.float32}


@pytest.mark.long
@pytest.mark.parametrize("case", COMPILED)
def test_ranks_with_compiled_blocks_train_as_one_eager_process(case, tmp_path):
    if CASES[case].compiled == "inductor" and not has_cpu_compiler():
        pytest.skip("there is no C++ compiler")
    run_cases(tmp_path, [f"ddp/{case}"])
    check_case(tmp_path, f"ddp/{case}")
