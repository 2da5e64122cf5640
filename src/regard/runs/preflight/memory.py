"""Whether a training fits into memory, by formula: nothing is allocated to find that out.

    bytes ≥ 4 · parameters + 12 · trained + 8 · positions · Σ w over all attentions

float32 weights; a gradient and AdamW's two moments of each trained parameter; what each block keeps
of a micro-batch for the backward pass, at the very least. A training that needs more than the
machine has is refused, one that needs more than is free now is said.
"""

from __future__ import annotations

import torch

from regard.adapters.full import Full
from regard.core.errors import UserError
from regard.core.ledger import total_parameters
from regard.core.process.memory_limits import MemoryLimits, memory_limits
from regard.evaluation.formatting import memory_size
from regard.models.families import Family
from regard.runs.recipe import Recipe
from regard.training.parallel.ranks import ONE_RANK, OneRank

WEIGHT_BYTES = 4
TRAINED_BYTES = 12
"Of a trained parameter, beside its weight: gradient and two moments."
KEPT_BYTES = 8
"Of each position and channel of an attention: its input and that of the MLP after it."
ABOUT_AS_MUCH = 0.9
"Of settings that save about as much when halved, the largest number is meant."


def check_memory(
    recipe: Recipe,
    *,
    vocabulary: int,
    positions: int = 0,
    limits: MemoryLimits | None = None,
    ranks: OneRank = ONE_RANK,
) -> list[str]:
    """Refuse a model that cannot fit; a remark if it does not fit now. `positions` are those of a
    micro-batch of all ranks, 0 where they are not known yet."""
    limits = limits or memory_limits_of(recipe.train.device)
    parameters = total_parameters(recipe.model.count_parameters(vocabulary))
    in_model = _model_bytes(recipe, parameters, vocabulary=vocabulary)
    needed = least_memory(recipe, vocabulary=vocabulary, positions=positions // ranks.size)
    kept = needed - in_model
    if ranks.size > 1 and recipe.train.parallel == "fsdp":
        # Its part of everything; the first rank also has the whole weights.
        in_model = WEIGHT_BYTES * parameters + in_model // ranks.size
        needed = in_model + kept
    what = f"a model of {parameters:,} parameters takes at least {memory_size(needed)}"
    if limits.total is not None and needed > limits.total:
        raise UserError(
            f"{what}, and this machine has {memory_size(limits.total)}",
            topic="recipe",
            where=(
                f"train.batch_tokens = {recipe.train.batch_tokens:,}"
                if kept > in_model
                else _largest_size(recipe.model, parameters, vocabulary)
            ),
            hint="Lower it, or raise train.accumulate." if kept > in_model else "Lower it.",
        )
    if limits.available is not None and needed > limits.available:
        return [
            f"memory: {what}, and {memory_size(limits.available)} are free now: end other "
            "programs, or lower model.width or train.batch_tokens"
        ]
    return []


def least_memory(recipe: Recipe, *, vocabulary: int, positions: int) -> int:
    """Bytes that a training takes at least."""
    parameters = total_parameters(recipe.model.count_parameters(vocabulary))
    in_model = _model_bytes(recipe, parameters, vocabulary=vocabulary)
    kept = KEPT_BYTES * positions * _attention_widths(recipe.model) if trains(recipe) else 0
    return in_model + kept


def memory_limits_of(device: str) -> MemoryLimits:
    """Of the device that a training runs on; an unknown one is refused where it is chosen."""
    if device.startswith("cuda") or (device == "auto" and torch.cuda.is_available()):
        try:
            free, total = torch.cuda.mem_get_info()
        except (RuntimeError, AssertionError):  # no such device
            return MemoryLimits(None, None)
        return MemoryLimits(total, free)
    return memory_limits()


def trains(recipe: Recipe) -> bool:
    """Whether there is a step to train."""
    return recipe.train.max_steps != 0


def _model_bytes(recipe: Recipe, parameters: int, *, vocabulary: int) -> int:
    family, trained = recipe.model, parameters
    if not isinstance(recipe.adapt, Full):
        trained = total_parameters(recipe.adapt.count_parameters(family, vocabulary=vocabulary))
        parameters += trained if recipe.adapt.new_parameters else 0
    values = parameters + family.count_buffers()
    return WEIGHT_BYTES * values + (TRAINED_BYTES * trained if trains(recipe) else 0)


def _attention_widths(family: Family) -> int:
    """Of all attentions together; 0 for a family without any."""
    return sum(
        shape.head.model_width
        for blocks in family.stacks().values()
        for attentions in blocks
        for shape in attentions.values()
    )


def _largest_size(family: Family, parameters: int, vocabulary: int) -> str:
    """The setting that most of the parameters follow from."""
    sizes = {
        name: value
        for name in ("layers", "width", "context", "mlp_width")
        if isinstance(value := getattr(family, name, None), int) and value > 1
    }

    def saved_by(name: str, half: int, value: int) -> float:
        """Parameters saved by halving, as if the half were exact."""
        smaller = family.model_copy(update={name: half}) if name else family
        counts = smaller.count_parameters(vocabulary if name else half)
        return (parameters - total_parameters(counts)) / (1 - half / value)

    saved = {name: saved_by(name, value // 2, value) for name, value in sizes.items()}
    if vocabulary > 1:
        saved[""], sizes[""] = saved_by("", vocabulary // 2, vocabulary), vocabulary
    most = max(saved.values())
    name = max(
        (name for name, of_it in saved.items() if of_it > ABOUT_AS_MUCH * most),
        key=lambda name: sizes[name],
    )
    return f"model.{name} = {sizes[name]:,}" if name else f"a vocabulary of {vocabulary:,}"
