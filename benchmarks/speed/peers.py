"""Other implementations of the same decoder, with regard's weights where they can be copied.

`PlainGpt` is the common implementation: torch modules, SDPA, all logits at once, as in nanoGPT; it
is also timed under `torch.compile`. Hugging Face's GPT-2 and x-transformers come from their
packages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.speed.sizes import Size
from torch import Tensor, nn

from regard.interop.huggingface.architecture import ARCHITECTURES
from regard.interop.huggingface.tensors import export_tensors
from regard.models.architectures.language_model import LanguageModel

MAX_GRAD_NORM = 1.0
Loss = Callable[[Tensor, Tensor], Tensor]


class PlainBlock(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up_proj, self.down_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        b, t, w = x.shape
        qkv = self.qkv(self.norm_1(x)).split(w, dim=2)
        q, k, v = (one.view(b, t, self.heads, -1).transpose(1, 2) for one in qkv)
        dropout = self.dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        x = x + self.drop(self.out(attended.transpose(1, 2).reshape(b, t, w)))
        return x + self.drop(self.down_proj(F.gelu(self.up_proj(self.norm_2(x)))))


class PlainGpt(nn.Module):
    def __init__(self, size: Size, *, dropout: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.positions, size.width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            PlainBlock(size.width, size.heads, dropout) for _ in range(size.layers)
        )
        self.norm = nn.LayerNorm(size.width)

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        x = self.drop(x)
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def copy_weights(self, ours: LanguageModel) -> None:
        """Load regard's weights under the names of this model."""
        weights = ours.state_dict()
        names = {"tokens.": "embedding.tokens.", "positions.": "embedding.positions."}
        names |= {"norm.": "stack.norm."}
        state = {}
        for theirs, our in names.items():
            state |= {
                theirs + name.removeprefix(our): weight
                for name, weight in weights.items()
                if name.startswith(our)
            }
        for number in range(len(self.blocks)):
            block = f"stack.blocks.{number}."
            for kind in ("weight", "bias"):
                qkv = [weights[f"{block}attention.{p}.{kind}"] for p in ("query", "key", "value")]
                layers = {
                    "qkv": torch.cat(qkv),
                    "out": weights[f"{block}attention.out.{kind}"],
                    "norm_1": weights[f"{block}attention_residual.norm.{kind}"],
                    "norm_2": weights[f"{block}mlp_residual.norm.{kind}"],
                    "up_proj": weights[f"{block}mlp.up_proj.{kind}"],
                    "down_proj": weights[f"{block}mlp.down_proj.{kind}"],
                }
                state |= {f"blocks.{number}.{name}.{kind}": one for name, one in layers.items()}
        self.load_state_dict(state)


def build_plain_gpt(size: Size, ours: LanguageModel, *, dropout: float) -> PlainGpt:
    model = PlainGpt(size, dropout=dropout)
    model.copy_weights(ours)
    return model.train()


class HuggingFaceGpt2(nn.Module):
    """Hugging Face's GPT-2 with regard's weights and its own attention."""

    def __init__(self, size: Size, ours: LanguageModel, *, dropout: float) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(
            vocab_size=size.vocabulary,
            n_positions=size.positions,
            n_embd=size.width,
            n_layer=size.layers,
            n_head=size.heads,
            activation_function="gelu",
            resid_pdrop=dropout,
            embd_pdrop=dropout,
            attn_pdrop=dropout,
            use_cache=False,
        )
        self.model = GPT2LMHeadModel(config)
        architecture: Any = ARCHITECTURES.get("gpt2").part()
        family = size.family(dropout=dropout)
        missing, unexpected = self.model.load_state_dict(
            export_tensors(ours, architecture, family=family), strict=False
        )
        absent = [name for name in missing if name != "lm_head.weight"]
        if absent or unexpected:
            raise RuntimeError(f"weights were not copied completely: {absent} {unexpected}")
        self.model.tie_weights()

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        logits = self.model(input_ids=ids).logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class XTransformer(nn.Module):
    """x-transformers with fused attention and tied embeddings, and its own initial weights."""

    def __init__(self, size: Size, *, dropout: float) -> None:
        super().__init__()
        from x_transformers import Decoder, TransformerWrapper

        self.model = TransformerWrapper(
            num_tokens=size.vocabulary,
            max_seq_len=size.positions,
            emb_dropout=dropout,
            tie_embedding=True,
            attn_layers=Decoder(
                dim=size.width,
                depth=size.layers,
                heads=size.heads,
                attn_dim_head=size.width // size.heads,
                attn_flash=True,
                attn_dropout=dropout,
                ff_dropout=dropout,
                layer_dropout=0.0,
            ),
        )

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        logits = self.model(ids)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class PeerStep:
    """One training step of a peer: forward, backward, gradient clipping, fused AdamW."""

    def __init__(self, model: nn.Module, ids: Tensor, *, loss: Loss | None = None) -> None:
        self.model, self.loss = model, model if loss is None else loss
        self.inputs, self.targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def __call__(self) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.inputs, self.targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), MAX_GRAD_NORM)
        self.optimizer.step()
        return float(loss.detach())


def count_parameters(parameters: Iterable[nn.Parameter]) -> int:
    """Shared parameters count once."""
    return sum({id(parameter): parameter.numel() for parameter in parameters}.values())
