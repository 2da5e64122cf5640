"""Run the contracts of a part.

for result in check_part(ATTENTION.get("dot")): print(result.contract, result.passed)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from pydantic import ValidationError

from regard.attention.kinds import AttentionKind
from regard.attention.positions import PositionKind
from regard.contracts import declarations, decoding, dropout  # noqa: F401 (each adds its contracts)
from regard.contracts.attention import ATTENTION_CONTRACTS
from regard.contracts.case import attention_cases
from regard.contracts.contract import Contract, OnResult, Result, ignore_result, run_contract
from regard.contracts.positions import (
    INSIDE_ATTENTION,
    POSITION_CONTRACTS,
    position_cases,
    relative_position_cases,
)
from regard.core.catalog import Entry
from regard.core.errors import UserError

CaseFunction = Callable[..., Iterator[Any]]
"From a seed, a number of cases and their sizes."
BASES = {"attention": AttentionKind, "position": PositionKind}
"Catalogues with contracts, and the class that their parts derive from."


def check_part(
    entry: Entry,
    *,
    configurations: int = 50,
    seed: int = 0,
    only: Collection[str] | None = None,
    on_result: OnResult = ignore_result,
) -> list[Result]:
    """The result of each contract, or of `only` these; empty if its catalogue has no contracts."""
    if entry.catalog not in BASES:
        return []
    _refuse_unbuildable(entry)
    part: Any = entry.part
    declared_to_fail = part.traits.fails if entry.catalog == "attention" else ()
    results = []
    with _one_thread():
        for contract, draw_cases in _checks(entry.catalog, part):
            name = contract.name
            if only is None or name in only:
                cases = draw_cases(
                    seed=f"{seed}/{name}", count=configurations, sizes=contract.sizes
                )
                results.append(
                    run_contract(contract, cases, expected_to_fail=name in declared_to_fail)
                )
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


def _checks(catalog: str, part: Any) -> list[tuple[Contract[Any], CaseFunction]]:
    """Each contract with the cases it is checked on; a position also inside attention."""
    if catalog == "attention":
        cases = partial(attention_cases, part)
        return [(contract, cases) for contract in ATTENTION_CONTRACTS.values()]
    alone, inside = partial(position_cases, part), partial(relative_position_cases, part)
    return [
        *((contract, alone) for contract in POSITION_CONTRACTS.values()),
        *((ATTENTION_CONTRACTS[name], inside) for name in INSIDE_ATTENTION),
    ]


def _refuse_unbuildable(entry: Entry) -> None:
    """A part that cannot be instantiated is refused once, before any contract."""
    base = BASES[entry.catalog]
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
