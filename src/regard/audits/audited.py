"""`@regard.audited`: mark a function that makes a model, for `pytest --regard-audit`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import isfunction
from typing import Any, TypeVar, overload

from regard.core.errors import UserError

Factory = TypeVar("Factory", bound=Callable[..., Any])

ATTRIBUTE = "__regard_audit__"
"Holds the request on a marked function."


@dataclass(frozen=True)
class AuditRequest:
    """How the model is audited: the arguments of `regard.audit`."""

    mask: Any = None
    sample: Any = None
    lengths: Sequence[int] | None = None
    seed: int = 0


@overload
def audited(factory: Factory, /) -> Factory: ...
@overload
def audited(
    *, mask: Any = ..., sample: Any = ..., lengths: Sequence[int] | None = ..., seed: int = ...
) -> Callable[[Factory], Factory]: ...
def audited(
    factory: Callable[..., Any] | None = None,
    /,
    *,
    mask: Any = None,
    sample: Any = None,
    lengths: Sequence[int] | None = None,
    seed: int = 0,
) -> Any:
    """Mark a function that returns a model: `pytest --regard-audit` audits what it returns.

    The arguments are those of `regard.audit`; the function itself stays as it is.
    """
    request = AuditRequest(mask, sample, lengths, seed)

    def mark(marked: Factory) -> Factory:
        if not isfunction(marked):
            # A class would hand its mark on to subclasses and instances.
            raise UserError(
                f"audited marks a function that returns a model, and this is of type "
                f"{type(marked).__name__}",
                topic="audit",
                hint="Write a function that makes the model, and mark it below other decorators.",
            )
        setattr(marked, ATTRIBUTE, request)
        return marked

    return mark if factory is None else mark(factory)


def audit_request(value: object) -> AuditRequest | None:
    """The request of a marked function; None of anything else."""
    # Some objects, such as mocks, have any attribute that they are asked for.
    request = getattr(value, ATTRIBUTE, None) if callable(value) else None
    return request if isinstance(request, AuditRequest) else None
