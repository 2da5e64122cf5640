"""What all Transformers share: the settings of a block, and the stacks that are built from them.

Modern decoder parts (rotary positions, RMSNorm, SwiGLU, grouped key/value heads, no biases) are
choices here, not another model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Self

from pydantic import Field, SerializeAsAny, model_validator
from torch import nn

from regard.attention.function import HeadShape
from regard.attention.kinds import ATTENTION, AttentionKind, Projections, RelationSort
from regard.attention.kinds.dot import Dot
from regard.attention.mixer import Mixer
from regard.attention.multi_head import build_mixer, count_mixer
from regard.attention.positions import POSITIONS, AbsolutePositionKind, PositionKind
from regard.attention.positions.learned import Learned
from regard.core.count import Term
from regard.core.settings import CatalogField, name_of, settings_class
from regard.models.blocks.block import Block
from regard.models.blocks.embedding import Embedding, position_width, token_width
from regard.models.blocks.stack import Stack
from regard.models.families import Family
from regard.models.heads.heads import LanguageModelHead
from regard.models.init_weights import INIT_STD, init_weights
from regard.nn.mlp import ActivationName, build_mlp
from regard.nn.norm import NormKind, build_norm
from regard.nn.residual import NormPlacement, Residual


class Transformer(Family):
    """Settings of a block and of what stands around it."""

    layers: int = Field(default=3, ge=1)
    "Blocks, one after the other."
    heads: int = Field(default=3, ge=1)
    "Attention heads in each block; they share the width between them."
    width: int = Field(default=48, ge=1)
    "Length of the vector that stands for a place."
    attention: Annotated[SerializeAsAny[AttentionKind], CatalogField(ATTENTION)] = Dot()
    "The kind of attention."
    projections: Projections = "separate"
    "Matrices for queries, keys and values: separate, one for the first two, or one for all."
    key_value_heads: int = Field(default=0, ge=0)
    "Heads that keys and values have; several query heads then share one. 0: as many as heads."
    positions: Annotated[SerializeAsAny[PositionKind], CatalogField(POSITIONS)] = Learned()
    "How the model knows where a token stands."
    mlp_width: int = Field(default=0, ge=0)
    "Hidden width of the feed-forward network; 0: 4 × width (8/3 × width for swiglu)."
    activation: ActivationName = "gelu"
    "What bends the hidden values; gelu-tanh is GPT-2's; swiglu adds a gate and a third matrix."
    norm: NormKind = "layer"
    "LayerNorm, or RMSNorm, which only scales."
    norm_eps: float = Field(default=1e-5, gt=0.0)
    "Added below the root, so that nothing is divided by nought."
    norm_place: NormPlacement = "pre"
    "Normalise before each part of a block (pre) or after it (post)."
    biases: bool = True
    "Whether linear layers and LayerNorm add a bias."
    tied: bool = True
    "Score tokens with the table that embeds them."
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    "Share of activations dropped in training, on residuals and embeddings."
    attention_dropout: float | None = Field(default=None, ge=0.0, lt=1.0)
    "Share of attention weights dropped in training; not given: as dropout."
    init_std: float = Field(default=INIT_STD, gt=0.0)
    "Of the starting weights; narrow models learn sooner from about 1/√width."

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        self._check_heads()
        self._check_attention()
        self._check_positions()
        return self

    def _check_heads(self) -> None:
        if self.width % self.heads:
            raise ValueError(
                f"heads = {self.heads} does not divide width = {self.width}; "
                f"the nearest width that fits is {-(-self.width // self.heads) * self.heads}"
            )
        shared = self.key_value_heads or self.heads
        if self.heads % shared:
            raise ValueError(
                f"key_value_heads = {shared} does not divide heads = {self.heads}: "
                "each key/value head serves the same number of heads"
            )
        if shared != self.heads and self.projections != "separate":
            raise ValueError(
                f'key_value_heads = {shared} needs projections = "separate": with '
                f"{self.projections} the keys are the queries, of which there are {self.heads}"
            )

    def _check_attention(self) -> None:
        traits, name = self.attention.traits, name_of(self.attention, ATTENTION)
        if self.projections not in traits.projections:
            raise ValueError(
                f"attention {name} has no queries and keys to share: "
                f'projections = "{self.projections}" is not possible, '
                f"only {', '.join(traits.projections)}"
            )
        if self.key_value_heads not in (0, self.heads) and not traits.grouped_heads:
            raise ValueError(
                f"attention {name} cannot share key/value heads: leave key_value_heads out"
            )
        relation = self.positions.relation_sort
        if relation is not None and relation not in traits.relations:
            position = name_of(self.positions, POSITIONS)
            raise ValueError(
                f"positions {position} act by a {relation}, which attention {name} cannot take: "
                f"choose {', '.join(_positions_for(traits.relations))}"
            )

    def _check_positions(self) -> None:
        positions = self.positions
        if not isinstance(positions, AbsolutePositionKind) or positions.combine == "add":
            return
        if self.tied:
            raise ValueError(
                'tied = true needs positions.combine = "add": concatenated positions leave the '
                "token table narrower than the model; set tied = false"
            )
        if positions.width_within(self.width) >= self.width:
            raise ValueError(
                f"positions.own_width = {positions.own_width} leaves no room for tokens "
                f"in width = {self.width}"
            )

    @property
    def hidden_width(self) -> int:
        """Of the feed-forward network."""
        if self.mlp_width:
            return self.mlp_width
        # Two thirds of four times the width, up to a multiple of 8: three matrices weigh as two.
        return 8 * -(-self.width // 3) if self.activation == "swiglu" else 4 * self.width

    def head_shape(self, layer: int) -> HeadShape:
        dropped = self.dropout if self.attention_dropout is None else self.attention_dropout
        return HeadShape(
            width=self.width // self.heads,
            heads=self.heads,
            context=self.context,
            layer=layer,
            dropout=dropped,
            biases=self.biases,
        )

    def start(self, model: nn.Module, *, seed: int) -> None:
        """Give every parameter its starting value."""
        init_weights(model, seed=seed, layers=self.layers, deviation=self.init_std)

    def build_embedding(self, vocabulary: int) -> Embedding:
        return Embedding(
            vocabulary,
            width=self.width,
            context=self.context,
            positions=self.positions,
            dropout=self.dropout,
        )

    def build_head(self, embedding: Embedding) -> LanguageModelHead:
        head = LanguageModelHead(
            embedding.tokens.num_embeddings, width=self.width, network=self.build_output_network()
        )
        if self.tied:
            head.tie(embedding.tokens)
        return head

    def build_output_network(self) -> nn.Module | None:
        """What stands before the output layer; nothing in most families."""
        return None

    def build_stack(self, *, cross_attention: AttentionKind | None = None) -> Stack:
        """The blocks; with `cross_attention` each also looks at a source."""
        closing = self.build_norm() if self.norm_place == "pre" else nn.Identity()
        blocks = [self._block(layer, cross_attention) for layer in range(self.layers)]
        return Stack(blocks, norm=closing)

    def _block(self, layer: int, cross_attention: AttentionKind | None) -> Block:
        shape = self.head_shape(layer)
        return Block(
            self._mixer(self.attention, shape, relative=self.positions),
            build_mlp(self.activation, self.width, hidden=self.hidden_width, biases=self.biases),
            # How far a target place is from a source place means nothing: no relation there.
            cross_attention=(
                None
                if cross_attention is None
                else self._mixer(cross_attention, shape, relative=None)
            ),
            residual=lambda: Residual(
                self.build_norm(), place=self.norm_place, dropout=self.dropout
            ),
        )

    def _mixer(
        self, kind: AttentionKind, shape: HeadShape, *, relative: PositionKind | None
    ) -> Mixer:
        return build_mixer(
            kind,
            shape,
            projections=self.projections,
            key_value_heads=self.key_value_heads,
            relation=None if relative is None else relative.build_relation(shape),
        )

    def build_norm(self) -> nn.Module:
        return build_norm(self.norm, self.width, biases=self.biases, eps=self.norm_eps)

    def embedding_terms(self, vocabulary: int) -> list[Term]:
        embedding_width = token_width(self.width, self.positions)
        letter = "w" if embedding_width == self.width else str(embedding_width)
        own = position_width(self.width, self.positions)
        vectors = self.positions.vector_parameters(width=own, context=self.context)
        terms = [Term("token embedding", f"v·{letter}", vocabulary * embedding_width)]
        if vectors:
            beside = "w" if own == self.width else str(own)
            terms.append(Term("position embedding", f"T·{beside}", vectors))
        return terms

    def head_terms(self, vocabulary: int) -> list[Term]:
        if self.tied:
            return [Term("output layer", "0 (tied to the token embedding)", 0)]
        return [Term("output layer", "v·w", vocabulary * self.width)]

    def stack_terms(self, *, cross_attention: AttentionKind | None = None) -> list[Term]:
        looks = 1 if cross_attention is None else 2
        terms = self._over_layers(partial(self._attention_terms, self.attention, "attention"))
        terms += self._over_layers(self._relation_terms)
        if cross_attention is not None:
            named = partial(self._attention_terms, cross_attention, "cross attention")
            terms += self._over_layers(named)
        terms.append(self._feed_forward_term().times(self.layers, "layers"))
        closing = 1 if self.norm_place == "pre" else 0
        letters, size = ("2w", 2) if self.norm == "layer" and self.biases else ("w", 1)
        count = (looks + 1) * self.layers + closing
        terms.append(Term("norms", f"{count} × {letters}", count * size * self.width))
        return terms

    def _over_layers(self, terms_of: Callable[[HeadShape], list[Term]]) -> list[Term]:
        """Of all layers; told once where they are alike, as they are in nearly every kind."""
        each = [terms_of(self.head_shape(layer)) for layer in range(self.layers)]
        if all(terms == each[0] for terms in each):
            return [term.times(self.layers, "layers") for term in each[0]]
        return [term.on(f"layer {layer}") for layer, terms in enumerate(each) for term in terms]

    def _relation_terms(self, shape: HeadShape) -> list[Term]:
        count = self.positions.relation_parameters(shape)
        formula = self.positions.relation_formula
        return [Term("relative positions", formula, count)] if count else []

    def _feed_forward_term(self) -> Term:
        w, f = self.width, self.hidden_width
        matrices = 3 if self.activation == "swiglu" else 2
        bias = f"{' + 2f' if matrices == 3 else ' + f'} + w" if self.biases else ""
        added = (matrices - 1) * f + w if self.biases else 0
        return Term("feed-forward", f"{matrices}·w·f{bias}", matrices * w * f + added)

    def _attention_terms(self, kind: AttentionKind, name: str, shape: HeadShape) -> list[Term]:
        return count_mixer(
            kind,
            shape,
            projections=self.projections,
            key_value_heads=self.key_value_heads,
            name=name,
        )


def _positions_for(relations: tuple[RelationSort, ...]) -> list[str]:
    """The position kinds that an attention can take."""
    sorts = {entry.name: settings_class(POSITIONS, entry.name)() for entry in POSITIONS}
    return [
        name
        for name, positions in sorts.items()
        if isinstance(positions, PositionKind)
        and (positions.relation_sort is None or positions.relation_sort in relations)
    ]
