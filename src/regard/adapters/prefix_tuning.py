"""Prefix tuning: trained keys and values stand before those of every row, in every attention.

    head = attend(q, [P_k; k], [P_v; v])        P: 2 × p × key/value width, for each attention

Li and Liang, 2021; in an encoder-decoder the attention to the source has its own, as there. The
keys stand nowhere: they are not turned by rotary positions and no bias of distances touches them.
The row's tokens stand at p, p + 1, … Keys and values are trained themselves, not through a network;
drawn at random they disturb what the model knows, so they start as those of real tokens (section
7.4 of the paper). Shapes: b batch, h heads, p virtual places, d head width.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.adapters import ADAPTERS, Adapter, check_length, letter, no_blocks, transformer_of
from regard.adapters.prompt_tuning import Start, drawn_ids, not_of_the_weights
from regard.attention.function import AttentionFunction, RecurrentAttentionFunction
from regard.attention.kinds import ATTENTION, AttentionKind
from regard.attention.mixer import Mixer
from regard.attention.multi_head import MultiHeadAttention
from regard.attention.token_positions import TokenPositions
from regard.core.count import Term
from regard.core.errors import UserError
from regard.core.settings import name_of
from regard.models.architectures.encoder_decoder_model import EncoderDecoderModel
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.families import Family
from regard.models.families.encoder_decoder import EncoderDecoder
from regard.models.families.transformer import Transformer
from regard.models.init_weights import INIT_STD, named_generator
from regard.models.model import Model


@ADAPTERS.add("prefix", trains="keys and values in every attention")
class PrefixTuning(Adapter):
    """Train keys and values that stand before those of every row, in every attention."""

    length: int = Field(default=20, ge=1)
    "How many keys and values in each attention; they take so many places of the context."
    start: Start = "vocabulary"
    "Keys and values that the model makes of tokens drawn by seed, or small random numbers."

    @property
    def virtual_tokens(self) -> int:
        return self.length

    def change(self, body: Model, *, seed: int) -> None:
        if not isinstance(body, SequenceModel | EncoderDecoderModel):
            raise no_blocks(self)
        check_length(self.length, body, self)
        attentions = dict(_attentions(body))
        drawn = (
            self._of_tokens(body, attentions, seed=seed)
            if self.start == "vocabulary"
            else self._random(attentions, seed=seed)
        )
        for name, attention in attentions.items():
            attention.prefix = nn.Parameter(drawn[name].to(attention.query.weight))
        body.prefix_length = self.length

    def terms(self, family: Family, *, vocabulary: int) -> list[Term]:
        transformer = transformer_of(family, self)
        _refuse_keyless(transformer, transformer.attention)
        shape = transformer.head_shape(0)
        wide = (transformer.key_value_heads or transformer.heads) * shape.width
        each = Term(
            "prefix", f"2·{self.length}·{letter(wide, transformer)}", 2 * self.length * wide
        ).times(transformer.layers, "layers")
        if not isinstance(transformer, EncoderDecoder):
            return [each]
        _refuse_keyless(transformer, transformer.cross_attention)
        looking = Term("prefix to the source", each.formula, each.value)
        return [each.on("encoder"), each.on("decoder"), looking.on("decoder")]

    def merge(self, model: Model) -> None:
        raise not_of_the_weights("prefix")

    def _random(self, attentions: dict[str, MultiHeadAttention], *, seed: int) -> dict[str, Tensor]:
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
    def _of_tokens(
        self,
        body: SequenceModel | EncoderDecoderModel,
        attentions: dict[str, MultiHeadAttention],
        *,
        seed: int,
    ) -> dict[str, Tensor]:
        """What each attention makes of a row of drawn tokens: keys and values, not turned."""
        table = body.embedding.tokens.weight
        ids = drawn_ids(len(table), self.length, named_generator(seed, "prefix"))
        row = ids.to(table.device)[None]
        with _listening(attentions) as heard, _in_evaluation(body):
            if isinstance(body, EncoderDecoderModel):
                body.target(row, source=row, source_valid=torch.ones_like(row, dtype=torch.bool))
            else:
                _, mask = body.standing(row, None)
                kinds = torch.zeros_like(row)
                positions = TokenPositions.of_row(
                    self.length, device=row.device, segments=kinds, modalities=kinds
                )
                body.hidden(row, positions, mask=mask)
        return heard


def _attentions(body: nn.Module) -> Iterator[tuple[str, MultiHeadAttention]]:
    for name, module in body.named_modules():
        if isinstance(module, Mixer):
            rule = module.rule if isinstance(module, MultiHeadAttention) else module
            if not isinstance(module, MultiHeadAttention) or isinstance(
                rule, RecurrentAttentionFunction
            ):
                raise _keyless(type(rule).__name__)
            yield name, module


@contextmanager
def _listening(attentions: dict[str, MultiHeadAttention]) -> Iterator[dict[str, Tensor]]:
    """While inside, each attention leaves the keys and values it makes, (2,p,h·d)."""
    heard: dict[str, Tensor] = {}

    def listen(name: str, attention: MultiHeadAttention) -> Any:
        def take(_: nn.Module, inputs: tuple[Tensor], named: dict[str, Any]) -> None:
            memory = named.get("memory")
            both = attention.keys_and_values(inputs[0] if memory is None else memory)
            heard[name] = torch.stack([one[0].transpose(0, 1).flatten(1) for one in both])

        return attention.register_forward_pre_hook(take, with_kwargs=True)

    handles = [listen(name, attention) for name, attention in attentions.items()]
    try:
        yield heard
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _in_evaluation(body: nn.Module) -> Iterator[None]:
    """Without dropout; afterwards as before."""
    was = body.training
    body.eval()
    try:
        yield
    finally:
        body.train(was)


def _refuse_keyless(family: Transformer, kind: AttentionKind) -> None:
    with torch.device("meta"):  # to know what would be built, at no cost
        part = kind.build(family.head_shape(0))
    if not isinstance(part, AttentionFunction) or isinstance(part, RecurrentAttentionFunction):
        raise _keyless(name_of(kind, ATTENTION))


def _keyless(name: str) -> UserError:
    return UserError(
        f"a prefix is more keys and values to choose from, and the attention {name} "
        "keeps none that could stand before a row's own",
        topic="adapt",
        hint='Adapt this model by "prompt" or "lora" instead.',
    )
