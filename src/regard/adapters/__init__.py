"""Every way to adapt a model that was trained before, one file each: what is trained, what is new.

An adapter freezes a model, puts in what is new and marks what is trained; the head of a task is
always trained. What no loss passes stays frozen under every adapter: it could learn nothing. What
is trained is also told as a formula from settings alone, which the ledger holds against the
tensors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from regard.core.catalog import Catalog
from regard.core.count import Term
from regard.core.errors import UserError
from regard.core.settings import Settings, name_of
from regard.models.families import Family
from regard.models.families.transformer import Transformer
from regard.models.model import Model
from regard.models.task_models.task_model import TaskModel

ADAPTERS = Catalog("adapter", home="regard.adapters")

NEW_PARAMETERS = ("prompt", "prefix", "lora_A", "lora_B")
"Last names of the parameters that adapters put into a model."
WITHOUT: dict[str, dict[str, Any]] = {
    "head.": {"output_network": False, "tied": True},
    "pooler.": {"pooler": False},
    "boundary.": {"boundary": False},
}
"Parts of a body behind its trunk, which tell tokens or stand before a head, by how their names "
"begin; and the settings of a family that has none."
NOT_OF_THE_TRUNK = tuple(WITHOUT)


class Adapter(Settings, ABC):
    """Settings of what is trained of a model, and of what is added to it."""

    saved_alone: ClassVar[bool] = True
    "Whether only what is trained is kept, to be put onto its base again."

    @property
    def virtual_tokens(self) -> int:
        """Places of the context that it takes."""
        return 0

    def apply(self, model: Model, *, seed: int) -> None:
        """Freeze the model, put in what is new, and let only what is adapted be trained."""
        refuse_adapted(model)
        model.requires_grad_(False)
        body = body_of(model)
        self.change(body, seed=seed)
        body.context -= self.virtual_tokens
        if isinstance(model, TaskModel):
            model.context = body.context
            model.head.requires_grad_(True)
        for name, parameter in model.named_parameters():  # a tied table goes by its first name
            if name.startswith(model.unread):
                parameter.requires_grad_(False)
        model.base_apart = self.saved_alone

    @abstractmethod
    def change(self, body: Model, *, seed: int) -> None:
        """Do to the frozen body what this adapter does."""

    @abstractmethod
    def terms(self, family: Family, *, vocabulary: int) -> list[Term]:
        """What is trained in the body, as formulas of the settings; the family is `family_read`,
        without what no loss passes."""

    def merge(self, model: Model) -> None:
        """Fold what is new into the weights; an adapter that trains these themselves has done so
        already, and one that is no part of them refuses."""


def body_of(model: Model) -> Model:
    """The model without the head of its task."""
    return model.body if isinstance(model, TaskModel) else model


def family_read(model: Model, family: Family) -> Family:
    """The settings of what the model's losses pass, of a family that has parts beside it."""
    settings: dict[str, Any] = {}
    for part in model.unread:
        settings |= WITHOUT[part.removeprefix("body.")]
    structure = {
        name: value for name, value in settings.items() if name in type(family).model_fields
    }
    return family.model_copy(update=structure)


def refuse_adapted(model: Model) -> None:
    names = (name for name, _ in model.named_parameters())
    found = next((name for name in names if name.rpartition(".")[2] in NEW_PARAMETERS), None)
    if found is not None:
        raise UserError(
            f"this model is adapted already: it has {found}",
            topic="adapt",
            hint="Merge that adapter first (LoRA can be merged), or take the model without it.",
        )


def transformer_of(family: Family, adapter: Adapter) -> Transformer:
    """The family, where it is made of blocks with attention."""
    if not isinstance(family, Transformer):
        raise no_blocks(adapter)
    return family


def no_blocks(adapter: Adapter) -> UserError:
    kind = name_of(adapter, ADAPTERS)
    return UserError(
        f"adapt.kind = {kind!r} works on the blocks of a Transformer, and a recurrent model has "
        "none",
        topic="adapt",
        hint='Adapt it by "full", "bias" or "lora".',
    )


def check_length(length: int, model: Model, adapter: Adapter) -> None:
    """Refuse virtual places that leave no room for a row."""
    if length > model.context - 2:
        kind = name_of(adapter, ADAPTERS)
        raise UserError(
            f"a {kind} of {length} places leaves {max(0, model.context - length)} of "
            f"model.context = {model.context} for the text",
            topic="adapt",
            where="adapt.length",
            hint=f"Give at most {model.context - 2}; a few dozen are the rule.",
        )


def letter(number: int, family: Transformer) -> str:
    """A size in the letters of formulas: w width, f feed-forward, or the number itself."""
    structure = {family.width: "w", family.hidden_width: "f"}
    return structure.get(number, str(number))
