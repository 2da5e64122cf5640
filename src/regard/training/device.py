"""Device, precision and threads of a run, on which its bitwise results depend: chosen once and
recorded."""

from __future__ import annotations

import platform
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass

import torch

from regard import __version__
from regard.core.errors import UserError
from regard.core.process.cpu import bf16_matmul_works, cpu_name, usable_cores
from regard.core.process.malloc_tuning import tune_malloc
from regard.ops.cpu import library

DEVICES = ("cpu", "cuda", "mps")


@dataclass(frozen=True)
class Machine:
    """Hardware and software that a run computes with."""

    device: str
    precision: str
    "fp32, or bf16: matrix products in bfloat16, by torch's autocast; weights and sums stay fp32."
    threads: int
    products: str
    "Matrix-product kernels: torch's, or regard's and which of them."
    torch: str
    python: str
    platform: str
    regard: str
    cpu: str
    "As its maker calls it: bits may differ between kinds."
    ranks: int = 1
    "Processes that train together."
    parallel: str = "no"
    "What they share: no (one process), ddp (batches) or fsdp (the model too)."

    def as_dict(self) -> dict[str, str | int]:
        return asdict(self)

    def autocast(self) -> AbstractContextManager[object]:
        if self.precision == "bf16":
            return torch.autocast(torch.device(self.device).type, dtype=torch.bfloat16)
        return nullcontext()


def choose_machine(device: str, *, threads: int = 0, precision: str = "auto") -> Machine:
    """Choose the device and set this process's thread count (0: all cores); malloc is tuned to keep
    freed memory for the next step."""
    chosen = _choose_device(device)
    precision = _choose_precision(precision, chosen)
    torch.set_num_threads(threads or usable_cores())
    tune_malloc()
    return Machine(
        device=chosen,
        precision=precision,
        threads=torch.get_num_threads(),
        products=f"regard, {library.description()}"
        if library.LIBRARY and chosen == "cpu"
        else "torch",
        torch=torch.__version__,
        python=platform.python_version(),
        platform=platform.platform(terse=True),
        regard=__version__,
        cpu=cpu_name(),
    )


def _choose_device(device: str) -> str:
    chosen = best_device() if device == "auto" else device
    try:
        if torch.device(chosen).type not in DEVICES:
            raise RuntimeError(f"only {', '.join(DEVICES)} can train")
        if (number := torch.device(chosen).index) is not None:
            _check_number(torch.device(chosen).type, number)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as problem:  # which of them depends on the backend
        reason = str(problem).partition("\n")[0]
        raise UserError(
            f"train.device = {device!r} cannot be used here ({reason})",
            topic="recipe",
            hint='Set train.device = "auto".',
        ) from None
    return chosen


def _check_number(kind: str, number: int) -> None:
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if number >= count:
        last = f"the last one here is {kind}:{count - 1}" if count else f"there is no {kind} device"
        raise RuntimeError(last)


def _choose_precision(precision: str, device: str) -> str:
    if precision == "fp32" or (precision == "auto" and device == "cpu"):
        return "fp32"
    if bf16_matmul_works(device):
        return "bf16"
    if precision == "auto":
        return "fp32"
    raise UserError(
        f'train.precision = "bf16" cannot be used here: bfloat16 products fail on {device} '
        "(tried in a child process)",
        topic="recipe",
        hint='Set train.precision = "auto".',
    )


def best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
