"""Contracts: properties that every part of a catalogue must have, checked on random cases.

A contract is a function of a case that raises `ContractViolation` with the measured values. A part
that is broken on purpose declares the contracts it fails, and must fail them: a declared failure
that does not occur counts as a failure too.
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
"Maximum difference between two paths, relative to the largest absolute value (or to 1)."
MAX_TOLERANCE = 1e-3
"Upper bound where rounding is amplified; a larger difference is never rounding."


class ContractViolation(Exception):  # noqa: N818 (the finding of a check, not an error of ours)
    """A part breaks a contract; the message holds the measured values."""


class NotApplicable(Exception):  # noqa: N818
    """The part does not declare what this contract checks."""


@dataclass(frozen=True)
class CaseSizes:
    """Sizes to draw cases from: large enough to expose a fault, small enough to be fast."""

    lengths: tuple[int, ...]
    heads: tuple[int, ...] = (1, 2, 3, 4, 1, 2, 3, 4, 8)
    head_widths: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 16, 32)
    batch: int = 3
    "Maximum batch size in rows."


TINY = CaseSizes((1, 2, 3, 4), heads=(1, 2), head_widths=(1, 2), batch=2)
DEFAULT = CaseSizes((*range(1, 10), *range(1, 10), 12, 17, 24, 31))
LONG = CaseSizes((*DEFAULT.lengths, *DEFAULT.lengths, 40, 63, 64, 65, 128, 129, 150), batch=2)
"Some lengths cross the borders of blocks, stripes and chunks."
MAX_WIDE_LENGTH = max(DEFAULT.lengths)
"Longer rows get few, narrow heads, so that a case stays fast."


@dataclass(frozen=True)
class Contract(Generic[AnyCase]):
    name: str
    statement: str
    "One line: the property that must hold."
    check: Callable[[AnyCase], str | None]
    "Raises `ContractViolation`; may return an observation, such as the path taken."
    sizes: CaseSizes = DEFAULT


@dataclass(frozen=True)
class Result:
    """The result of one contract for one part."""

    contract: str
    statement: str
    passed: bool
    expected_to_fail: bool
    sentence: str
    "How it was broken, with the measured values; or why it is not applicable."
    configurations: int
    "Number of cases tried, up to the first that failed; 0: not applicable."
    seen: tuple[str, ...] = ()
    "Observations that the contract returned, such as the paths taken."

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
    """The default callback: does nothing."""


class Contracts(dict[str, Contract[AnyCase]]):
    """The contracts of one catalogue by name, in the order in which they are checked."""

    def add(
        self, name: str, *, sizes: CaseSizes = DEFAULT
    ) -> Callable[[Callable[[AnyCase], str | None]], Callable[[AnyCase], str | None]]:
        """Decorator; the first line of the function's docstring is the contract's statement."""

        def register(check: Callable[[AnyCase], str | None]) -> Callable[[AnyCase], str | None]:
            statement = (check.__doc__ or "").partition("\n")[0]
            self[name] = Contract(name, statement, check, sizes)
            return check

        return register


def run_contract(
    contract: Contract[AnyCase], cases: Iterator[AnyCase], *, expected_to_fail: bool = False
) -> Result:
    """Check cases until one breaks the contract."""
    seen: set[str] = set()
    tried = 0
    case: object = None

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
            if observation := contract.check(case):
                seen.add(observation)
    except NotApplicable as reason:
        tried = 0
        return result(True, f"not applicable: {reason}")
    except ContractViolation as violation:
        return result(False, str(violation))
    except UserError as refusal:
        return result(False, f"refuses what it declares: {refusal}")
    except Exception as problem:  # the part may be the user's code: whatever it raises is its fault
        # Where a case could not even be built, the exception's note says of what.
        notes = [*getattr(problem, "__notes__", ()), *([str(case)] if case is not None else ())]
        configuration = f" ({notes[0]})" if notes else ""
        return result(False, _describe_exception(problem) + configuration)
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
    difference = relative_difference(got, expected)
    tolerance = TOLERANCE[expected.dtype] if tolerance is None else tolerance
    if not difference <= tolerance:  # NaN fails too
        raise ContractViolation(
            f"{what} differ by {difference:.2g}, allowed {tolerance:.2g} ({case})"
        )


def relative_difference(got: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest expected absolute value or to 1."""
    got, expected = got.detach(), expected.detach()
    scale = max(1.0, float(expected.abs().max()))
    return float((got - expected).abs().max()) / scale


def _describe_exception(problem: Exception) -> str:
    """`my_kind.py, line 33 raises RuntimeError: …`: the last frame outside torch and this
    package."""
    frames = [
        frame
        for frame in traceback.extract_tb(problem.__traceback__)
        if not Path(frame.filename).is_relative_to(Path(__file__).parent)
        and not Path(frame.filename).is_relative_to(Path(torch.__file__).parent)
    ]
    where = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else "it"
    first_line = str(problem).strip().partition("\n")[0]
    return f"{where} raises {type(problem).__name__}: {first_line}"
