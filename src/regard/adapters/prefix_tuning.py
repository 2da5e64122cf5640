"""Prefix tuning: trained keys and values before those of every row, in every attention.

    head = attend(q, [P_k; k], [P_v; v])        P: 2 × p × key/value width, for each attention

Li and Liang, 2021; as there, cross-attention in an encoder-decoder has its own prefix. The keys
have no position: rotary positions do not rotate them and relative position biases are 0 for them.
The row's tokens have positions p, p + 1, … Keys and values are trained directly, without the
reparametrisation by an MLP; random initial values disturb the pretrained model, so they default to
those of real tokens (section 7.4 of the paper). Shapes: b batch, h heads, p virtual tokens, d head
width.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.adapters import ADAPTERS, no_blocks_error
from regard.adapters.virtual_tokens import VirtualTokenAdapter, VirtualTokenInit, draw_token_ids
from regard.attention.function import AttentionFunction, RecurrentAttentionFunction
from regard.attention.mixer import Mixer
from regard.attention.multi_head import MultiHeadAttention
from regard.attention.token_positions import TokenPositions
from regard.core.errors import UserError
from regard.core.ledger import ParameterCount
from regard.models.blocks.virtual_tokens import VirtualTokens
from regard.models.families import Family
from regard.models.families.attention_shape import AttentionShape
from regard.models.init_weights import INIT_STD, named_generator
from regard.models.inputs import ModelInputs
from regard.models.model import TokenModel


@ADAPTERS.add("prefix", trains="keys and values in every attention")
class PrefixTuning(VirtualTokenAdapter):
    """Train a prefix: keys and values of virtual tokens in every attention."""

    new_parameters: ClassVar = ("prefix",)

    init: VirtualTokenInit = "tokens"
    "Initial values: the model's keys and values of tokens drawn by seed, or small random ones."

    def insert(self, body: TokenModel, holder: VirtualTokens, *, seed: int) -> None:
        attentions = dict(_attentions(body))
        initial = (
            self._init_from_tokens(body, attentions, seed=seed)
            if self.init == "tokens"
            else self._init_random(attentions, seed=seed)
        )
        for name, attention in attentions.items():
            attention.prefix = nn.Parameter(initial[name].to(attention.query.weight))
        holder.prefix_length = self.length

    def count_parameters(self, family: Family, *, vocabulary: int) -> list[ParameterCount]:
        stacks = family.stacks()
        if not stacks:
            raise no_blocks_error(self)
        counts = []
        for stack, blocks in stacks.items():
            for name, attention in blocks[0].items():
                _refuse_keyless(attention)
                width = attention.key_value_width
                prefix = ParameterCount(
                    "prefix" if name == "attention" else f"{name.replace('_', '-')} prefix",
                    f"2·{self.length}·{family.size_symbol(width)}",
                    2 * self.length * width,
                ).times(len(blocks), "layers")
                counts.append(prefix if len(stacks) == 1 else prefix.on(stack))
        return counts

    def _init_random(
        self, attentions: dict[str, MultiHeadAttention], *, seed: int
    ) -> dict[str, Tensor]:
        return {
            name: INIT_STD
            * torch.randn(
                2,
                self.length,
                attention.key_value_width,
                generator=named_generator(seed, f"{name}.prefix"),
            )
            for name, attention in attentions.items()
        }

    @torch.no_grad()
    def _init_from_tokens(
        self,
        body: TokenModel,
        attentions: dict[str, MultiHeadAttention],
        *,
        seed: int,
    ) -> dict[str, Tensor]:
        """Each attention's keys and values of a row of drawn tokens, not rotated."""
        table = body.get_parameter(f"{body.token_table}.weight")
        ids = draw_token_ids(len(table), self.length, named_generator(seed, "prefix"))
        row = ids.to(table.device)[None]
        with _captured_keys_values(attentions) as captured, _evaluation_mode(body):
            zeros = torch.zeros_like(row)
            positions = TokenPositions.of_row(
                self.length, device=row.device, segments=zeros, modalities=zeros
            )
            every = torch.ones_like(row, dtype=torch.bool)
            body.hidden_states(
                ModelInputs(row, every, positions, segments=zeros, source=row, source_valid=every)
            )
        return captured


def _attentions(body: nn.Module) -> Iterator[tuple[str, MultiHeadAttention]]:
    for name, module in body.named_modules():
        if isinstance(module, Mixer):
            function = module.function if isinstance(module, MultiHeadAttention) else module
            if not isinstance(module, MultiHeadAttention) or isinstance(
                function, RecurrentAttentionFunction
            ):
                raise _keyless_error(type(function).__name__)
            yield name, module


@contextmanager
def _captured_keys_values(
    attentions: dict[str, MultiHeadAttention],
) -> Iterator[dict[str, Tensor]]:
    """Capture each attention's keys and values inside the context, (2,p,h·d) by name."""
    captured: dict[str, Tensor] = {}

    def add_hook(name: str, attention: MultiHeadAttention) -> Any:
        def capture(_: nn.Module, inputs: tuple[Tensor], keywords: dict[str, Any]) -> None:
            memory = keywords.get("memory")
            keys_values = attention.project_keys_values(inputs[0] if memory is None else memory)
            captured[name] = torch.stack(
                [heads[0].transpose(0, 1).flatten(1) for heads in keys_values]
            )

        return attention.register_forward_pre_hook(capture, with_kwargs=True)

    handles = [add_hook(name, attention) for name, attention in attentions.items()]
    try:
        yield captured
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _evaluation_mode(body: nn.Module) -> Iterator[None]:
    """Without dropout; afterwards as before."""
    was_training = body.training
    body.eval()
    try:
        yield
    finally:
        body.train(was_training)


def _refuse_keyless(attention: AttentionShape) -> None:
    built = attention.build_function()
    if not isinstance(built, AttentionFunction) or isinstance(built, RecurrentAttentionFunction):
        raise _keyless_error(attention.kind_name)


def _keyless_error(name: str) -> UserError:
    return UserError(
        f"a prefix adds keys and values to attend to, and the attention {name} keeps none of a "
        "row's own",
        topic="adapt",
        hint='Adapt this model by "prompt" or "lora" instead.',
    )
