"""Adapters in the form of the peft library: adapter_config.json and adapter_model.safetensors.

    ours                                     peft's
    stack.blocks.0.attention.query.lora_A    base_model.model.<their module>.lora_A.weight
    prompt (p,w)                             prompt_embeddings (p,w)
    stack.blocks.0.attention.prefix (2,p,u)  prompt_embeddings (p, layers·2·u), keys before values

Where several linear layers of ours are one there (GPT-2's queries, keys and values), their k
adapters are one of k times the rank: A stacked, B in blocks, alpha k times as large, so that
alpha / rank stays. Shapes: p virtual places, w width, u width of keys, r rank.
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
from regard.models.families.transformer import Transformer

KINDS = ("lora", "prompt", "prefix")
"The kinds of adapters that peft has too."

BEFORE = "base_model.model."
OWN = "regard."
"Stands before tensors that peft has no place for, such as a task's head; peft passes them over."
TABLE = "prompt_embeddings"

BASE_STAYS = (None, True, False, "gaussian", "eva", "orthogonal", "mica")
"How peft may draw an adapter without changing the weights below it, as PiSSA or LoftQ do."


def to_peft(
    tensors: Mapping[str, Tensor],
    *,
    adapter: Mapping[str, Any],
    family: Transformer,
    architecture: Architecture,
    base: str,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The two files of an adapter whose settings are `adapter`; `base` is the model it is for."""
    kind = adapter["kind"]
    if kind not in KINDS:
        raise UserError(f"peft has no adapter of the kind {kind}", topic="export")
    config = {
        "task_type": architecture.task,
        "base_model_name_or_path": base,
        "inference_mode": True,
    }
    inner = {name.removeprefix("body."): tensor for name, tensor in tensors.items()}
    if kind == "lora":
        mine = {name: t for name, t in inner.items() if name.endswith((".lora_A", ".lora_B"))}
        table, written = _lora_to_peft(mine, adapter, family, architecture)
    else:
        mine = {name: t for name, t in inner.items() if name.split(".")[-1] == kind}
        table, written = _virtual_to_peft(mine, kind, family)
    rest = {OWN + name: tensor for name, tensor in tensors.items() if not _is_in(name, mine)}
    return {**config, **table}, {**written, **rest}


def from_peft(
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    family: Transformer,
    architecture: Architecture,
    modules: Collection[str] | None = None,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Our settings and tensors. `modules` are the linear layers that the adapter has here, where
    that is known; an adapter that peft made has all that are one there."""
    kind = {"LORA": "lora", "PROMPT_TUNING": "prompt", "PREFIX_TUNING": "prefix"}.get(
        str(config.get("peft_type"))
    )
    if kind is None:
        raise _refused(config, "peft_type", "regard has LORA, PROMPT_TUNING and PREFIX_TUNING")
    rest = {name.removeprefix(OWN): t for name, t in tensors.items() if name.startswith(OWN)}
    theirs = {name: tensor for name, tensor in tensors.items() if not name.startswith(OWN)}
    if kind == "lora":
        table, ours = _lora_from_peft(
            config, theirs, family=family, architecture=architecture, modules=modules
        )
    else:
        table, ours = _virtual_from_peft(config, theirs, kind, family)
    return {"kind": kind, **table}, {**ours, **rest}


def _lora_to_peft(
    tensors: Mapping[str, Tensor],
    adapter: Mapping[str, Any],
    family: Transformer,
    architecture: Architecture,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    tensor_map = architecture.module_names(family)
    modules = sorted({name.rpartition(".")[0] for name in tensors})
    _check_known(modules, tensor_map, architecture)
    written: dict[str, Tensor] = {}
    ranks: dict[str, int] = {}
    for name in dict.fromkeys(tensor_map[module].name for module in modules):
        group = [module for module in modules if tensor_map[module].name == name]
        group.sort(key=lambda module: tensor_map[module].part)
        full = architecture.adapted_prefix + name
        lora_a = [tensors[f"{module}.lora_A"] for module in group]
        lora_b = [(tensor_map[module], tensors[f"{module}.lora_B"]) for module in group]
        written[f"{BEFORE}{full}.lora_A.weight"] = torch.cat(lora_a)
        written[f"{BEFORE}{full}.lora_B.weight"] = _in_blocks(lora_b)
        ranks[full] = adapter["rank"] * len(group)
    usual = Counter(ranks.values()).most_common(1)[0][0]
    share = adapter["alpha"] / adapter["rank"]
    unusual = {name: rank for name, rank in ranks.items() if rank != usual}
    table = {
        "peft_type": "LORA",
        "r": usual,
        "lora_alpha": share * usual,
        "lora_dropout": adapter.get("dropout", 0.0),
        "target_modules": sorted(ranks),
        "rank_pattern": unusual,
        "alpha_pattern": {name: share * rank for name, rank in unusual.items()},
        "fan_in_fan_out": any(tensor_map[module].turned for module in modules),
        "bias": "none",
    }
    return table, {name: tensor.contiguous() for name, tensor in written.items()}


def _in_blocks(parts: list[tuple[TensorMapping, Tensor]]) -> Tensor:
    """(out,r) of each part -> (all outputs, all ranks), each in its own rows and columns."""
    place, first = parts[0]
    out, rank = first.shape
    whole = first.new_zeros(out * place.parts, rank * len(parts))
    for number, (where, tensor) in enumerate(parts):
        rows = slice(where.part * out, (where.part + 1) * out)
        whole[rows, number * rank : (number + 1) * rank] = tensor
    return whole


def _lora_from_peft(
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    family: Transformer,
    architecture: Architecture,
    modules: Collection[str] | None,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    for key in ("use_dora", "lora_bias", "modules_to_save", "use_qalora"):
        if config.get(key):
            raise _refused(config, key, "regard has plain LoRA")
    if config.get("init_lora_weights") not in BASE_STAYS:
        raise _refused(
            config,
            "init_lora_weights",
            "the base was changed when this adapter was made, and only the adapter is here",
            hint="Write it as plain LoRA: save_pretrained with "
            "path_initial_model_for_weight_conversion, or merge it into its base.",
        )
    if config.get("bias", "none") != "none":
        raise _refused(config, "bias", "regard's LoRA leaves biases as they are")
    tensor_map = architecture.module_names(family)
    ours: dict[str, Tensor] = {}
    used: set[str] = set()
    for name in dict.fromkeys(place.name for place in tensor_map.values()):
        found = _pair(tensors, name, architecture)
        if found is None:
            continue
        used |= {held for held, _ in found}
        (_, lora_a), (_, lora_b) = found
        group = [module for module, place in tensor_map.items() if place.name == name]
        if modules is None:
            for module in group:
                ours[f"{module}.lora_A"] = lora_a
                ours[f"{module}.lora_B"] = lora_b.chunk(len(group))[tensor_map[module].part]
            continue
        chosen = [module for module in group if module in modules]
        for number, module in enumerate(chosen):
            rows = lora_b.chunk(len(group))[tensor_map[module].part]
            ours[f"{module}.lora_A"] = lora_a.chunk(len(chosen))[number]
            ours[f"{module}.lora_B"] = rows.chunk(len(chosen), dim=1)[number]
    _check_used(used, tensors, architecture)
    return _lora_table(config, ours), {name: t.contiguous() for name, t in ours.items()}


def _lora_table(config: Mapping[str, Any], ours: Mapping[str, Tensor]) -> dict[str, Any]:
    """Our settings; rank and share are those of every layer, or it cannot be told here."""
    ranks = {len(tensor) for name, tensor in ours.items() if name.endswith(".lora_A")}
    usual = config["r"]
    patterns = config.get("rank_pattern") or {}
    alphas = config.get("alpha_pattern") or {}
    shares = {config["lora_alpha"] / usual} | {
        alphas.get(name, config["lora_alpha"]) / patterns.get(name, usual)
        for name in {*patterns, *alphas}
    }
    if len(ranks) != 1 or len(shares) != 1:
        raise _refused(
            config, "rank_pattern", "regard's LoRA has one rank and alpha for all layers"
        )
    rank, share = ranks.pop(), shares.pop()
    if config.get("use_rslora"):
        share *= math.sqrt(usual)  # it divides alpha by the root of the rank
    targets = sorted({name.rpartition(".")[0] for name in ours})
    return {
        "rank": rank,
        "alpha": share * rank,
        "dropout": config.get("lora_dropout", 0.0),
        "targets": targets,
    }


def _pair(
    tensors: Mapping[str, Tensor], name: str, architecture: Architecture
) -> list[tuple[str, Tensor]] | None:
    """A and B of one of their modules, whether its body has the prefix or not."""
    for prefix in (architecture.adapted_prefix, architecture.prefix, ""):
        names = [f"{BEFORE}{prefix}{name}.lora_{letter}.weight" for letter in "AB"]
        if all(held in tensors for held in names):
            return [(held, tensors[held]) for held in names]
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
        # (layers,2,p,u) -> (p,layers,2,u)
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
    own = {"encoder_hidden_size": width} if kind == "prefix" else {"prompt_tuning_init": "RANDOM"}
    return {**config, **own}, {TABLE: table.contiguous()}


def _virtual_from_peft(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], kind: str, family: Transformer
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if config.get("prefix_projection"):
        raise _refused(config, "prefix_projection", "regard trains keys and values themselves")
    if TABLE not in tensors:
        raise UserError(f"the adapter has no tensor {TABLE}", topic="import")
    table = tensors[TABLE]
    settings = {"length": len(table)}
    if kind == "prompt":
        return settings, {"prompt": table}
    lora_b = 2 * family.layers
    if table.shape[1] % lora_b:
        raise UserError(
            f"{TABLE} has {table.shape[1]} columns, which {family.layers} layers do not share",
            topic="import",
        )
    apart = table.view(len(table), family.layers, 2, -1).permute(1, 2, 0, 3)
    return settings, {
        _prefix_name(layer): apart[layer].contiguous() for layer in range(family.layers)
    }


def _prefix_name(layer: int) -> str:
    return f"stack.blocks.{layer}.attention.prefix"


def _is_in(name: str, mine: Mapping[str, Tensor]) -> bool:
    return name.removeprefix("body.") in mine


def _check_known(
    modules: list[str], tensor_map: Mapping[str, TensorMapping], there: Architecture
) -> None:
    if not modules:
        raise UserError("the adapter has no LoRA tensors", topic="export")
    strange = [module for module in modules if module not in tensor_map]
    if strange:
        raise UserError(
            f"{strange[0]} has no counterpart in {there.name}, so peft could not load it",
            topic="export",
            hint="Merge the adapter into its base, and export that.",
        )


def _check_used(used: set[str], tensors: Mapping[str, Tensor], there: Architecture) -> None:
    strange = sorted(tensors.keys() - used)
    if strange or not used:
        what = f"{strange[0]} belongs to no linear layer" if strange else "it has no LoRA tensors"
        raise UserError(f"the adapter does not fit {there.name}: {what}", topic="import")


def _refused(config: Mapping[str, Any], key: str, reason: str, *, hint: str = "") -> UserError:
    return UserError(
        f"{key} is {config.get(key)!r}: {reason}",
        topic="import",
        where="adapter_config.json",
        hint=hint,
    )
