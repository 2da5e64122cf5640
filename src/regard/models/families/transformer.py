"""Settings shared by all Transformer families, and the modules built from them.

The modern decoder (rotary positions, RMSNorm, SwiGLU, grouped-query attention, no biases) is a
choice of settings here, not another model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Self

from pydantic import Field, SerializeAsAny, model_validator
from torch import nn

from regard.attention.function import HeadShape
from regard.attention.kinds import ATTENTION, AttentionKind, Projections, RelativeType
from regard.attention.kinds.dot import Dot
from regard.attention.mixer import Mixer
from regard.attention.multi_head import build_mixer, count_mixer
from regard.attention.positions import POSITIONS, AbsolutePositionKind, PositionKind
from regard.attention.positions.learned import Learned
from regard.core.ledger import ParameterCount
from regard.core.settings import CatalogField, catalog_name, settings_class
from regard.core.untrusted import MAX_LAYERS
from regard.models.blocks.block import Block
from regard.models.blocks.embedding import Embedding, position_width, token_width
from regard.models.blocks.stack import Stack
from regard.models.families import Family
from regard.models.families.attention_shape import AttentionShape, LinearShape
from regard.models.heads.language_model_head import LanguageModelHead
from regard.models.init_weights import INIT_STD, init_weights
from regard.nn.mlp import ActivationName, build_mlp
from regard.nn.norm import NormKind, build_norm
from regard.nn.residual import NormPlacement, Residual


class Transformer(Family):
    """Settings of the blocks, the embedding and the output layer."""

    layers: int = Field(default=3, ge=1, le=MAX_LAYERS)
    "Transformer blocks (in an encoder-decoder, on each side)."
    heads: int = Field(default=3, ge=1, le=MAX_LAYERS)
    "Attention heads in each block; each has width / heads dimensions."
    width: int = Field(default=48, ge=1)
    "Hidden size: width of the embeddings, the hidden states and the residual stream."
    attention: Annotated[SerializeAsAny[AttentionKind], CatalogField(ATTENTION)] = Dot()
    "The kind of attention."
    projections: Projections = "separate"
    "Projections of queries, keys and values: separate, one for queries and keys, or one for all."
    key_value_heads: int = Field(default=0, ge=0)
    "Key/value heads (grouped-query attention): query heads share them. 0: the same as heads."
    positions: Annotated[SerializeAsAny[PositionKind], CatalogField(POSITIONS)] = Learned()
    "The kind of position encoding."
    mlp_width: int = Field(default=0, ge=0)
    "Hidden width of the MLP (feed-forward network); 0: 4 × width (8/3 × width for swiglu)."
    activation: ActivationName = "gelu"
    "Activation function of the MLP; gelu-tanh is GPT-2's; swiglu adds a gate, a third matrix."
    norm: NormKind = "layer"
    "LayerNorm, or RMSNorm, which does not subtract the mean."
    norm_eps: float = Field(default=1e-5, gt=0.0)
    "ε inside the root of the norms, against division by zero."
    norm_placement: NormPlacement = "pre"
    "Pre-norm: norm before each attention and MLP; post-norm: after the residual sum."
    biases: bool = True
    "Whether linear layers and LayerNorm have biases."
    tied: bool = True
    "Weight tying: the token embedding is the output layer."
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    "Dropout probability on embeddings and on the output of each attention and MLP."
    attention_dropout: float | None = Field(default=None, ge=0.0, lt=1.0)
    "Dropout probability of attention weights; not given: that of dropout."
    init_std: float = Field(default=INIT_STD, gt=0.0)
    "Standard deviation of the initial weights; narrow models learn sooner from about 1/√width."

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
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
        key_value_heads = self.key_value_heads or self.heads
        if self.heads % key_value_heads:
            raise ValueError(
                f"key_value_heads = {key_value_heads} does not divide heads = {self.heads}: "
                "each key/value head serves the same number of heads"
            )
        if key_value_heads != self.heads and self.projections != "separate":
            raise ValueError(
                f'key_value_heads = {key_value_heads} needs projections = "separate": with '
                f"{self.projections} the keys are the queries, of which there are {self.heads}"
            )

    def _check_attention(self) -> None:
        traits, name = self.attention.traits, catalog_name(self.attention, ATTENTION)
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
        relative_type = self.positions.relative_type
        if relative_type is not None and relative_type not in traits.relative_positions:
            position = catalog_name(self.positions, POSITIONS)
            raise ValueError(
                f"positions {position} act by a {relative_type}, which attention {name} does not "
                "support: "
                f"choose {', '.join(_positions_for(traits.relative_positions))}"
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
        if positions.embedding_width(self.width) >= self.width:
            raise ValueError(
                f"positions.position_width = {positions.position_width} leaves no width for tokens "
                f"in width = {self.width}"
            )

    @property
    def resolved_mlp_width(self) -> int:
        """Hidden width of the MLP, with the default filled in."""
        if self.mlp_width:
            return self.mlp_width
        # 2/3 of 4 × width, rounded up to a multiple of 8: three matrices have the size of two.
        return 8 * -(-self.width // 3) if self.activation == "swiglu" else 4 * self.width

    def head_shape(self, layer: int) -> HeadShape:
        attention_dropout = (
            self.dropout if self.attention_dropout is None else self.attention_dropout
        )
        return HeadShape(
            width=self.width // self.heads,
            heads=self.heads,
            context=self.context,
            layer=layer,
            dropout=attention_dropout,
            biases=self.biases,
        )

    def count_buffers(self) -> int:
        width = position_width(self.width, self.positions)
        return self.positions.embedding_buffer(width=width, context=self.context)

    @property
    def token_width(self) -> int:
        return token_width(self.width, self.positions)

    def stacks(self) -> Mapping[str, Sequence[Mapping[str, AttentionShape]]]:
        return {"stack": self._attention_shapes({"attention": self.attention})}

    def _attention_shapes(
        self, kinds: Mapping[str, AttentionKind]
    ) -> list[dict[str, AttentionShape]]:
        """The attentions of each block of a stack."""
        shapes = [self.head_shape(layer) for layer in range(self.layers)]
        kv_heads = self.key_value_heads or self.heads
        return [
            {
                name: AttentionShape(kind, shape, kv_heads * shape.width, self.projections)
                for name, kind in kinds.items()
            }
            for shape in shapes
        ]

    def linear_layers(self) -> dict[str, LinearShape]:
        return {
            f"{stack}.blocks.{layer}.{name}": shape
            for stack, blocks in self.stacks().items()
            for layer, attentions in enumerate(blocks)
            for name, shape in self._linear_layers_of_block(attentions).items()
        }

    def _linear_layers_of_block(
        self, attentions: Mapping[str, AttentionShape]
    ) -> dict[str, LinearShape]:
        w, f = self.width, self.resolved_mlp_width
        gate = {"mlp.gate_proj": LinearShape(w, f)} if self.activation == "swiglu" else {}
        return {
            **{
                f"{name}.{layer}": shape
                for name, attention in attentions.items()
                for layer, shape in attention.linear_layers().items()
            },
            **gate,
            "mlp.up_proj": LinearShape(w, f),
            "mlp.down_proj": LinearShape(f, w),
        }

    def size_symbol(self, size: int) -> str:
        return {self.width: "w", self.resolved_mlp_width: "f"}.get(size, str(size))

    def init_weights(self, model: nn.Module, *, seed: int) -> None:
        init_weights(model, seed=seed, layers=self.layers, std=self.init_std)

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
            embedding.tokens.num_embeddings, width=self.width, transform=self.build_head_transform()
        )
        if self.tied:
            head.tie(embedding.tokens)
        return head

    def build_head_transform(self) -> nn.Module | None:
        """The transform before the output layer; none in most families."""
        return None

    def build_stack(self, *, cross_attention: AttentionKind | None = None) -> Stack:
        """The blocks and the final norm; with `cross_attention`, blocks that attend to a memory."""
        final_norm = self.build_norm() if self.norm_placement == "pre" else nn.Identity()
        blocks = [self._build_block(layer, cross_attention) for layer in range(self.layers)]
        return Stack(blocks, norm=final_norm)

    def _build_block(self, layer: int, cross_attention: AttentionKind | None) -> Block:
        shape = self.head_shape(layer)
        return Block(
            self._build_mixer(self.attention, shape, relative=self.positions),
            build_mlp(
                self.activation, self.width, hidden=self.resolved_mlp_width, biases=self.biases
            ),
            # The distance from a target position to a source position has no meaning.
            cross_attention=(
                None
                if cross_attention is None
                else self._build_mixer(cross_attention, shape, relative=None)
            ),
            residual=lambda: Residual(
                self.build_norm(), norm_placement=self.norm_placement, dropout=self.dropout
            ),
        )

    def _build_mixer(
        self, kind: AttentionKind, shape: HeadShape, *, relative: PositionKind | None
    ) -> Mixer:
        return build_mixer(
            kind,
            shape,
            projections=self.projections,
            key_value_heads=self.key_value_heads,
            relative_position=None if relative is None else relative.build_relative_position(shape),
        )

    def build_norm(self) -> nn.Module:
        return build_norm(self.norm, self.width, biases=self.biases, eps=self.norm_eps)

    def count_embedding_parameters(self, vocabulary: int) -> list[ParameterCount]:
        embedding_width = token_width(self.width, self.positions)
        token_symbol = "w" if embedding_width == self.width else str(embedding_width)
        positions_width = position_width(self.width, self.positions)
        in_positions = self.positions.embedding_parameters(
            width=positions_width, context=self.context
        )
        counts = [
            ParameterCount("token embedding", f"v·{token_symbol}", vocabulary * embedding_width)
        ]
        if in_positions:
            symbol = "w" if positions_width == self.width else str(positions_width)
            counts.append(ParameterCount("position embedding", f"T·{symbol}", in_positions))
        return counts

    def count_head_parameters(self, vocabulary: int) -> list[ParameterCount]:
        if self.tied:
            return [ParameterCount("output layer", "0 (tied to the token embedding)", 0)]
        return [ParameterCount("output layer", "v·w", vocabulary * self.width)]

    def count_stack_parameters(
        self, *, cross_attention: AttentionKind | None = None
    ) -> list[ParameterCount]:
        attentions = 1 if cross_attention is None else 2
        counts = self._over_layers(partial(self._count_attention, self.attention, "attention"))
        counts += self._over_layers(self._count_relative_positions)
        if cross_attention is not None:
            count_cross = partial(self._count_attention, cross_attention, "cross attention")
            counts += self._over_layers(count_cross)
        counts.append(self._count_mlp().times(self.layers, "layers"))
        letters, size = ("2w", 2) if self.norms_have_biases else ("w", 1)
        count = self._count_norms(attentions)
        counts.append(ParameterCount("norms", f"{count} × {letters}", count * size * self.width))
        return counts

    def count_top_layers(self, layers: int) -> list[ParameterCount]:
        return self.model_copy(update={"layers": layers}).count_stack_parameters()

    def count_biases(self) -> list[ParameterCount]:
        stacks = self.stacks()
        return [
            count if len(stacks) == 1 else count.on(name)
            for name, blocks in stacks.items()
            for count in self._count_stack_biases(blocks[0])
        ]

    @property
    def norms_have_biases(self) -> bool:
        return self.norm == "layer" and self.biases

    def _count_stack_biases(self, attentions: Mapping[str, AttentionShape]) -> list[ParameterCount]:
        counts = [
            count.times(self.layers, "layers")
            for name, attention in attentions.items()
            for count in self._count_attention_biases(attention, name.replace("_", " "))
        ]
        if self.biases:
            hidden_layers = 2 if self.activation == "swiglu" else 1
            hidden_formula = "2f" if hidden_layers == 2 else "f"
            value = hidden_layers * self.resolved_mlp_width + self.width
            mlp = ParameterCount("feed-forward", f"{hidden_formula} + w", value)
            counts.append(mlp.times(self.layers, "layers"))
        if self.norms_have_biases:
            norms = self._count_norms(len(attentions))
            counts.append(ParameterCount("norms", f"{norms} × w", norms * self.width))
        return counts

    def _count_attention_biases(self, attention: AttentionShape, name: str) -> list[ParameterCount]:
        """Query and output projections have w, those of keys and values their width."""
        own = attention.count_own_biases(name)
        if not self.biases or not attention.has_projections():
            return own
        kv_width = attention.key_value_width
        kv_projections = {"separate": 2, "shared-qk": 1, "shared-qkv": 0}[self.projections]
        formula = "2·w"
        if kv_projections:
            formula += f" + {kv_projections}·{self.size_symbol(kv_width)}"
        value = 2 * self.width + kv_projections * kv_width
        return [ParameterCount(name, formula, value), *own]

    def _count_norms(self, attentions: int) -> int:
        """Norms of a stack: one for each attention and MLP, and the final one of pre-norm."""
        return (attentions + 1) * self.layers + (self.norm_placement == "pre")

    def _over_layers(
        self, count_layer: Callable[[HeadShape], list[ParameterCount]]
    ) -> list[ParameterCount]:
        """Counts of all layers; one entry where layers are alike, as in nearly every kind."""
        per_layer = [count_layer(self.head_shape(layer)) for layer in range(self.layers)]
        if all(counts == per_layer[0] for counts in per_layer):
            return [count.times(self.layers, "layers") for count in per_layer[0]]
        return [
            count.on(f"layer {layer}") for layer, counts in enumerate(per_layer) for count in counts
        ]

    def _count_relative_positions(self, shape: HeadShape) -> list[ParameterCount]:
        count = self.positions.relative_parameters(shape)
        formula = self.positions.relative_formula
        return [ParameterCount("relative positions", formula, count)] if count else []

    def _count_mlp(self) -> ParameterCount:
        w, f = self.width, self.resolved_mlp_width
        matrices = 3 if self.activation == "swiglu" else 2
        bias_formula = f"{' + 2f' if matrices == 3 else ' + f'} + w" if self.biases else ""
        in_biases = (matrices - 1) * f + w if self.biases else 0
        return ParameterCount(
            "feed-forward", f"{matrices}·w·f{bias_formula}", matrices * w * f + in_biases
        )

    def _count_attention(
        self, kind: AttentionKind, name: str, shape: HeadShape
    ) -> list[ParameterCount]:
        return count_mixer(
            kind,
            shape,
            projections=self.projections,
            key_value_heads=self.key_value_heads,
            name=name,
        )


def _positions_for(relative_positions: tuple[RelativeType, ...]) -> list[str]:
    """The position kinds that an attention supports."""
    kinds = {entry.name: settings_class(POSITIONS, entry.name)() for entry in POSITIONS}
    return [
        name
        for name, positions in kinds.items()
        if isinstance(positions, PositionKind)
        and (positions.relative_type is None or positions.relative_type in relative_positions)
    ]
