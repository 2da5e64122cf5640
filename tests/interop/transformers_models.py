"""Tiny random transformers models in checkpoint folders, and their import."""

from __future__ import annotations

import json
from pathlib import Path

import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import models, pre_tokenizers

from regard.core.settings import read_settings, settings_class
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.import_model import ImportReport, import_model
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.families import FAMILIES, Family
from regard.training.checkpoint import load_weights

PIECES = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", *(f"word{n}" for n in range(25)))
VOCABULARY = len(PIECES)
ENDS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
    **ENDS,
}
SMALL_GPT2 = {
    "vocab_size": VOCABULARY,
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 20,
    **ENDS,
}


def build_engine() -> tokenizers.Tokenizer:
    engine = tokenizers.Tokenizer(
        models.WordLevel({piece: number for number, piece in enumerate(PIECES)}, "<unk>")
    )
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    engine.add_special_tokens(list(PIECES[:5]))
    return engine


def tokenizer() -> Tokenizer:
    return Tokenizer(build_engine(), name="tiny")


def randomise(model: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
    """Random parameters with a fixed seed: zero biases, for instance, could hide a mistake."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_norm_weight = parameter.ndim == 1 and name.endswith("weight")
            draw = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(0.2 * draw + (1.0 if is_norm_weight else 0.0))
    model.tie_weights()
    return model.eval()


def save_checkpoint(model: transformers.PreTrainedModel, folder: Path, **options) -> Path:
    model.save_pretrained(folder, **options)
    build_engine().save(str(folder / "tokenizer.json"))
    return folder


def install_package(home: Path) -> Path:
    """Install `tiny-model`, a package with a checkpoint and code that must not run."""
    package = home / "tiny_model"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('this was run')")
    save_checkpoint(
        randomise(transformers.BertModel(transformers.BertConfig(**SMALL))), package / "files"
    )
    info = home / "tiny_model-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
    write_record(home, info)
    return home


def write_record(home: Path, info: Path) -> None:
    files = [file for file in home.rglob("*") if file.is_file()]
    lines = [f"{file.relative_to(home).as_posix()},," for file in files]
    (info / "RECORD").write_text("\n".join([*lines, f"{info.name}/RECORD,,"]) + "\n")


def import_and_load(folder: Path, out: Path) -> tuple[SequenceModel, ImportReport]:
    """Import a checkpoint and load the resulting folder."""
    report = import_model(str(folder), out)
    return load_folder(out)[0], report


def load_folder(folder: Path) -> tuple[SequenceModel, Family]:
    config = json.loads((folder / "config.json").read_text())
    table = dict(config["model"])
    family = read_settings(settings_class(FAMILIES, table.pop("family")), table)
    model = family.build(vocabulary=config["vocabulary"], seed=1)
    load_weights(model, folder / "model.safetensors")
    return model.eval(), family


def padded_rows(rows: int = 3, length: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids padded on the right, and the mask of valid positions."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(5, VOCABULARY, (rows, length), generator=generator)
    valid = torch.arange(length)[None] < torch.tensor([length, 5, 7])[:rows, None]
    return ids.masked_fill(~valid, 1), valid


def rename_tensors(folder: Path, rename) -> None:
    """Rewrite the weights under other names; None drops a tensor."""
    file = folder / "model.safetensors"
    tensors = {rename(name): tensor for name, tensor in load_file(file).items()}
    tensors.pop(None, None)
    save_file(tensors, file, metadata={"format": "pt"})


def edit_config(folder: Path, **changes) -> None:
    """Change keys of config.json."""
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
