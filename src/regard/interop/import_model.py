"""Import a checkpoint of another library as a regard model folder.

    SOURCE = a Hugging Face folder, a .gguf file, or pip:NAME of an installed package
    FOLDER = config.json  model.safetensors  tokenizer.json  tokenizer_config.json  manifest.json

No code of a checkpoint is run, and nothing is downloaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard import __version__
from regard.core.errors import UserError
from regard.core.files import folder_with_manifest
from regard.core.settings import read_settings, settings_class, to_table
from regard.data.sources import HUB_PREFIX
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.huggingface.architecture import Architecture, find_architecture
from regard.interop.huggingface.checkpoint import Checkpoint, read_checkpoint, read_json_table
from regard.interop.huggingface.sentence_transformers import (
    SentenceEncoderConfig,
    read_sentence_encoder_config,
)
from regard.interop.huggingface.task_heads import find_task_head
from regard.interop.huggingface.tensors import FillReport, bare_names, fill_model
from regard.interop.huggingface.vocabulary import check_vocabulary, read_special_tokens
from regard.interop.packages import PIP_PREFIX, find_packaged_checkpoint
from regard.models.families import FAMILIES, build_model
from regard.models.families.transformer import Transformer
from regard.models.model import Model
from regard.training.checkpoint import save_model

SEED = 0
"Seed of the parameters that the file does not fill."

MAX_LABELS_SHOWN = 8

BLOCK_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
"The number of a block in a tensor name."


@dataclass(frozen=True)
class ImportReport:
    """The imported model folder and what the user should know about it."""

    folder: Path
    architecture: str
    parameters: int
    context: int
    tokenizer: Tokenizer
    vocabulary: int
    unused: list[str]
    "Tensors of the file that the model does not use."
    unfilled: list[str]
    "Parameters that the file does not fill."
    pooling: str | None
    normalise: bool
    max_tokens: int | None
    "Maximum tokens of a text, if the checkpoint truncates texts."
    task: str | None
    "The task of its head, if it has one that is kept."
    labels: tuple[str, ...]
    remarks: list[str]

    def lines(self) -> list[str]:
        """The report, one fact per line."""
        name, size = self.tokenizer.name, self.tokenizer.size
        lines = [
            f"architecture  {self.architecture}",
            f"parameters    {self.parameters:,}",
            f"context       {self.context:,} positions",
            f"tokenizer     {name} {self.tokenizer.short_fingerprint}, {size:,} pieces"
            + ("" if size == self.vocabulary else f" of {self.vocabulary:,} rows"),
        ]
        if self.pooling is not None:
            norm = ", normalised" if self.normalise else ""
            limit = f", truncated to {self.max_tokens:,} tokens" if self.max_tokens else ""
            lines.append(f"sentences     {self.pooling} pooling{norm}{limit}")
        if self.task is not None:
            labels = f": {', '.join(self.labels[:MAX_LABELS_SHOWN])}" if self.labels else ""
            more = len(self.labels) - MAX_LABELS_SHOWN
            lines.append(f"task          {self.task}{labels}{f' and {more} more' * (more > 0)}")
        unused, unfilled = summarise_names(self.unused), summarise_names(self.unfilled)
        lines.append(f"unused        {', '.join(unused) or 'nothing in the file'}")
        lines.append(f"unfilled      {', '.join(unfilled) or 'no parameter'}")
        return lines + [f"remark        {remark}" for remark in self.remarks]

    def as_dict(self) -> dict[str, Any]:
        printable = {"tokenizer": self.tokenizer.fingerprint, "folder": str(self.folder)}
        return {**vars(self), **printable}


def import_model(source: str, out: Path) -> ImportReport:
    """Import the checkpoint `source` into the new folder `out`."""
    if out.exists():
        raise UserError(
            "is already there", topic="import", where=str(out), hint="Give a new folder."
        )
    checkpoint, tokenizer, sentence_encoder, special_tokens = _read(_locate(source))
    remarks = [*checkpoint.remarks, *sentence_encoder.remarks]
    architecture = find_architecture(checkpoint.config)
    family = _family(architecture, checkpoint, remarks)
    _check_layers(architecture, family, checkpoint)
    vocabulary = _embedding_rows(architecture, family, checkpoint)
    remarks += check_vocabulary(
        tokenizer, checkpoint.config, rows=vocabulary, special_tokens=special_tokens
    )
    model = build_model(family, vocabulary=vocabulary, seed=SEED)
    filled = fill_model(model, architecture, family=family, checkpoint=checkpoint)
    head = None
    if architecture.family == "encoder" and sentence_encoder.pooling is None:
        head = find_task_head(checkpoint, remarks)
    remarks += _parameter_remarks(filled, family, architecture) if head is None else head.remarks
    if tokenizer.pad is None:
        remarks.append("its tokenizer has no pad token")
    imported: Model = model
    if head is not None:
        imported = head.attach(model, family, tokenizer, checkpoint)
    report = ImportReport(
        folder=out,
        architecture=architecture.name,
        parameters=sum(parameter.numel() for parameter in imported.parameters()),
        context=family.context,
        tokenizer=tokenizer,
        vocabulary=vocabulary,
        unused=[name for name in filled.unused if head is None or name not in head.names],
        unfilled=filled.unfilled,
        pooling=sentence_encoder.pooling,
        normalise=sentence_encoder.normalise,
        max_tokens=sentence_encoder.max_tokens,
        task=None if head is None else head.kind,
        labels=() if head is None else head.labels,
        remarks=remarks,
    )
    config = _config(report, architecture, family, source)
    if head is not None:
        config |= {"task": {"kind": head.kind, **to_table(head.task)}, "task_state": head.state}
    with folder_with_manifest(out) as inside:
        save_model(inside, imported, tokenizer, config)
    return report


def summarise_names(names: Iterable[str]) -> list[str]:
    """Group names that differ only in the block number: `h.*.attn.bias × 12 (0 to 11)`."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(BLOCK_NUMBER.sub("*", name), []).append(name)
    return [_summary(pattern, group) for pattern, group in groups.items()]


def _summary(pattern: str, names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    if pattern.count("*") > 1:
        return f"{names[0]} and {len(names) - 1} similar"
    blocks = sorted(int(block) for name in names for block in BLOCK_NUMBER.findall(name))
    contiguous = blocks[-1] - blocks[0] == len(blocks) - 1
    shown = f"{blocks[0]} to {blocks[-1]}" if contiguous else ", ".join(map(str, blocks))
    return f"{pattern} × {len(names)} ({shown})"


def _locate(source: str) -> Path:
    if source.startswith(PIP_PREFIX):
        return find_packaged_checkpoint(source.removeprefix(PIP_PREFIX))
    path = Path(source)
    if source.startswith(HUB_PREFIX):
        raise UserError(
            "regard downloads no models",
            topic="import",
            where=source,
            hint="Download its folder, with config.json and model.safetensors, by "
            f"`hf download {source.removeprefix(HUB_PREFIX)} --local-dir FOLDER`, then import it.",
        )
    if not path.exists():
        raise UserError(
            "there is no such folder or file",
            topic="import",
            where=source,
            hint="Give a folder with config.json and model.safetensors, a .gguf file, or pip:NAME "
            "of an installed package; regard downloads nothing.",
        )
    return path


def _read(path: Path) -> tuple[Checkpoint, Tokenizer, SentenceEncoderConfig, Mapping[str, str]]:
    """Everything in a source; last the special tokens by role, from files beside the tokenizer."""
    if path.is_dir():
        _check_is_checkpoint(path)
        sentence_encoder = read_sentence_encoder_config(path)
        checkpoint = read_checkpoint(sentence_encoder.folder)
        folder = _tokenizer_folder(sentence_encoder.folder, path)
        tokenizer = Tokenizer.load(folder)
        return checkpoint, tokenizer, sentence_encoder, read_special_tokens(folder)
    if path.suffix == ".gguf":
        from regard.interop.gguf import read_gguf

        return *read_gguf(path), SentenceEncoderConfig(path), {}
    raise UserError(
        "is neither a folder nor a .gguf file",
        topic="import",
        where=str(path),
        hint="Give the folder with config.json and the weights.",
    )


def _check_is_checkpoint(folder: Path) -> None:
    """Refuse runs and model folders of regard, and adapters without their base model."""
    config, adapter = folder / "config.json", folder / "adapter_config.json"
    is_run = (folder / "recipe.toml").is_file()
    if is_run or (config.is_file() and "regard" in read_json_table(config)):
        raise UserError(
            "is a regard model already and needs no import",
            topic="import",
            where=str(folder),
            hint=f"Set init_from = {str(folder)!r}, or give a checkpoint of another library.",
        )
    if adapter.is_file() and not config.is_file():
        base = read_json_table(adapter).get("base_model_name_or_path") or "BASE"
        raise UserError(
            f"is an adapter (adapter_config.json) for the model {base}, not a model",
            topic="import",
            where=str(folder),
            hint="Import its base model, or merge them first: peft.PeftModel"
            ".from_pretrained(base, folder).merge_and_unload().save_pretrained(new_folder).",
        )


def _tokenizer_folder(*folders: Path) -> Path:
    for folder in folders:
        if (folder / "tokenizer.json").is_file() or (folder / "vocab.txt").is_file():
            return folder
    raise UserError(
        "has neither tokenizer.json nor vocab.txt",
        topic="import",
        where=str(folders[0]),
        hint="Save it there: transformers.AutoTokenizer.from_pretrained(folder)"
        ".save_pretrained(folder).",
    )


def _family(architecture: Architecture, checkpoint: Checkpoint, remarks: list[str]) -> Transformer:
    config = checkpoint.config
    if "quantization_config" in config:
        raise config.error(
            "quantization_config", "its weights are quantized in a format that regard does not read"
        )
    available = frozenset(bare_names(architecture, checkpoint))
    table = architecture.settings(config, available, remarks)
    try:
        family = read_settings(settings_class(FAMILIES, architecture.family), table, key="model")
    except UserError as problem:  # its topic is a recipe, and the user gave a checkpoint
        raise UserError(problem.what, topic="import", where=config.file) from None
    assert isinstance(family, Transformer)
    return family


def _check_layers(architecture: Architecture, family: Transformer, checkpoint: Checkpoint) -> None:
    """A config with fewer blocks than the weights would drop the others silently."""
    numbered = re.compile(rf"{re.escape(architecture.block_prefix)}(\d+)\.")
    matches = (numbered.match(name) for name in bare_names(architecture, checkpoint))
    blocks = {int(match[1]) for match in matches if match}
    if blocks and len(blocks) != family.layers:
        raise UserError(
            f"{architecture.layers_key} is {family.layers}, but its weights have {len(blocks)} "
            f"block{'s' * (len(blocks) != 1)}",
            topic="import",
            where=checkpoint.config.file,
            hint="Weights and config.json belong to different models: download both again.",
        )


def _embedding_rows(architecture: Architecture, family: Transformer, checkpoint: Checkpoint) -> int:
    """Rows of the token embedding, at least as many as the tokenizer has pieces."""
    mapping = architecture.tensor_map(family)["embedding.tokens.weight"]
    name = bare_names(architecture, checkpoint).get(mapping.name)
    vocabulary = checkpoint.config.integer("vocab_size")
    if name is None:
        return vocabulary
    # Checked before the model is built: a wrong config could need far too much memory.
    found = checkpoint.tensors[name].shape
    if found != (vocabulary, family.width):
        raise UserError(
            f"{name} has shape {found}, its config implies {(vocabulary, family.width)}",
            topic="import",
            where=checkpoint.where,
            hint="vocab_size or width in config.json is another model's: download both again.",
        )
    return vocabulary


def _parameter_remarks(
    filled: FillReport, family: Transformer, architecture: Architecture
) -> list[str]:
    remarks = []
    if architecture.family == "encoder" and not getattr(family, "head_transform", True):
        remarks.append(
            "the file has no head transform, so the model cannot predict masked tokens: "
            "use it for embeddings, or adapt it"
        )
    if filled.unfilled:
        remarks.append(
            f"the file has no tensors for {', '.join(summarise_names(filled.unfilled))}: "
            f"initialised at random with seed {SEED}"
        )
    return remarks


def _config(
    report: ImportReport, architecture: Architecture, family: Transformer, source: str
) -> dict[str, Any]:
    return {
        "regard": __version__,
        "model": {"family": architecture.family, **to_table(family)},
        "objective": {"kind": architecture.objective},
        "vocabulary": report.vocabulary,
        "tokenizer": report.tokenizer.fingerprint,
        "imported": {
            "source": source,
            "architecture": report.architecture,
            "unused": report.unused,
            "unfilled": report.unfilled,
            "pooling": report.pooling,
            "normalise": report.normalise,
            "max_tokens": report.max_tokens,
            "remarks": report.remarks,
        },
    }
