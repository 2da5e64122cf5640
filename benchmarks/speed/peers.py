"""Other ways to the same decoder, with regard's own weights where they can be copied.

`PlainGpt` is what people write first: torch's usual modules, fused attention, all scores at once
(nanoGPT is built so). It also stands for compiled code. Hugging Face's GPT-2 and x-transformers are
taken as their packages give them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.speed.sizes import Size
from torch import Tensor, nn

from regard.interop.huggingface.architecture import ARCHITECTURES
from regard.interop.huggingface.tensors import gathered
from regard.models.architectures.language_model import LanguageModel

CLIP = 1.0
Loss = Callable[[Tensor, Tensor], Tensor]


class PlainBlock(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up_proj, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        b, t, w = x.shape
        parts = self.qkv(self.norm_1(x)).split(w, dim=2)
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in parts)
        dropped = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropped)
        x = x + self.drop(self.out(mixed.transpose(1, 2).reshape(b, t, w)))
        return x + self.drop(self.narrow(F.gelu(self.up_proj(self.norm_2(x)))))


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
        scores = self.norm(x) @ self.tokens.weight.T
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())

    def take(self, ours: LanguageModel) -> None:
        """Regard's weights, under the names they have here."""
        held = ours.state_dict()
        names = {"tokens.": "embedding.tokens.", "positions.": "embedding.positions."}
        names |= {"norm.": "stack.norm."}
        state = {}
        for theirs, our in names.items():
            state |= {theirs + k.removeprefix(our): v for k, v in held.items() if k.startswith(our)}
        for number in range(len(self.blocks)):
            block = f"stack.blocks.{number}."
            for sort in ("weight", "bias"):
                parts = [held[f"{block}attention.{p}.{sort}"] for p in ("query", "key", "value")]
                named = {
                    "qkv": torch.cat(parts),
                    "out": held[f"{block}attention.out.{sort}"],
                    "norm_1": held[f"{block}attention_residual.norm.{sort}"],
                    "norm_2": held[f"{block}mlp_residual.norm.{sort}"],
                    "widen": held[f"{block}mlp.up_proj.{sort}"],
                    "narrow": held[f"{block}mlp.down_proj.{sort}"],
                }
                state |= {f"blocks.{number}.{name}.{sort}": one for name, one in named.items()}
        self.load_state_dict(state)


def plain(size: Size, ours: LanguageModel, *, dropout: float) -> PlainGpt:
    model = PlainGpt(size, dropout=dropout)
    model.take(ours)
    return model.train()


class HuggingFaceGpt2(nn.Module):
    """Hugging Face's GPT-2 with regard's weights; its own fused attention, its own loss."""

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
            gathered(ours, architecture, family=family), strict=False
        )
        left = [name for name in missing if name != "lm_head.weight"]
        if left or unexpected:
            raise RuntimeError(f"weights were not copied whole: {left} {unexpected}")
        self.model.tie_weights()

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        scores = self.model(input_ids=ids).logits
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


class XTransformer(nn.Module):
    """x-transformers with fused attention and tied tables; its weights are its own."""

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
        scores = self.model(ids)
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


class PeerStep:
    """What one update is for every peer: forward, backward, clip, fused AdamW."""

    def __init__(self, model: nn.Module, ids: Tensor, *, loss: Loss | None = None) -> None:
        self.model, self.loss = model, model if loss is None else loss
        self.inputs, self.targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def __call__(self) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.inputs, self.targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        return float(loss.detach())


def count(parameters: Iterable[nn.Parameter]) -> int:
    """Each once, also where two names share one."""
    return sum({id(one): one.numel() for one in parameters}.values())
