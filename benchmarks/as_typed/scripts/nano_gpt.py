"""A GPT on characters, written and typed as nanoGPT is: one script, no other package than torch.

    python nano_gpt.py train.txt val.txt [--fused] [--compile] [--threads 1]

Its defaults are nanoGPT's recipe for a CPU: 4 layers, 4 heads, width 128, context 64, 12 random
windows of the text a step, 2,000 steps, AdamW (0.9, 0.99) at 1e-3 with a cosine to 1e-4, no
dropout, no biases; every 250 steps 20 batches of either split are evaluated, and the weights saved
if the validation loss is the lowest so far. It prints the loss and the time of every step.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    vocabulary: int
    layers: int = 4
    heads: int = 4
    width: int = 128
    context: int = 64


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        w = config.width
        self.heads = config.heads
        self.norm_1 = nn.LayerNorm(w, bias=False)
        self.qkv = nn.Linear(w, 3 * w, bias=False)
        self.out = nn.Linear(w, w, bias=False)
        self.norm_2 = nn.LayerNorm(w, bias=False)
        self.up = nn.Linear(w, 4 * w, bias=False)
        self.down = nn.Linear(4 * w, w, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        b, t, w = x.shape
        q, k, v = (
            one.view(b, t, self.heads, w // self.heads).transpose(1, 2)
            for one in self.qkv(self.norm_1(x)).split(w, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, w))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Gpt(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                is_residual = name.endswith(("out.weight", "down.weight"))
                std = 0.02 / math.sqrt(2 * config.layers) if is_residual else 0.02
                nn.init.normal_(parameter, std=std)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T

    def loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(self(ids).flatten(0, 1), targets.flatten())


def encode(text: str, characters: str) -> np.ndarray:
    ids = {character: number for number, character in enumerate(characters)}
    return np.array([ids[character] for character in text], dtype=np.uint16)


def random_windows(data: np.ndarray, *, rows: int, context: int) -> tuple[Tensor, Tensor]:
    begins = torch.randint(len(data) - context, (rows,)).tolist()
    windows = [torch.from_numpy(data[i : i + context + 1].astype(np.int64)) for i in begins]
    batch = torch.stack(windows)
    return batch[:, :-1].contiguous(), batch[:, 1:].contiguous()


def learning_rate(step: int, options: argparse.Namespace) -> float:
    if step < options.warmup:
        return options.lr * step / options.warmup
    decay = min(1.0, (step - options.warmup) / (options.steps - options.warmup))
    return options.min_lr + 0.5 * (1 + math.cos(math.pi * decay)) * (options.lr - options.min_lr)


def build_optimizer(model: nn.Module, options: argparse.Namespace) -> torch.optim.Optimizer:
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    # Without --fused as nanoGPT: fused on CUDA alone, a loop over the tensors on a CPU.
    fused = {"fused": True} if options.fused else {}
    return torch.optim.AdamW(groups, lr=options.lr, betas=(0.9, 0.99), **fused)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("val", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--min-lr", type=float, default=1e-4)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--evaluate-every", type=int, default=250)
    parser.add_argument("--evaluate-batches", type=int, default=20)
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--threads", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    torch.manual_seed(1337)
    if options.threads:
        torch.set_num_threads(options.threads)
    texts = {split: getattr(options, split).read_text("utf-8") for split in ("train", "val")}
    characters = "".join(sorted(set("".join(texts.values()))))
    data = {split: encode(text, characters) for split, text in texts.items()}
    config = Config(len(characters))
    model = Gpt(config)
    loss_of = torch.compile(model.loss) if options.compile else model.loss
    optimizer = build_optimizer(model, options)
    options.out.mkdir(exist_ok=True)

    def batch_of(split: str) -> tuple[Tensor, Tensor]:
        return random_windows(data[split], rows=options.rows, context=config.context)

    @torch.no_grad()
    def estimate(split: str) -> float:
        model.eval()
        losses = [loss_of(*batch_of(split)).item() for _ in range(options.evaluate_batches)]
        model.train()
        return sum(losses) / len(losses)

    best = math.inf
    batch = batch_of("train")
    began = time.perf_counter()
    for step in range(options.steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, options)
        if step % options.evaluate_every == 0:
            train, val = estimate("train"), estimate("val")
            print(f"step {step}: train loss {train:.4f}, val loss {val:.4f}", flush=True)
            if val < best and step:
                best = val
                moments = optimizer.state_dict()["state"]
                state = {
                    f"optimizer.{number}.{name}": value
                    for number, values in moments.items()
                    for name, value in values.items()
                }
                save_file(model.state_dict() | state, options.out / "checkpoint.safetensors")
        loss = loss_of(*batch)
        batch = batch_of("train")
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        now = time.perf_counter()
        print(f"iter {step}: loss {loss.item():.4f}, time {1e3 * (now - began):.2f}ms")
        began = now


if __name__ == "__main__":
    main()
