"""The ledger of an adapted model: every tensor that is trained, and the formula that foretold it.

    total of the tensors = Σ terms of the adapter (from settings alone) + terms of the task's head

If the two differ the ledger is an error, never a table: then either regard is wrong, or a part of a
person's own has no formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from regard.adapters import ADAPTERS, Adapter, family_read
from regard.core.count import Term, total
from regard.core.errors import UserError
from regard.core.settings import name_of
from regard.models.families import Family
from regard.models.model import Model
from regard.models.task_models.task_model import TaskModel


@dataclass(frozen=True)
class TrainedTensor:
    """One tensor that is trained."""

    name: str
    shape: tuple[int, ...]
    count: int


@dataclass(frozen=True)
class Ledger:
    """What is trained of a model."""

    adapter: str
    "Its name."
    rows: tuple[TrainedTensor, ...]
    total: int
    "Parameters that are trained."
    of: int
    "Parameters that the model has, those that were added among them."
    terms: tuple[Term, ...]
    "Formulas whose sum is the total."
    is_foretold: bool = False
    "Whether this is what would be trained, of a model that nothing was trained of here."

    @property
    def share(self) -> float:
        return self.total / self.of if self.of else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "share": self.share}


@runtime_checkable
class CountsParameters(Protocol):
    """A head that tells how many parameters it has."""

    def terms(self) -> list[Term]: ...


def ledger(
    model: Model,
    adapter: Adapter,
    family: Family,
    *,
    vocabulary: int,
    head_terms: Sequence[Term] | None = None,
) -> Ledger:
    """Of a model that the adapter was applied to; the head is asked for its terms where they are
    not given."""
    rows = tuple(
        TrainedTensor(name, tuple(tensor.shape), tensor.numel())
        for name, tensor in trained_tensors(model).items()
    )
    terms = list(adapter.terms(family_read(model, family), vocabulary=vocabulary))
    head = model.head if isinstance(model, TaskModel) else None
    if head is not None and any(one.requires_grad for one in head.parameters()):
        terms += _head_terms(head) if head_terms is None else head_terms
    counted = sum(row.count for row in rows)
    if total(terms) != counted:
        kind = name_of(adapter, ADAPTERS)
        told = " + ".join(f"{term.name} {term.formula} = {term.value:,}" for term in terms)
        raise UserError(
            f"adapt.kind = {kind!r} trains {counted:,} parameters by its tensors and "
            f"{total(terms):,} by its formula ({told or 'nothing'})",
            topic="ledger",
            hint="A part of your own has to tell its parameters; otherwise this is a bug in "
            "regard: please report it.",
        )
    whole = sum(parameter.numel() for parameter in model.parameters())
    return Ledger(name_of(adapter, ADAPTERS), rows, counted, whole, tuple(terms))


def trained_tensors(model: nn.Module) -> dict[str, Tensor]:
    """What is trained, by name; a tensor that two names share goes by the first."""
    return {name: one for name, one in model.named_parameters() if one.requires_grad}


def _head_terms(head: nn.Module) -> list[Term]:
    if isinstance(head, CountsParameters):
        return head.terms()
    count = sum(one.numel() for one in head.parameters())
    return [Term("head, of one's own", "counted: it tells no formula", count)]
