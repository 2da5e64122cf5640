"""GGUF, the one-file form of llama.cpp, read through the `gguf` package: LLaMA-like models.

Weights that were rounded to a few bits become float32 again, as they were rounded. Queries and
keys stand in another order of coordinates there, pairs of a rotation side by side; they are put
back into halves, as Hugging Face has them and regard.

    (h, d/2, 2) -> (h, 2, d/2)        h heads, d head width
"""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.gguf_tokenizer import tokenizer_of
from regard.interop.huggingface.checkpoint import Checkpoint
from regard.interop.huggingface.config_keys import Keys

NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "output": "lm_head",
}
BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
WHOLE = ("F32", "F16", "BF16", "F64")
"Forms of numbers that are not rounded in blocks."


class GgufTensors:
    """The tensors of a GGUF file by Hugging Face's names."""

    def __init__(self, reader: Any, *, heads: int, key_value_heads: int, where: str) -> None:
        self.where = where
        self._tensors = {_their_name(tensor.name): tensor for tensor in reader.tensors}
        self._heads = {"q_proj": heads, "k_proj": key_value_heads}

    def names(self) -> list[str]:
        return sorted(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        # GGUF counts dimensions from the innermost.
        return tuple(int(size) for size in reversed(self._tensors[name].shape))

    def read(self, name: str) -> Tensor:
        tensor = self._tensors[name]
        try:
            values = _package().dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError:
            raise UserError(
                f"{name} is rounded as {tensor.tensor_type.name}, which the gguf package cannot "
                "undo",
                topic="import",
                where=self.where,
                hint="Take the same model in another rounding, such as Q8_0.",
            ) from None
        ours = torch.from_numpy(np.array(values, dtype=np.float32))  # a copy: the file is read-only
        heads = self._heads.get(name.split(".")[-2])
        return ours.reshape(self.shape(name)) if heads is None else in_halves(ours, heads=heads)


def in_halves(paired: Tensor, *, heads: int) -> Tensor:
    """(h·d, …): the coordinates of each head, from pairs side by side to halves."""
    apart = paired.view(heads, -1, 2, *paired.shape[1:]).transpose(1, 2)
    return apart.reshape(paired.shape)


def read_gguf(file: Path) -> tuple[Checkpoint, Tokenizer]:
    reader, table = _opened(file)
    facts = Keys(table, file=str(file))
    _refuse_others(facts)
    heads = facts.integer("llama.attention.head_count")
    shared = facts.integer("llama.attention.head_count_kv", heads)
    tensors = GgufTensors(reader, heads=heads, key_value_heads=shared, where=str(file))
    if "rope_freqs.weight" in tensors.names():
        raise UserError(
            "rope_freqs.weight: its rotary positions are stretched, regard has plain ones alone",
            topic="import",
            where=str(file),
        )
    config = Keys(_config(facts, tensors), file=str(file))
    tokenizer = tokenizer_of(facts, name=file.stem)
    return Checkpoint(config, tensors, _remarks(file, reader)), tokenizer


def _package() -> Any:
    try:
        return import_module("gguf")
    except ImportError:
        raise UserError(
            "reading .gguf files needs the package gguf",
            topic="import",
            hint="Install it with pip install 'regard[gguf]'.",
        ) from None


def _opened(file: Path) -> tuple[Any, dict[str, Any]]:
    """The package's reader, and what the file says of itself."""
    package = _package()
    try:
        reader = package.GGUFReader(file)
        return reader, {name: field.contents() for name, field in reader.fields.items()}
    except (ValueError, IndexError, KeyError, OverflowError) as problem:
        # What numpy says where a file ends too soon, and the package where it is another sort.
        raise UserError(
            f"is no GGUF file, or damaged ({problem})",
            topic="import",
            where=str(file),
            hint="Get the file anew.",
        ) from None


def _refuse_others(facts: Keys) -> None:
    facts.refuse("general.architecture", usual=("llama",), reason="regard reads llama in GGUF")
    facts.refuse("llama.expert_count", usual=(0,), reason="regard has no mixture of experts")
    facts.refuse(
        "llama.rope.scaling.type",
        usual=("none",),
        reason="regard has plain rotary positions alone",
    )
    heads = facts.integer("llama.attention.head_count")
    width = facts.integer("llama.embedding_length") // max(heads, 1)
    for key in ("rope.dimension_count", "attention.key_length", "attention.value_length"):
        facts.refuse(f"llama.{key}", usual=(width,), reason=f"regard has heads of width {width}")


def _config(facts: Keys, tensors: GgufTensors) -> dict[str, Any]:
    """The same facts under Hugging Face's keys."""
    heads = facts.integer("llama.attention.head_count")
    return {
        "model_type": "llama",
        "vocab_size": tensors.shape("embed_tokens.weight")[0]
        if "embed_tokens.weight" in tensors.names()
        else facts.integer("llama.vocab_size"),
        "hidden_size": facts.integer("llama.embedding_length"),
        "num_hidden_layers": facts.integer("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": facts.integer("llama.attention.head_count_kv", heads),
        "intermediate_size": facts.integer("llama.feed_forward_length"),
        "max_position_embeddings": facts.integer("llama.context_length"),
        "rms_norm_eps": _written(facts.number("llama.attention.layer_norm_rms_epsilon")),
        "rope_theta": _written(facts.number("llama.rope.freq_base", 10_000.0)),
        "tie_word_embeddings": "lm_head.weight" not in tensors.names(),
    }


def _written(number: float) -> float:
    """The number as a person wrote it, before it became a float32."""
    return float(str(np.float32(number)))


def _their_name(name: str) -> str:
    """`blk.3.attn_q.weight` -> `layers.3.self_attn.q_proj.weight`; unknown ones stay."""
    block = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
    if block and block[2] in BLOCK_NAMES:
        return f"layers.{block[1]}.{BLOCK_NAMES[block[2]]}.{block[3]}"
    stem, _, suffix = name.rpartition(".")
    return f"{NAMES[stem]}.{suffix}" if stem in NAMES else name


def _remarks(file: Path, reader: Any) -> list[str]:
    forms = Counter(tensor.tensor_type.name for tensor in reader.tensors)
    rounded = {form: count for form, count in forms.items() if form not in WHOLE}
    said = [f"from {file.name}"]
    if rounded:
        counts = ", ".join(f"{form} in {count}" for form, count in rounded.items())
        said.append(
            f"its weights were rounded ({counts} tensors): it answers a little otherwise than the "
            "model it was made from"
        )
    if re.search(r"instruct|chat", file.name, re.IGNORECASE):
        said.append(
            "it is an Instruct model: tuned to answer in a form of chat, which regard does not "
            "add to a text"
        )
    return said
