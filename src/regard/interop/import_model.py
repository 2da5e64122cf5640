"""Make a model folder of ours from a checkpoint of another tool.

    SOURCE = a Hugging Face folder, a .gguf file, or pip:NAME of an installed package
    FOLDER = config.json  model.safetensors  tokenizer.json  tokenizer_config.json  manifest.json

No code from a checkpoint is ever run, and nothing is fetched from the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard import __version__
from regard.core.errors import UserError
from regard.core.files import folder_with_manifest
from regard.core.settings import read_settings, settings_class, to_table
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.huggingface.architecture import Architecture, architecture_of
from regard.interop.huggingface.checkpoint import Checkpoint, read_checkpoint, read_table
from regard.interop.huggingface.sentence_transformers import SentenceEncoderConfig, read_sentences
from regard.interop.huggingface.tensors import FillReport, bare_names, fill
from regard.interop.huggingface.vocabulary import check_vocabulary, named_tokens
from regard.interop.packages import MARK, packaged_checkpoint
from regard.models.families import FAMILIES
from regard.models.families.transformer import Transformer
from regard.training.checkpoint import save_model

SEED = 0
"From which parameters start that a file does not fill."

NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
"Of a block, within a name."


@dataclass(frozen=True)
class ImportReport:
    """A model folder that was made, and what a person should know of it."""

    folder: Path
    architecture: str
    parameters: int
    context: int
    tokenizer: Tokenizer
    vocabulary: int
    unused: list[str]
    unfilled: list[str]
    pooling: str | None
    normalise: bool
    longest: int | None
    "Tokens of a sentence at most, where its checkpoint cuts them."
    remarks: list[str]

    def lines(self) -> list[str]:
        """The report, a line for each fact."""
        name, size = self.tokenizer.name, self.tokenizer.size
        said = [
            f"architecture  {self.architecture}",
            f"parameters    {self.parameters:,}",
            f"context       {self.context:,} places",
            f"tokenizer     {name} {self.tokenizer.short_fingerprint}, {size:,} pieces"
            + ("" if size == self.vocabulary else f" of {self.vocabulary:,} rows"),
        ]
        if self.pooling is not None:
            how = ", length 1" if self.normalise else ""
            cut = f", cut at {self.longest:,} tokens" if self.longest else ""
            said.append(f"sentences     pooled by {self.pooling}{how}{cut}")
        said.append(f"unused        {', '.join(summed_up(self.unused)) or 'nothing in the file'}")
        said.append(f"unfilled      {', '.join(summed_up(self.unfilled)) or 'no parameter'}")
        return said + [f"remark        {remark}" for remark in self.remarks]

    def as_dict(self) -> dict[str, Any]:
        told = {"tokenizer": self.tokenizer.fingerprint, "folder": str(self.folder)}
        return {**vars(self), **told}


def import_model(source: str, out: Path) -> ImportReport:
    """Read `source`, write the new folder `out`."""
    if out.exists():
        raise UserError(
            "is already there", topic="import", where=str(out), hint="Give a new folder."
        )
    found = _read(_located(source))
    checkpoint, tokenizer, sentences = found.checkpoint, found.tokenizer, found.sentences
    remarks = [*checkpoint.remarks, *sentences.remarks]
    architecture = architecture_of(checkpoint.config)
    family = _family(architecture, checkpoint, remarks)
    _check_layers(architecture, family, checkpoint)
    vocabulary = _rows(architecture, family, checkpoint)
    remarks += check_vocabulary(tokenizer, checkpoint.config, rows=vocabulary, named=found.named)
    model = family.build(vocabulary=vocabulary, seed=SEED)
    filled = fill(model, architecture, family=family, tensors=checkpoint.tensors)
    remarks += _said_of_head(filled, family, architecture)
    if tokenizer.pad is None:
        remarks.append("its tokenizer has no token for padding")
    imported = ImportReport(
        folder=out,
        architecture=architecture.name,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        context=family.context,
        tokenizer=tokenizer,
        vocabulary=vocabulary,
        unused=filled.unused,
        unfilled=filled.unfilled,
        pooling=sentences.pooling,
        normalise=sentences.normalise,
        longest=sentences.longest,
        remarks=remarks,
    )
    with folder_with_manifest(out) as inside:
        save_model(inside, model, tokenizer, _config(imported, architecture, family, source))
    return imported


def summed_up(names: Iterable[str]) -> list[str]:
    """Names that differ in their numbers alone, told once: `h.*.attn.bias × 12 (0 to 11)`."""
    sorts: dict[str, list[str]] = {}
    for name in names:
        sorts.setdefault(NUMBER.sub("*", name), []).append(name)
    return [_told_once(sort, alike) for sort, alike in sorts.items()]


def _told_once(sort: str, alike: list[str]) -> str:
    if len(alike) == 1:
        return alike[0]
    if sort.count("*") > 1:
        return f"{alike[0]} and {len(alike) - 1} alike"
    numbers = sorted(int(number) for name in alike for number in NUMBER.findall(name))
    whole = numbers[-1] - numbers[0] == len(numbers) - 1
    which = f"{numbers[0]} to {numbers[-1]}" if whole else ", ".join(map(str, numbers))
    return f"{sort} × {len(alike)} ({which})"


def _located(source: str) -> Path:
    if source.startswith(MARK):
        return packaged_checkpoint(source.removeprefix(MARK))
    path = Path(source)
    if not path.exists():
        raise UserError(
            "there is no such folder or file",
            topic="import",
            where=source,
            hint="Give a folder with config.json and model.safetensors, a .gguf file, or pip:NAME "
            "of an installed package; regard fetches nothing itself.",
        )
    return path


@dataclass(frozen=True)
class _Found:
    """All that was read of a source."""

    checkpoint: Checkpoint
    tokenizer: Tokenizer
    sentences: SentenceEncoderConfig
    named: Mapping[str, str] = field(default_factory=dict)
    "The special tokens that files beside the tokenizer name."


def _read(path: Path) -> _Found:
    if path.is_dir():
        _refuse_what_is_no_checkpoint(path)
        sentences = read_sentences(path)
        checkpoint = read_checkpoint(sentences.folder)
        home = _home_of_tokenizer(sentences.folder, path)
        return _Found(checkpoint, Tokenizer.load(home), sentences, named_tokens(home))
    if path.suffix == ".gguf":
        from regard.interop.gguf import read_gguf

        return _Found(*read_gguf(path), SentenceEncoderConfig(path))
    raise UserError(
        "is neither a folder nor a .gguf file",
        topic="import",
        where=str(path),
        hint="Give the folder that holds config.json and the weights.",
    )


def _refuse_what_is_no_checkpoint(folder: Path) -> None:
    """Folders that are known here, and are something else."""
    config, described = folder / "config.json", folder / "adapter_config.json"
    is_run = (folder / "recipe.toml").is_file()
    if is_run or (config.is_file() and "regard" in read_table(config)):
        raise UserError(
            "is regard's own already, and needs no import",
            topic="import",
            where=str(folder),
            hint=f"Start from it, start = {str(folder)!r}, or give the checkpoint of another tool.",
        )
    if described.is_file() and not config.is_file():
        base = read_table(described).get("base_model_name_or_path") or "BASE"
        raise UserError(
            f"holds an adapter (adapter_config.json) for the model {base}, and no model",
            topic="import",
            where=str(folder),
            hint="Import the model it is for, or make one of both first: peft.PeftModel"
            ".from_pretrained(base, folder).merge_and_unload().save_pretrained(new_folder).",
        )


def _home_of_tokenizer(*folders: Path) -> Path:
    for folder in folders:
        if (folder / "tokenizer.json").is_file() or (folder / "vocab.txt").is_file():
            return folder
    raise UserError(
        "holds neither tokenizer.json nor vocab.txt",
        topic="import",
        where=str(folders[0]),
        hint="Write it there: transformers.AutoTokenizer.from_pretrained(folder)"
        ".save_pretrained(folder).",
    )


def _family(architecture: Architecture, checkpoint: Checkpoint, remarks: list[str]) -> Transformer:
    config = checkpoint.config
    if "quantization_config" in config:
        raise config.error(
            "quantization_config", "its weights are packed in a form that regard does not read"
        )
    held = frozenset(bare_names(architecture, checkpoint.tensors))
    table = architecture.settings(config, held, remarks)
    try:
        family = read_settings(settings_class(FAMILIES, architecture.family), table, key="model")
    except UserError as problem:  # it speaks of a recipe, and the person gave a checkpoint
        raise UserError(problem.what, topic="import", where=config.file) from None
    assert isinstance(family, Transformer)
    return family


def _check_layers(architecture: Architecture, family: Transformer, checkpoint: Checkpoint) -> None:
    """A config that knows of fewer blocks than there are would drop the others unseen."""
    numbered = re.compile(rf"{re.escape(architecture.blocks)}(\d+)\.")
    matches = (numbered.match(name) for name in bare_names(architecture, checkpoint.tensors))
    blocks = {int(match[1]) for match in matches if match}
    if blocks and len(blocks) != family.layers:
        raise UserError(
            f"{architecture.layers_key} is {family.layers}, and its weights have {len(blocks)} "
            f"block{'s' * (len(blocks) != 1)}",
            topic="import",
            where=checkpoint.config.file,
            hint="Settings and weights are of different models: get both anew.",
        )


def _rows(architecture: Architecture, family: Transformer, checkpoint: Checkpoint) -> int:
    """Of the token table, which may be longer than the tokenizer's list."""
    place = architecture.tensor_map(family)["embedding.tokens.weight"]
    name = bare_names(architecture, checkpoint.tensors).get(place.name)
    asked = checkpoint.config.integer("vocab_size")
    if name is None:
        return asked
    # Before anything is built: a config that is wrong by far would ask for too much memory.
    found = checkpoint.tensors.shape(name)
    if found != (asked, family.width):
        raise UserError(
            f"{name} has shape {found}, its config asks for {(asked, family.width)}",
            topic="import",
            where=checkpoint.tensors.where,
            hint="vocab_size or the width in config.json is of another model: get both anew.",
        )
    return asked


def _said_of_head(filled: FillReport, family: Transformer, architecture: Architecture) -> list[str]:
    said = []
    if architecture.family == "encoder" and not getattr(family, "head_transform", True):
        said.append(
            "the file has no output network, so the model cannot tell hidden tokens: "
            "use it for vectors, or adapt it"
        )
    if filled.unfilled:
        said.append(
            f"nothing in the file fills {', '.join(summed_up(filled.unfilled))}: random, drawn by "
            f"seed {SEED}"
        )
    return said


def _config(
    imported: ImportReport, architecture: Architecture, family: Transformer, source: str
) -> dict[str, Any]:
    return {
        "regard": __version__,
        "model": {"family": architecture.family, **to_table(family)},
        "objective": {"kind": architecture.objective},
        "vocabulary": imported.vocabulary,
        "tokenizer": imported.tokenizer.fingerprint,
        "imported": {
            "source": source,
            "architecture": imported.architecture,
            "unused": imported.unused,
            "unfilled": imported.unfilled,
            "pooling": imported.pooling,
            "normalise": imported.normalise,
            "longest": imported.longest,
            "remarks": imported.remarks,
        },
    }
