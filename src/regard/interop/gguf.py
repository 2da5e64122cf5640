"""GGUF, the single-file format of llama.cpp, read with the `gguf` package: LLaMA models.

Quantized weights are dequantized to float32. llama.cpp permutes the rows of queries and keys so
that the two coordinates of a rotation are adjacent; this is undone, since Hugging Face and regard
rotate halves.

    (h, d/2, 2) -> (h, 2, d/2)        h heads, d head width
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.gguf_tokenizer import build_gguf_tokenizer
from regard.interop.huggingface.checkpoint import Checkpoint, StoredTensor
from regard.interop.huggingface.config_keys import ConfigKeys

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
UNQUANTIZED_TYPES = ("F32", "F16", "BF16", "F64")
"Tensor types that are not quantized."


def _read_tensor(tensor: Any, name: str, *, heads: Mapping[str, int], where: str) -> Tensor:
    """A tensor in float32; `heads` are those of the modules whose rows are permuted."""
    try:
        with np.errstate(all="ignore"):  # numbers that are not finite are refused later, by name
            values = _package().dequantize(tensor.data, tensor.tensor_type)
    except NotImplementedError:
        raise UserError(
            f"{name} is quantized as {tensor.tensor_type.name}, which the gguf package cannot "
            "dequantize",
            topic="import",
            where=where,
            hint="Take the same model in another quantization, such as Q8_0.",
        ) from None
    ours = torch.from_numpy(np.array(values, dtype=np.float32))  # a copy: the file is read-only
    module = name.split(".")[-2]
    if module in heads:
        return unpermute_rotary(ours, heads=heads[module])
    return ours.reshape(_shape(tensor))


def _shape(tensor: Any) -> tuple[int, ...]:
    """GGUF lists the innermost dimension first."""
    return tuple(int(size) for size in reversed(tensor.shape))


def unpermute_rotary(paired: Tensor, *, heads: int) -> Tensor:
    """(h·d, …): the rows of each head, from adjacent pairs to halves."""
    halves = paired.view(heads, -1, 2, *paired.shape[1:]).transpose(1, 2)
    return halves.reshape(paired.shape)


def read_gguf(file: Path) -> tuple[Checkpoint, Tokenizer]:
    reader, table = _open(file)
    metadata = ConfigKeys(table, file=str(file))
    _check_supported(metadata)
    heads = metadata.integer("llama.attention.head_count")
    key_value_heads = metadata.integer("llama.attention.head_count_kv", heads)
    read = partial(
        _read_tensor, heads={"q_proj": heads, "k_proj": key_value_heads}, where=str(file)
    )
    by_name = {_hugging_face_name(tensor.name): tensor for tensor in reader.tensors}
    tensors = {
        name: StoredTensor(_shape(tensor), partial(read, tensor, name))
        for name, tensor in sorted(by_name.items())
    }
    if "rope_freqs.weight" in tensors:
        raise UserError(
            "rope_freqs.weight: its rotary positions are scaled, regard has no RoPE scaling",
            topic="import",
            where=str(file),
        )
    config = ConfigKeys(_config(metadata, tensors), file=str(file))
    tokenizer = build_gguf_tokenizer(metadata, name=file.stem)
    return Checkpoint(config, tensors, str(file), _remarks(file, reader)), tokenizer


def _package() -> Any:
    try:
        return import_module("gguf")
    except ImportError:
        raise UserError(
            "reading .gguf files needs the package gguf",
            topic="import",
            hint="Install it with pip install 'regard[gguf]'.",
        ) from None


def _open(file: Path) -> tuple[Any, dict[str, Any]]:
    """The package's reader and the file's metadata."""
    package = _package()
    try:
        reader = package.GGUFReader(file)
        return reader, {name: field.contents() for name, field in reader.fields.items()}
    except (ValueError, IndexError, KeyError, OverflowError) as problem:
        # numpy raises these on a truncated file, the package on one of another format.
        raise UserError(
            f"is not a GGUF file, or damaged ({problem})",
            topic="import",
            where=str(file),
            hint="Download the file again.",
        ) from None


def _check_supported(metadata: ConfigKeys) -> None:
    metadata.check(
        "general.architecture", allowed=("llama",), reason="regard reads only llama from GGUF"
    )
    metadata.check("llama.expert_count", allowed=(0,), reason="regard has no mixture of experts")
    metadata.check(
        "llama.rope.scaling.type",
        allowed=("none",),
        reason="regard has no RoPE scaling",
    )
    heads = metadata.integer("llama.attention.head_count")
    width = metadata.integer("llama.embedding_length") // max(heads, 1)
    for key in ("rope.dimension_count", "attention.key_length", "attention.value_length"):
        metadata.check(
            f"llama.{key}", allowed=(width,), reason=f"regard has heads of width {width}"
        )


def _config(metadata: ConfigKeys, tensors: Mapping[str, StoredTensor]) -> dict[str, Any]:
    """The metadata under Hugging Face's keys."""
    heads = metadata.integer("llama.attention.head_count")
    return {
        "model_type": "llama",
        "vocab_size": tensors["embed_tokens.weight"].shape[0]
        if "embed_tokens.weight" in tensors
        else metadata.integer("llama.vocab_size"),
        "hidden_size": metadata.integer("llama.embedding_length"),
        "num_hidden_layers": metadata.integer("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": metadata.integer("llama.attention.head_count_kv", heads),
        "intermediate_size": metadata.integer("llama.feed_forward_length"),
        "max_position_embeddings": metadata.integer("llama.context_length"),
        "rms_norm_eps": _shortest_float(metadata.number("llama.attention.layer_norm_rms_epsilon")),
        "rope_theta": _shortest_float(metadata.number("llama.rope.freq_base", 10_000.0)),
        "tie_word_embeddings": "lm_head.weight" not in tensors,
    }


def _shortest_float(number: float) -> float:
    """The shortest decimal that rounds to this float32: 1e-05, not 9.999999747e-06."""
    return float(str(np.float32(number)))


def _hugging_face_name(name: str) -> str:
    """`blk.3.attn_q.weight` → `layers.3.self_attn.q_proj.weight`; unknown names stay."""
    block = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
    if block and block[2] in BLOCK_NAMES:
        return f"layers.{block[1]}.{BLOCK_NAMES[block[2]]}.{block[3]}"
    stem, _, suffix = name.rpartition(".")
    return f"{NAMES[stem]}.{suffix}" if stem in NAMES else name


def _remarks(file: Path, reader: Any) -> list[str]:
    types = Counter(tensor.tensor_type.name for tensor in reader.tensors)
    quantized = {name: count for name, count in types.items() if name not in UNQUANTIZED_TYPES}
    remarks = [f"from {file.name}"]
    if quantized:
        counts = ", ".join(f"{name} in {count}" for name, count in quantized.items())
        remarks.append(
            f"its weights were quantized ({counts} tensors): its outputs differ slightly from the "
            "original model's"
        )
    if re.search(r"instruct|chat", file.name, re.IGNORECASE):
        remarks.append(
            "it is an Instruct model: tuned for a chat template, which regard does not apply"
        )
    return remarks
