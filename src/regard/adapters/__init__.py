"""Adapters: ways to fine-tune a pretrained model, one file each (full, head, LoRA, prompt, …).

An adapter freezes the model, inserts new parameters and marks what is trained; the head of a task
is always trained. Parameters that no loss depends on stay frozen under every adapter. What is
trained is also counted by formula from settings alone, which the ledger checks against the tensors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from regard.core.catalog import Catalog
from regard.core.errors import UserError
from regard.core.ledger import ParameterCount
from regard.core.settings import Settings, catalog_name
from regard.models.families import Family
from regard.models.model import Model, TokenModel

ADAPTERS = Catalog("adapter", home="regard.adapters")

SETTINGS_WITHOUT: dict[str, dict[str, Any]] = {
    "head.": {"head_transform": False, "tied": True},
    "pooler.": {"pooler": False},
    "boundary.": {"boundary": False},
}
"Modules of a body after its backbone, by name prefix, and the family settings without each."
OUTSIDE_BACKBONE = tuple(SETTINGS_WITHOUT)


class Adapter(Settings, ABC):
    """Settings of an adapter: which parameters are trained and which are added."""

    new_parameters: ClassVar[tuple[str, ...]] = ()
    "Last name components of the parameters it inserts."
    saves_adapter_only: ClassVar[bool] = True
    "Whether checkpoints hold only the trained tensors, to be loaded onto the base model."

    @property
    def virtual_tokens(self) -> int:
        """Virtual tokens, which reduce the context for tokens."""
        return 0

    def check_context(self, context: int) -> None:
        """Refuse virtual tokens that leave no context for a row's tokens."""

    def apply(self, model: Model, *, seed: int) -> None:
        """Freeze the model, insert the new parameters, make only the adapted ones trainable."""
        refuse_adapted(model)
        model.requires_grad_(False)
        self.adapt(model.body, seed=seed)
        model.body.context -= self.virtual_tokens
        model.context = model.body.context
        if model.task_head is not None:
            model.task_head.requires_grad_(True)
        for name, parameter in model.named_parameters():  # a tied table goes by its first name
            if name.startswith(model.unused_parameters):
                parameter.requires_grad_(False)
        model.saves_adapter_only = self.saves_adapter_only

    @abstractmethod
    def adapt(self, body: TokenModel, *, seed: int) -> None:
        """Insert parameters into the frozen body and unfreeze what is trained."""

    @abstractmethod
    def count_parameters(self, family: Family, *, vocabulary: int) -> list[ParameterCount]:
        """The trained parameters of the body, by formula; the family is `used_family`, without
        modules that no loss depends on."""

    def merge(self, model: Model) -> None:
        """Merge the new parameters into the weights; nothing to do for an adapter that trains the
        weights themselves, an error for one whose parameters cannot be merged."""


def used_family(model: Model, family: Family) -> Family:
    """The family's settings without the modules that no loss of the model depends on."""
    without: dict[str, Any] = {}
    for prefix in model.unused_parameters:
        without |= SETTINGS_WITHOUT[prefix.removeprefix("body.")]
    update = {name: value for name, value in without.items() if name in type(family).model_fields}
    return family.model_copy(update=update)


def refuse_adapted(model: Model) -> None:
    inserted = {name for one in ADAPTERS for name in getattr(one.part, "new_parameters", ())}
    names = (name for name, _ in model.named_parameters())
    found = next((name for name in names if name.rpartition(".")[2] in inserted), None)
    if found is not None:
        raise UserError(
            f"this model is adapted already: it has {found}",
            topic="adapt",
            hint="Merge that adapter first (LoRA can be merged), or take the model without it.",
        )


def no_blocks_error(adapter: Adapter) -> UserError:
    kind = catalog_name(adapter, ADAPTERS)
    return UserError(
        f"adapt.kind = {kind!r} works on the blocks of a Transformer, and this model has none",
        topic="adapt",
        hint='Adapt it by "full", "bias" or "lora".',
    )
