"""Run the contracts of a part.

for result in check_part(ATTENTION.get("dot")): print(result.contract, result.passed)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from pydantic import ValidationError

from regard.attention.kinds import AttentionKind
from regard.attention.positions import PositionKind
from regard.contracts import declarations, decoding, dropout  # noqa: F401 (each adds its contracts)
from regard.contracts.attention import ATTENTION_CONTRACTS
from regard.contracts.case import AttentionCase, attention_cases
from regard.contracts.contract import Contract, OnResult, Result, ignore_result, run_contract
from regard.contracts.positions import (
    INSIDE_ATTENTION,
    POSITION_CONTRACTS,
    PositionCase,
    position_cases,
    relative_position_cases,
)
from regard.core.catalog import Entry
from regard.core.errors import UserError

Check = Callable[[str, int], Result]
"From a seed and a number of cases."


def check_part(
    entry: Entry,
    *,
    configurations: int = 50,
    seed: int = 0,
    only: Collection[str] | None = None,
    on_result: OnResult = ignore_result,
) -> list[Result]:
    """The result of each contract, or of `only` these; empty if its catalogue has no contracts."""
    checks_by_catalog = {"attention": _attention_checks, "position": _position_checks}
    if entry.catalog not in checks_by_catalog:
        return []
    _refuse_unbuildable(entry)
    results = []
    with _one_thread():
        for name, check in checks_by_catalog[entry.catalog](entry).items():
            if only is None or name in only:
                results.append(check(f"{seed}/{name}", configurations))
                on_result(results[-1])
    return results


@contextmanager
def _one_thread() -> Iterator[None]:
    """Tensors this small are slower with two threads, on a busy machine far slower."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _attention_checks(entry: Entry) -> Mapping[str, Check]:
    """The contracts of attention; a kind must fail those that it declares to fail."""
    part: type[AttentionKind] = entry.part  # type: ignore[assignment]

    def check(contract: Contract[AttentionCase], seed: str, count: int) -> Result:
        cases = attention_cases(part, seed=seed, count=count, sizes=contract.sizes)
        return run_contract(contract, cases, expected_to_fail=contract.name in part.traits.fails)

    return {contract.name: partial(check, contract) for contract in ATTENTION_CONTRACTS}


def _position_checks(entry: Entry) -> Mapping[str, Check]:
    """The contracts of positions, then those of attention with this position inside."""
    part: type[PositionKind] = entry.part  # type: ignore[assignment]

    def check(contract: Contract[PositionCase], seed: str, count: int) -> Result:
        cases = position_cases(part, seed=seed, count=count, sizes=contract.sizes)
        return run_contract(contract, cases)

    def check_inside(contract: Contract[AttentionCase], seed: str, count: int) -> Result:
        cases = relative_position_cases(part, contract, seed=seed, count=count)
        return run_contract(contract, cases)

    alone = {contract.name: partial(check, contract) for contract in POSITION_CONTRACTS}
    return alone | {
        name: partial(check_inside, ATTENTION_CONTRACTS[name]) for name in INSIDE_ATTENTION
    }


def _refuse_unbuildable(entry: Entry) -> None:
    """A part that cannot be instantiated is refused once, before any contract."""
    base = {"attention": AttentionKind, "position": PositionKind}[entry.catalog]
    what = f"{entry.catalog} {entry.name!r}"
    if not (isinstance(entry.part, type) and issubclass(entry.part, base)):
        raise _error(
            entry, f"{what} is not a class of {base.__name__}", f"Derive it: ({base.__name__})"
        )
    if base is AttentionKind and not hasattr(entry.part, "traits"):
        raise _error(entry, f"{what} declares no traits", "Register it with @kind(…)")
    try:
        entry.part()
    except TypeError as problem:  # an abstract method is not implemented
        raise _error(
            entry, f"{what} cannot be built: {problem}", "Implement what is missing"
        ) from None
    except ValidationError as problem:
        key = ".".join(str(step) for step in problem.errors()[0]["loc"]) or "a setting"
        raise _error(
            entry,
            f"{what} cannot be built from its defaults: {key} has none that is allowed",
            "Give every setting a default, so that the name alone is enough in a recipe",
        ) from None


def _error(entry: Entry, what: str, hint: str) -> UserError:
    return UserError(what, topic="check", where=entry.source, hint=f"{hint}.")
