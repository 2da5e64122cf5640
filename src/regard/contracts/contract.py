"""A contract: one thing every part of a sort owes, tried on many random cases.

A contract is a function of a case that raises `ContractViolation` with the numbers. A part that is
broken on purpose names the contracts it fails, and then has to fail them: a declaration that is not
true counts as a failure too.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from regard.core.errors import UserError

AnyCase = TypeVar("AnyCase")
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}
"How far two ways to the same answer may differ, as a share of the largest value (or of 1)."
MAX_TOLERANCE = 1e-3
"What rounding may excuse at most, where it is blown up: beyond this it is another answer."


class ContractViolation(Exception):  # noqa: N818 (what it says: not an error of ours)
    """A part does not do what it owes; the sentence shows the numbers."""


class NotApplicable(Exception):  # noqa: N818
    """The part declares that it does not offer this, so it does not owe it."""


@dataclass(frozen=True)
class CaseSizes:
    """How large the cases of a contract are: enough to show a fault, small enough to be quick."""

    lengths: tuple[int, ...]
    heads: tuple[int, ...] = (1, 2, 3, 4, 1, 2, 3, 4, 8)
    head_widths: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 16, 32)
    batch: int = 3
    "At most so many rows."


TINY = CaseSizes((1, 2, 3, 4), heads=(1, 2), head_widths=(1, 2), batch=2)
DEFAULT = CaseSizes((*range(1, 10), *range(1, 10), 12, 17, 24, 31))
LONG = CaseSizes((*DEFAULT.lengths, *DEFAULT.lengths, 40, 63, 64, 65, 128, 129, 150), batch=2)
"Some reach over the borders of blocks, stripes and chunks."
MAX_WIDE_LENGTH = max(DEFAULT.lengths)
"Longer rows have few, narrow heads: a case stays quick."


@dataclass(frozen=True)
class Contract(Generic[AnyCase]):
    name: str
    statement: str
    "One line: what is owed."
    holds: Callable[[AnyCase], str | None]
    "Raises where it does not; may tell something seen on the way, such as the path taken."
    sizes: CaseSizes = DEFAULT


@dataclass(frozen=True)
class Result:
    """How a part stands to one contract."""

    contract: str
    statement: str
    passed: bool
    expected_to_fail: bool
    sentence: str
    "What was broken, with its numbers; or why it was not asked."
    configurations: int
    "Cases tried until it failed, or all of them; 0: not asked."
    seen: tuple[str, ...] = ()

    @property
    def is_as_declared(self) -> bool:
        return self.passed != self.expected_to_fail

    @property
    def is_not_applicable(self) -> bool:
        return self.is_as_declared and not self.configurations

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"as_declared": self.is_as_declared}


OnResult = Callable[[Result], None]


def ignore_result(result: Result) -> None:
    """Nobody watches."""


class Contracts(Generic[AnyCase]):
    """The contracts of one sort of parts, by name, in the order in which they are checked."""

    def __init__(self) -> None:
        self._named: dict[str, Contract[AnyCase]] = {}

    def add(
        self, name: str, *, sizes: CaseSizes = DEFAULT
    ) -> Callable[[Callable[[AnyCase], str | None]], Callable[[AnyCase], str | None]]:
        """Decorator: the function's first line of documentation says what is owed."""

        def register(holds: Callable[[AnyCase], str | None]) -> Callable[[AnyCase], str | None]:
            statement = (holds.__doc__ or "").partition("\n")[0]
            self._named[name] = Contract(name, statement, holds, sizes)
            return holds

        return register

    def __iter__(self) -> Iterator[Contract[AnyCase]]:
        return iter(self._named.values())

    def __getitem__(self, name: str) -> Contract[AnyCase]:
        return self._named[name]

    def names(self) -> list[str]:
        return list(self._named)


def judge(
    contract: Contract[AnyCase], cases: Iterator[AnyCase], *, expected_to_fail: bool = False
) -> Result:
    """Try cases until one breaks the contract."""
    seen: set[str] = set()
    tried = 0

    def result(passed: bool, sentence: str) -> Result:
        return Result(
            contract.name,
            contract.statement,
            passed,
            expected_to_fail,
            sentence,
            tried,
            tuple(sorted(seen)),
        )

    try:
        for case in cases:
            tried += 1
            if told := contract.holds(case):
                seen.add(told)
    except NotApplicable as reason:
        tried = 0
        return result(True, f"not asked: {reason}")
    except ContractViolation as broken:
        return result(False, str(broken))
    except UserError as refusal:
        return result(False, f"refused what it declares: {refusal}")
    except Exception as problem:  # the part is somebody's own code: whatever it raises is its fault
        return result(False, _raised(problem))
    return result(True, "declared to fail, and holds everywhere" if expected_to_fail else "")


def check_equal(
    got: Tensor, expected: Tensor, *, what: str, case: object, tolerance: float | None = None
) -> None:
    """Equal to within `TOLERANCE`; `what` is a plural: "outputs", "gradients of x"."""
    if got.shape != expected.shape:
        raise ContractViolation(
            f"{what} have shape {tuple(got.shape)}, not {tuple(expected.shape)} ({case})"
        )
    if not got.numel():
        return
    apart = distance(got, expected)
    tolerance = TOLERANCE[expected.dtype] if tolerance is None else tolerance
    if not apart <= tolerance:  # a NaN is never within
        raise ContractViolation(f"{what} differ by {apart:.2g}, allowed {tolerance:.2g} ({case})")


def distance(got: Tensor, expected: Tensor) -> float:
    """The largest difference, as a share of the largest expected value or of 1."""
    got, expected = got.detach(), expected.detach()
    scale = max(1.0, float(expected.abs().max()))
    return float((got - expected).abs().max()) / scale


def _raised(problem: Exception) -> str:
    """`my_kind.py, line 33 raises RuntimeError: …`: the last line that is not ours or torch's."""
    own = [
        frame
        for frame in traceback.extract_tb(problem.__traceback__)
        if not Path(frame.filename).is_relative_to(Path(__file__).parent)
        and not Path(frame.filename).is_relative_to(Path(torch.__file__).parent)
    ]
    at = f"{Path(own[-1].filename).name}, line {own[-1].lineno}" if own else "it"
    words = str(problem).strip().partition("\n")[0]
    return f"{at} raises {type(problem).__name__}: {words}"
