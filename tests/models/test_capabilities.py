"""What models declare: entry points, and capabilities that spare other packages their classes."""

import ast
import importlib
import inspect
import pkgutil
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn

import regard
from regard import models
from regard.batch import Batch
from regard.models.architectures.language_model import LanguageModel
from regard.models.inputs import ModelInputs
from regard.models.model import Model, TokenModel

SOURCE = Path(regard.__file__).parent
INPUTS = {"ids", "inputs", "batch", "source"}

ALLOWED = {
    ("interop/export_model.py", "Transformer"): "narrows the family that an architecture names",
    ("interop/import_model.py", "Transformer"): "narrows settings that were just read",
    ("interop/huggingface/architectures/bert.py", "Encoder"): "narrows to BERT's own family",
    (
        "runs/models/adapter_files.py",
        "Encoder",
    ): "across_documents is an encoder's setting",
    **{
        ("interop/huggingface/task_heads.py", head): "transformers has a class for it"
        for head in ("SpanHead", "TokenHead", "ClassificationHead", "ValueHead")
    },
    ("runs/models/model_subject.py", "Model"): "separates regard's models from foreign ones",
    ("runs/recipe.py", "Family"): "reads a value of any type before it is validated",
}


def import_all(package):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)


def subclasses(cls):
    return {cls}.union(*map(subclasses, cls.__subclasses__()))


def model_classes():
    import_all(models)
    return sorted(
        (one for one in subclasses(Model) if one.__module__.startswith("regard.")),
        key=lambda one: one.__qualname__,
    )


def imported_from_models(tree):
    """Names in a module that were imported from regard.models."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard.models")
        for alias in node.names
    }


def type_checks(tree):
    """Names that `isinstance`, `issubclass` and class patterns ask for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "isinstance",
            "issubclass",
        ):
            yield from (name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name))
        elif isinstance(node, ast.MatchClass):
            yield from (name.id for name in ast.walk(node.cls) if isinstance(name, ast.Name))


def test_other_packages_ask_for_capabilities_and_not_for_classes():
    found = Counter()
    for file in SOURCE.rglob("*.py"):
        path = file.relative_to(SOURCE)
        if path.parts[0] == "models":
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        own = imported_from_models(tree)
        found.update((path.as_posix(), name) for name in type_checks(tree) if name in own)
    assert found == dict.fromkeys(ALLOWED, 1)


@pytest.mark.parametrize("cls", model_classes(), ids=lambda cls: cls.__name__)
def test_at_most_three_entry_points_take_token_ids_or_batches(cls):
    takes_inputs = set()
    for name, function in inspect.getmembers(cls, inspect.isfunction):
        if name.startswith("_") or not function.__module__.startswith("regard."):
            continue
        parameters = inspect.signature(function).parameters
        annotations = {str(one.annotation) for one in parameters.values()}
        if INPUTS & parameters.keys() or annotations & {"Batch", "ModelInputs"}:
            takes_inputs.add(name)
    is_complete = not inspect.isabstract(cls)
    assert len(cls.entry_points) <= 3
    assert not is_complete or takes_inputs == {"forward", *cls.entry_points}


def test_the_walk_sees_the_classes():
    assert {LanguageModel, TokenModel} < set(model_classes())
    assert "Batch" in str(inspect.signature(LanguageModel.forward))
    assert Batch.__name__ == "Batch"
    tree = ast.parse("from regard.models.model import Model\nisinstance(x, (int, Model))")
    assert imported_from_models(tree) & set(type_checks(tree)) == {"Model"}


def test_inputs_of_a_batch_keep_documents_and_texts_apart():
    ids, segments = torch.tensor([[1, 2, 3]]), torch.tensor([[0, 0, 1]])
    ones = torch.ones(1, 3)
    batch = Batch(ids, ids, ones, ones.bool(), segments, rows=(0,))
    documents, texts = ModelInputs.of_batch(batch), ModelInputs.of_texts(batch)
    assert documents.segments is None
    assert torch.equal(documents.positions.segments, segments)
    assert torch.equal(texts.segments, segments)


def test_a_plain_model_is_its_own_body():
    model = regard.models.families.decoder.Decoder(layers=1, width=6, heads=2, context=8)
    built = model.build(vocabulary=11, seed=0)
    assert built.body is built
    assert built.task_head is None
    assert built.vocabulary == 11
    assert isinstance(built.get_submodule(built.token_table), nn.Embedding)
