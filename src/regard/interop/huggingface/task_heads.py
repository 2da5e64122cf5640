"""Task heads of checkpoints, in both directions: labels, a number, tags, answer spans.

    …ForSequenceClassification   classifier   labels from id2label     ─   classification, or pairs
                                              one output               ─   regression
    …ForTokenClassification      classifier   tags from id2label       ─   tagging
    …ForQuestionAnswering        qa_outputs   start and end logits     ─   extractive

A config does not say whether a classifier reads one text or two: the labels of entailment mean two.
A head that has no counterpart here is left out with a remark, and its tensors are listed as unused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.settings import catalog_name, read_settings, settings_class
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.huggingface.architecture import Architecture
from regard.interop.huggingface.checkpoint import Checkpoint
from regard.interop.huggingface.tensors import read_tensor
from regard.models.families import FAMILIES, Family
from regard.models.heads.task_heads import ClassificationHead, SpanHead, TokenHead, ValueHead
from regard.models.model import Model, TokenModel
from regard.tasks import TASKS, Task, TaskState, Tools

CLASSIFIER = "ForSequenceClassification"
TAGGER = "ForTokenClassification"
SPANS = "ForQuestionAnswering"
OUTSIDE = "O"
"The tag of words outside of all spans."
ENTAILMENT = "entailment"
REGRESSION, SINGLE_LABEL = "regression", "single_label_classification"


@dataclass(frozen=True)
class ImportedHead:
    """A task, its state, and the tensors of its head."""

    task: Task
    state: Mapping[str, Any]
    tensors: Mapping[str, str]
    "Our parameter of the head → its name in the file."
    remarks: list[str] = field(default_factory=list)
    outputs: slice | list[int] = field(default_factory=lambda: slice(None))
    "Of the file, in our order."

    @property
    def kind(self) -> str:
        return catalog_name(self.task, TASKS)

    @property
    def names(self) -> frozenset[str]:
        """The tensors of the file that are used, or that change no output."""
        return frozenset({*self.tensors.values(), "qa_outputs.bias"})

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.state.get("labels", self.state.get("tags", ())))

    @torch.no_grad()
    def attach(
        self, body: TokenModel, family: Family, tokenizer: Tokenizer, checkpoint: Checkpoint
    ) -> Model:
        """The model with the head of the file."""
        assert body.context is not None
        tools = Tools(tokenizer, body.context, catalog_name(family, FAMILIES))
        model: Model = self.task.restore_problem(self.state, tools).attach_head(body, seed=0)
        assert model.task_head is not None
        for name, parameter in model.task_head.named_parameters():
            parameter.copy_(read_tensor(checkpoint, self.tensors[name])[self.outputs])
        return model


def find_task_head(checkpoint: Checkpoint, remarks: list[str]) -> ImportedHead | None:
    """The head of an encoder's checkpoint; why one is left out goes to `remarks`."""
    name = checkpoint.config.class_name
    if name.endswith(CLASSIFIER):
        return _classifier(checkpoint, remarks)
    if name.endswith(TAGGER):
        return _tagger(checkpoint)
    if name.endswith(SPANS):
        return _spans(checkpoint)
    return None


@dataclass(frozen=True)
class ExportedHead:
    """A head as transformers writes it."""

    class_suffix: str
    "What follows `Bert` in the name of its class."
    tensors: Mapping[str, Tensor]
    config: Mapping[str, Any]


def export_head(
    head: nn.Module | None, state: TaskState, architecture: Architecture, *, has_pooler: bool
) -> ExportedHead | None:
    """The head of a task's model; None if transformers has none that computes the same."""
    config: dict[str, Any]
    match head:
        case SpanHead():
            weight = head.boundaries.weight
            tensors = {"qa_outputs.weight": weight, "qa_outputs.bias": weight.new_zeros(2)}
            return ExportedHead(SPANS, _copied(tensors), {})
        case TokenHead():
            tensors = {"classifier.weight": head.labels.weight, "classifier.bias": head.labels.bias}
            return ExportedHead(TAGGER, _copied(tensors), _label_names(state["tags"]))
        case ClassificationHead(pooling="first"):
            weight, bias = head.labels.weight, head.labels.bias
            config = _label_names(state["labels"])
        case ValueHead(pooling="first"):
            weight = head.value.weight * state["deviation"]
            bias = head.value.bias * state["deviation"] + state["mean"]
            config = {"problem_type": REGRESSION, **_label_names(["LABEL_0"])}
        case _:
            return None
    if not has_pooler or architecture.classifier_name is None:  # its classes have a pooler
        return None
    stem = architecture.classifier_name
    return ExportedHead(
        CLASSIFIER, _copied({f"{stem}.weight": weight, f"{stem}.bias": bias}), config
    )


def _label_names(labels: Sequence[str]) -> dict[str, Any]:
    return {
        "id2label": {str(n): label for n, label in enumerate(labels)},
        "label2id": {label: n for n, label in enumerate(labels)},
    }


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: tensor.detach().to("cpu", torch.float32).clone() for name, tensor in tensors.items()
    }


def _classifier(checkpoint: Checkpoint, remarks: list[str]) -> ImportedHead | None:
    stem = next((s for s in ("classifier.out_proj", "classifier") if _has(checkpoint, s)), None)
    if stem is None:
        return None
    outputs = checkpoint.tensors[f"{stem}.weight"].shape[0]
    table = checkpoint.config.table
    problem_type = table.get("problem_type")
    if outputs == 1 and problem_type in (None, REGRESSION):
        state = {"mean": 0.0, "deviation": 1.0}
        return ImportedHead(
            _task("regression"), state, _renamed("value", stem), [_remark("single")]
        )
    if outputs < 2 or problem_type not in (None, SINGLE_LABEL):
        remarks.append(
            f"its head predicts no single label (problem_type is {problem_type!r}), so it is left "
            "out"
        )
        return None
    labels = _labels(table, outputs)
    is_pairs = ENTAILMENT in map(str.lower, labels)
    return ImportedHead(
        _task("pairs" if is_pairs else "classification"),
        {"labels": labels},
        _renamed("labels", stem),
        [_remark("pairs of" if is_pairs else "single")],
    )


def _renamed(ours: str, theirs: str) -> dict[str, str]:
    return {f"{ours}.{suffix}": f"{theirs}.{suffix}" for suffix in ("weight", "bias")}


def _remark(texts: str) -> str:
    return f"its head is kept, for {texts} texts: a config does not say how many texts it reads"


def _labels(table: Mapping[str, Any], count: int) -> list[str]:
    """The names in id2label; numbered ones where these are missing or not different."""
    names = table.get("id2label")
    found = [str(names.get(str(i), "")).strip() for i in range(count)] if names else []
    if len(set(found)) == count and all(found):
        return found
    return [f"LABEL_{number}" for number in range(count)]


def _tagger(checkpoint: Checkpoint) -> ImportedHead | None:
    """The first tag is that of words behind the context, so words outside of spans come first."""
    if not _has(checkpoint, "classifier"):
        return None
    outputs = checkpoint.tensors["classifier.weight"].shape[0]
    tags = ["-".join(label.split()) for label in _labels(checkpoint.config.table, outputs)]
    order = sorted(range(outputs), key=lambda output: tags[output] != OUTSIDE)
    return ImportedHead(
        _task("tagging"),
        {"tags": [tags[output] for output in order]},
        _renamed("labels", "classifier"),
        ["its head is kept, for words: a word has the tag of its first token"],
        order,
    )


def _spans(checkpoint: Checkpoint) -> ImportedHead | None:
    if not _has(checkpoint, "qa_outputs") or checkpoint.tensors["qa_outputs.weight"].shape[0] != 2:
        return None
    return ImportedHead(
        _task("extractive"),
        {"tau": 0.0, "curve": []},
        {"boundaries.weight": "qa_outputs.weight"},
        ["its head is kept without its bias, which adds the same to every span"],
    )


def _has(checkpoint: Checkpoint, stem: str) -> bool:
    return {f"{stem}.weight", f"{stem}.bias"} <= checkpoint.tensors.keys()


def _task(kind: str) -> Task:
    task = read_settings(settings_class(TASKS, kind), {})
    assert isinstance(task, Task)
    return task
