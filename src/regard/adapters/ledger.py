"""The ledger of an adapted model: every trained tensor, checked against the formula of its count.

    total over the tensors = Σ counts of the adapter (from settings alone) + counts of the task head

If the two differ the ledger is an error, never a table: either regard is wrong, or a custom module
has no formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from regard.adapters import ADAPTERS, Adapter, used_family
from regard.core.errors import UserError
from regard.core.ledger import Ledger, ParameterCount, TrainedTensor, total_parameters
from regard.core.settings import catalog_name
from regard.models.families import Family
from regard.models.model import Model


@runtime_checkable
class CountsParameters(Protocol):
    """A head with a formula for its parameter count."""

    def count_parameters(self) -> list[ParameterCount]: ...


def ledger(
    model: Model,
    adapter: Adapter,
    family: Family,
    *,
    vocabulary: int,
    head_counts: Sequence[ParameterCount] | None = None,
) -> Ledger:
    """The ledger of a model that the adapter was applied to; `head_counts` default to the head's
    own."""
    rows = tuple(
        TrainedTensor(name, tuple(tensor.shape), tensor.numel())
        for name, tensor in trained_tensors(model).items()
    )
    terms = list(adapter.count_parameters(used_family(model, family), vocabulary=vocabulary))
    head = model.task_head
    if head is not None and any(parameter.requires_grad for parameter in head.parameters()):
        terms += _count_head(head) if head_counts is None else head_counts
    total = sum(row.count for row in rows)
    if total_parameters(terms) != total:
        kind = catalog_name(adapter, ADAPTERS)
        formula = " + ".join(f"{term.name} {term.formula} = {term.value:,}" for term in terms)
        raise UserError(
            f"adapt.kind = {kind!r} trains {total:,} parameters by its tensors and "
            f"{total_parameters(terms):,} by its formula ({formula or 'nothing'})",
            topic="ledger",
            hint="A custom module has to count its parameters; otherwise this is a bug in regard: "
            "please report it.",
        )
    of = sum(parameter.numel() for parameter in model.parameters())
    return Ledger(catalog_name(adapter, ADAPTERS), rows, total, of, tuple(terms))


def trained_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The trainable parameters by name; a tied tensor goes by its first name."""
    return {
        name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad
    }


def _count_head(head: nn.Module) -> list[ParameterCount]:
    if isinstance(head, CountsParameters):
        return head.count_parameters()
    count = sum(parameter.numel() for parameter in head.parameters())
    return [ParameterCount("custom head", "counted: it has no formula", count)]
