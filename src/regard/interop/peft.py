"""Adapters in the format of peft: adapter_config.json and adapter_model.safetensors.

    ours                                     peft's
    stack.blocks.0.attention.query.lora_A    base_model.model.<their module>.lora_A.weight
    prompt (p,w)                             prompt_embeddings (p,w)
    stack.blocks.0.attention.prefix (2,p,u)  prompt_embeddings (p, layers·2·u), keys before values

Where the checkpoint fuses k of our linear layers (GPT-2's queries, keys and values), their adapters
become one of rank k·r: A stacked, B block-diagonal, alpha k times larger, so that the scaling
alpha / rank stays. Shapes: p virtual tokens, w width, u width of keys, r rank.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.interop.huggingface.architecture import Architecture, TensorMapping
from regard.interop.huggingface.config_keys import ConfigKeys
from regard.models.families.transformer import Transformer

KINDS_BY_PEFT_TYPE = {"LORA": "lora", "PROMPT_TUNING": "prompt", "PREFIX_TUNING": "prefix"}
PEFT_KINDS = tuple(KINDS_BY_PEFT_TYPE.values())
"Adapter kinds that peft has too."

PEFT_PREFIX = "base_model.model."
REGARD_PREFIX = "regard."
"Prefix of tensors unknown to peft, such as a task head; peft ignores them."
PROMPT_EMBEDDINGS = "prompt_embeddings"

BASE_PRESERVING_INITS = (True, False, "gaussian", "eva", "orthogonal", "mica")
"Initialisations of peft that leave the base weights unchanged, unlike PiSSA or LoftQ."


def to_peft(
    tensors: Mapping[str, Tensor],
    *,
    adapter: Mapping[str, Any],
    family: Transformer,
    architecture: Architecture,
    base: str,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Config and tensors in peft's format; `adapter` are its settings, `base` its base model."""
    kind = adapter["kind"]
    if kind not in PEFT_KINDS:
        raise UserError(f"peft has no adapter of kind {kind}", topic="export")
    config = {
        "task_type": architecture.peft_task,
        "base_model_name_or_path": base,
        "inference_mode": True,
    }
    body = {name.removeprefix("body."): tensor for name, tensor in tensors.items()}
    if kind == "lora":
        ours = {name: t for name, t in body.items() if name.endswith((".lora_A", ".lora_B"))}
        table, theirs = _lora_to_peft(ours, adapter, family, architecture)
    else:
        ours = {name: t for name, t in body.items() if name.split(".")[-1] == kind}
        table, theirs = _virtual_to_peft(ours, kind, family)
    rest = {
        REGARD_PREFIX + name: tensor
        for name, tensor in tensors.items()
        if name.removeprefix("body.") not in ours
    }
    return {**config, **table}, {**theirs, **rest}


def from_peft(
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    family: Transformer,
    architecture: Architecture,
    modules: Collection[str] | None = None,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Our settings and tensors. `modules` are the linear layers that the adapter has here, if
    known; an adapter trained with peft covers all layers of a fused one."""
    keys = ConfigKeys(config, file="adapter_config.json")
    kind = KINDS_BY_PEFT_TYPE.get(str(config.get("peft_type")))
    if kind is None:
        raise keys.error("peft_type", f"regard has {', '.join(KINDS_BY_PEFT_TYPE)}")
    rest = {
        name.removeprefix(REGARD_PREFIX): t
        for name, t in tensors.items()
        if name.startswith(REGARD_PREFIX)
    }
    theirs = {
        name: tensor for name, tensor in tensors.items() if not name.startswith(REGARD_PREFIX)
    }
    if kind == "lora":
        table, ours = _lora_from_peft(
            keys, theirs, family=family, architecture=architecture, modules=modules
        )
    else:
        table, ours = _virtual_from_peft(keys, theirs, kind, family)
    return {"kind": kind, **table}, {**ours, **rest}


def _lora_to_peft(
    tensors: Mapping[str, Tensor],
    adapter: Mapping[str, Any],
    family: Transformer,
    architecture: Architecture,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    tensor_map = architecture.module_names(family)
    modules = sorted({name.rpartition(".")[0] for name in tensors})
    _check_exportable(modules, tensor_map, architecture)
    theirs: dict[str, Tensor] = {}
    ranks: dict[str, int] = {}
    for name in dict.fromkeys(tensor_map[module].name for module in modules):
        group = [module for module in modules if tensor_map[module].name == name]
        group.sort(key=lambda module: tensor_map[module].chunk)
        full = architecture.peft_prefix + name
        lora_a = [tensors[f"{module}.lora_A"] for module in group]
        lora_b = [(tensor_map[module], tensors[f"{module}.lora_B"]) for module in group]
        theirs[f"{PEFT_PREFIX}{full}.lora_A.weight"] = torch.cat(lora_a)
        theirs[f"{PEFT_PREFIX}{full}.lora_B.weight"] = _block_diagonal(lora_b)
        ranks[full] = adapter["rank"] * len(group)
    common_rank = Counter(ranks.values()).most_common(1)[0][0]
    scaling = adapter["alpha"] / adapter["rank"]
    exceptions = {name: rank for name, rank in ranks.items() if rank != common_rank}
    table = {
        "peft_type": "LORA",
        "r": common_rank,
        "lora_alpha": scaling * common_rank,
        "lora_dropout": adapter.get("dropout", 0.0),
        "target_modules": sorted(ranks),
        "rank_pattern": exceptions,
        "alpha_pattern": {name: scaling * rank for name, rank in exceptions.items()},
        "fan_in_fan_out": any(tensor_map[module].transposed for module in modules),
        "bias": "none",
    }
    return table, {name: tensor.contiguous() for name, tensor in theirs.items()}


def _block_diagonal(matrices: list[tuple[TensorMapping, Tensor]]) -> Tensor:
    """B (out,r) of each layer → (outputs of the fused layer, sum of the ranks)."""
    mapping, first = matrices[0]
    out, rank = first.shape
    fused = first.new_zeros(out * mapping.chunks, rank * len(matrices))
    for number, (layer, tensor) in enumerate(matrices):
        rows = slice(layer.chunk * out, (layer.chunk + 1) * out)
        fused[rows, number * rank : (number + 1) * rank] = tensor
    return fused


def _lora_from_peft(
    config: ConfigKeys,
    tensors: Mapping[str, Tensor],
    *,
    family: Transformer,
    architecture: Architecture,
    modules: Collection[str] | None,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    for key in ("use_dora", "lora_bias", "modules_to_save", "use_qalora"):
        config.check(key, allowed=(False, []), reason="regard has plain LoRA")
    config.check(
        "init_lora_weights",
        allowed=BASE_PRESERVING_INITS,
        reason="this initialisation changed the base weights, which are not in the adapter's files",
        hint="Save it as plain LoRA: save_pretrained with "
        "path_initial_model_for_weight_conversion, or merge it into its base.",
    )
    config.check("bias", allowed=("none",), reason="regard's LoRA does not train biases")
    tensor_map = architecture.module_names(family)
    ours: dict[str, Tensor] = {}
    used: set[str] = set()
    for name in dict.fromkeys(mapping.name for mapping in tensor_map.values()):
        pair = _lora_pair(tensors, name, architecture)
        if pair is None:
            continue
        (name_a, lora_a), (name_b, lora_b) = pair
        used |= {name_a, name_b}
        group = [module for module, mapping in tensor_map.items() if mapping.name == name]
        adapted = [module for module in group if modules is None or module in modules]
        ranks = 1 if modules is None else len(adapted)  # one rank for all, or r for each
        for number, module in enumerate(adapted):
            rows = lora_b.chunk(len(group))[tensor_map[module].chunk]
            ours[f"{module}.lora_A"] = lora_a.chunk(ranks)[number % ranks]
            ours[f"{module}.lora_B"] = rows.chunk(ranks, dim=1)[number % ranks]
    _check_all_used(used, tensors, architecture)
    return _lora_table(config, ours), {name: t.contiguous() for name, t in ours.items()}


def _lora_table(config: ConfigKeys, ours: Mapping[str, Tensor]) -> dict[str, Any]:
    """Our settings; a rank or scaling that differs between layers is refused."""
    ranks = {len(tensor) for name, tensor in ours.items() if name.endswith(".lora_A")}
    common_rank, common_alpha = config.table["r"], config.table["lora_alpha"]
    rank_pattern = config.table.get("rank_pattern") or {}
    alpha_pattern = config.table.get("alpha_pattern") or {}
    scalings = {common_alpha / common_rank} | {
        alpha_pattern.get(name, common_alpha) / rank_pattern.get(name, common_rank)
        for name in {*rank_pattern, *alpha_pattern}
    }
    if len(ranks) != 1 or len(scalings) != 1:
        raise config.error("rank_pattern", "regard's LoRA has one rank and alpha for all layers")
    rank, scaling = ranks.pop(), scalings.pop()
    if config.table.get("use_rslora"):
        scaling *= math.sqrt(common_rank)  # rsLoRA scales by alpha / √rank
    targets = sorted({name.rpartition(".")[0] for name in ours})
    return {
        "rank": rank,
        "alpha": scaling * rank,
        "dropout": config.table.get("lora_dropout", 0.0),
        "targets": targets,
    }


def _lora_pair(
    tensors: Mapping[str, Tensor], name: str, architecture: Architecture
) -> list[tuple[str, Tensor]] | None:
    """Names and tensors of A and B of one of their modules, with any prefix of the body."""
    for prefix in (architecture.peft_prefix, architecture.prefix, ""):
        names = [f"{PEFT_PREFIX}{prefix}{name}.lora_{letter}.weight" for letter in "AB"]
        if all(each in tensors for each in names):
            return [(each, tensors[each]) for each in names]
    return None


def _virtual_to_peft(
    tensors: Mapping[str, Tensor], kind: str, family: Transformer
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    heads = family.heads
    if kind == "prompt":
        table, peft_type = tensors["prompt"], "PROMPT_TUNING"
        width = table.shape[1]
    else:
        layers = [_prefix_name(layer) for layer in range(family.layers)]
        # (layers,2,p,u) → (p,layers,2,u)
        stacked = torch.stack([tensors[name] for name in layers]).permute(2, 0, 1, 3)
        table, peft_type = stacked.flatten(1), "PREFIX_TUNING"
        width, heads = stacked.shape[-1], family.key_value_heads or family.heads
    config = {
        "peft_type": peft_type,
        "num_virtual_tokens": len(table),
        "token_dim": width,
        "num_transformer_submodules": 1,
        "num_attention_heads": heads,
        "num_layers": family.layers,
    }
    extra = {"encoder_hidden_size": width} if kind == "prefix" else {"prompt_tuning_init": "RANDOM"}
    return {**config, **extra}, {PROMPT_EMBEDDINGS: table.contiguous()}


def _virtual_from_peft(
    config: ConfigKeys, tensors: Mapping[str, Tensor], kind: str, family: Transformer
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    config.check(
        "prefix_projection", allowed=(False,), reason="regard trains keys and values directly"
    )
    if PROMPT_EMBEDDINGS not in tensors:
        raise UserError(f"the adapter has no tensor {PROMPT_EMBEDDINGS}", topic="import")
    table = tensors[PROMPT_EMBEDDINGS]
    settings = {"length": len(table)}
    if kind == "prompt":
        return settings, {"prompt": table}
    if table.shape[1] % (2 * family.layers):
        raise UserError(
            f"{PROMPT_EMBEDDINGS} has {table.shape[1]} columns, not a multiple of "
            f"2 · {family.layers} layers",
            topic="import",
        )
    by_layer = table.view(len(table), family.layers, 2, -1).permute(1, 2, 0, 3)
    return settings, {
        _prefix_name(layer): by_layer[layer].contiguous() for layer in range(family.layers)
    }


def _prefix_name(layer: int) -> str:
    return f"stack.blocks.{layer}.attention.prefix"


def _check_exportable(
    modules: list[str], tensor_map: Mapping[str, TensorMapping], architecture: Architecture
) -> None:
    if not modules:
        raise UserError("the adapter has no LoRA tensors", topic="export")
    unmapped = [module for module in modules if module not in tensor_map]
    if unmapped:
        raise UserError(
            f"{unmapped[0]} has no counterpart in {architecture.name}, so peft could not load it",
            topic="export",
            hint="Merge the adapter into its base, and export that.",
        )


def _check_all_used(
    used: set[str], tensors: Mapping[str, Tensor], architecture: Architecture
) -> None:
    unused = sorted(tensors.keys() - used)
    if unused or not used:
        what = f"{unused[0]} belongs to no linear layer" if unused else "it has no LoRA tensors"
        raise UserError(f"the adapter does not fit {architecture.name}: {what}", topic="import")
