"""An audit is reused for the same architecture alone: each thing that decides makes a new one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from torch import nn

import regard
from regard.api.arguments import load_parts
from regard.audits.findings import Leak
from regard.core.errors import UserError
from regard.runs import training_audit
from regard.runs.audit_cache import audit_key, audit_reuse, source_digest
from regard.runs.audit_cache.audit_reuse import audit_or_reuse
from regard.runs.audit_cache.self_contained import is_self_contained, leaves_nothing_behind
from regard.runs.experiment import Experiment, build_experiment
from regard.runs.observer import SILENT
from regard.runs.recipe import Recipe
from regard.runs.results import AuditRecord

CLEAN = AuditRecord(verdict="clean", sentence="clean: nothing was found", checked=("much",))

KIND = '''
from regard.attention.function import AttentionFunction
from regard.attention.kinds import AttentionKind, kind

@kind("halved", cost="n² · d")
class Halved(AttentionKind):
    """Half the dot product."""

    def build(self, shape):
        return HalvedScore()

class HalvedScore(AttentionFunction):
    def scores(self, q, k):
        return 0.5 * (q @ k.transpose(-2, -1))
'''


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def audits(monkeypatch: pytest.MonkeyPatch) -> list[Experiment]:
    """The models that were audited in full, in order."""
    made: list[Experiment] = []

    def audit(model: nn.Module, *_: object) -> AuditRecord:
        made.append(model)
        return CLEAN

    monkeypatch.setattr(audit_reuse, "audit_before_training", audit)
    return made


Build = Callable[..., Experiment]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"The {n}th sentence, and {n * n}.\n" for n in range(400)))

    def build(*overrides: str) -> Experiment:
        recipe = tmp_path / "tiny.toml"
        recipe.write_text(
            f'[data]\ncorpus = "{text.as_posix()}"\nunit = "line"\n'
            '[tokenizer]\nkind = "character"\n'
            "[model]\nlayers = 1\nheads = 2\nwidth = 32\ncontext = 16\n"
            "[train]\nbatch_tokens = 64\nthreads = 1\n"
        )
        loaded = Recipe.load(recipe, overrides=overrides)
        return build_experiment(loaded, initial_model=None, observer=SILENT)

    return build


def test_another_seed_reuses_the_audit_and_says_so(build: Build, audits: list[Experiment]) -> None:
    first = audit_or_reuse(build())
    second = audit_or_reuse(build("train.seed=5"))
    assert len(audits) == 1
    assert first == CLEAN
    assert second.verdict == "clean"
    assert second.audited.startswith("20")
    date = second.audited[:10]
    assert second.sentence == (
        f"clean, as audited on {date} for the same architecture: nothing was found"
    )
    assert second.checked == ("much", "this run's own weights and text: gradients and truncation")


def test_the_length_of_a_training_is_not_audited(build: Build, audits: list[Experiment]) -> None:
    audit_or_reuse(build())
    audit_or_reuse(build("train.lr=0.1", "train.max_steps=3", "evaluate.documents=9"))
    assert len(audits) == 1


def test_it_can_be_forced(build: Build, audits: list[Experiment]) -> None:
    audit_or_reuse(build())
    assert audit_or_reuse(build(), again=True).audited == ""
    assert len(audits) == 2


@pytest.mark.parametrize(
    "change",
    [
        "model.layers=2",
        "model.dropout=0.1",
        "model.attention.kind=additive",
        "model.positions.kind=rotary",
        "train.batch_tokens=128",
        "train.batches=padded",
        "tokenizer.kind=word",
        "data.split_seed=1",
        "objective.kind=infill",
    ],
)
def test_another_setting_is_audited(build: Build, audits: list[Experiment], change: str) -> None:
    audit_or_reuse(build())
    audit_or_reuse(build(change))
    assert len(audits) == 2


def test_other_data_are_audited(build: Build, audits: list[Experiment], tmp_path: Path) -> None:
    audit_or_reuse(build())
    with (tmp_path / "text.txt").open("a") as file:
        file.write("One more.\n")
    audit_or_reuse(build())
    assert len(audits) == 2


def _zero_a_weight(model: nn.Module) -> None:
    with torch.no_grad():
        next(p for p in model.parameters() if p.ndim == 2)[0, 0] = 0.0


def _scale_a_matrix(model: nn.Module) -> None:
    with torch.no_grad():
        next(p for p in model.parameters() if p.ndim == 2).mul_(4.0)


def _change_a_vector(model: nn.Module) -> None:
    with torch.no_grad():
        next(p for p in model.parameters() if p.ndim == 1)[0] += 1e-6


def _add_a_buffer(model: nn.Module) -> None:
    model.register_buffer("strength", torch.zeros(1))


def _freeze(model: nn.Module) -> None:
    next(model.parameters()).requires_grad_(False)


def _set_an_attribute(model: nn.Module) -> None:
    next(model.children()).strength = 0.5


def _keep_a_tensor(model: nn.Module) -> None:
    next(model.children()).table = torch.ones(3)


def _replace_forward(model: nn.Module) -> None:
    model.forward = lambda batch: batch


def _add_a_hook(model: nn.Module) -> None:
    next(model.children()).register_forward_hook(lambda module, args, out: out)


def _add_a_hook_of_a_parameter(model: nn.Module) -> None:
    next(model.parameters()).register_hook(lambda gradient: gradient)


def _foreign_class(model: nn.Module) -> None:
    model.extra = type("Foreign", (nn.Module,), {"__module__": "elsewhere"})()


def _keep_a_generator(model: nn.Module) -> None:
    next(model.children()).generator = torch.Generator()


@pytest.mark.parametrize(
    "change",
    [
        _zero_a_weight,
        _scale_a_matrix,
        _change_a_vector,
        _add_a_buffer,
        _freeze,
        _set_an_attribute,
        _keep_a_tensor,
        _replace_forward,
        _add_a_hook,
        _add_a_hook_of_a_parameter,
        _foreign_class,
        _keep_a_generator,
    ],
)
def test_another_model_is_audited(
    build: Build, audits: list[Experiment], change: Callable[[nn.Module], None]
) -> None:
    audit_or_reuse(build())
    experiment = build()
    change(experiment.model)
    audit_or_reuse(experiment)
    assert len(audits) == 2


def test_weights_that_were_loaded_are_always_audited(
    build: Build, audits: list[Experiment]
) -> None:
    for _ in range(2):
        experiment = build()
        experiment.initial_model = SimpleNamespace()
        audit_or_reuse(experiment)
    assert len(audits) == 2


def test_a_task_head_is_always_audited(build: Build) -> None:
    experiment = build()
    assert audit_key.audit_key(experiment) is not None
    with mock.patch.object(type(experiment.model), "task_head", object()):
        assert audit_key.audit_key(experiment) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("precision", "bf16"),
        ("threads", 7),
        ("products", "another kernel"),
        ("torch", "2.99"),
        ("python", "3.99"),
        ("regard", "9"),
    ],
)
def test_another_machine_is_audited(
    build: Build, audits: list[Experiment], name: str, value: str | int
) -> None:
    audit_or_reuse(build())
    experiment = build()
    experiment.machine = experiment.machine.__class__(
        **{**experiment.machine.as_dict(), name: value}
    )
    audit_or_reuse(experiment)
    assert len(audits) == 2


def test_a_switch_of_torch_is_audited(build: Build, audits: list[Experiment]) -> None:
    audit_or_reuse(build())
    with mock.patch("torch.backends.cpu.get_cpu_capability", return_value="DEFAULT"):
        audit_or_reuse(build())
    assert len(audits) == 2


def test_other_source_code_is_audited(build: Build, audits: list[Experiment]) -> None:
    audit_or_reuse(build())
    with mock.patch.object(audit_key, "source_digest", return_value="other"):
        audit_or_reuse(build())
    assert len(audits) == 2


def test_code_that_changed_while_it_ran_has_no_digest(tmp_path: Path) -> None:
    package = tmp_path / "regard"
    package.mkdir()
    file = package / "one.py"
    file.write_text("x = 1\n")
    os.utime(file, (1e9, 1e9))
    since = file.stat().st_ctime + 1
    source_digest._digest.cache_clear()
    with mock.patch.object(source_digest, "_package", return_value=package):
        with mock.patch.object(regard, "imported_at", since):
            first = source_digest.source_digest()
            (package / "two.py").write_text("x = 2\n")
            os.utime(package / "two.py", (since + 5, since + 5))
            assert source_digest.source_digest() is None
        with mock.patch.object(regard, "imported_at", since + 10):
            source_digest._digest.cache_clear()
            assert source_digest.source_digest() not in (None, first)
    source_digest._digest.cache_clear()


def test_an_own_file_that_changed_is_audited(
    build: Build, audits: list[Experiment], tmp_path: Path
) -> None:
    file = tmp_path / "halved.py"
    for source in (KIND, KIND, KIND.replace("0.5 *", "0.25 *")):
        file.write_text(source)
        load_parts([file])
        audit_or_reuse(build("model.attention.kind=halved"))
    assert len(audits) == 2


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "from random import random",
        "import time as clock",
        "from . import beside",
        "import scipy",
        "TABLE = open('table.txt').read()",
        "import torch; TABLE = torch.load('table.pt')",
        "from torch import load as torch_load",
        "import numpy; TABLE = numpy.random.rand(3)",
        "OS = __import__('os')",
        "X = getattr(print, '__self__')",
        "import torch; HOME = torch.os.environ['HOME']",
        "from torch import os",
        "import enum; PLATFORM = enum.sys.platform",
        "import numpy; TABLE = numpy.lib.format.open_memmap('table.npy')",
        "from regard.core.files import read_text",
    ],
)
def test_an_own_file_that_asks_outside_is_always_audited(
    build: Build, audits: list[Experiment], tmp_path: Path, line: str
) -> None:
    assert is_self_contained(KIND.encode())
    assert not is_self_contained(f"{line}\n{KIND}".encode())


def test_another_own_file_is_audited(
    build: Build, audits: list[Experiment], tmp_path: Path
) -> None:
    audit_or_reuse(build())
    file = tmp_path / "halved.py"
    file.write_text(KIND)
    load_parts([file])
    audit_or_reuse(build())  # the recipe does not name it, and it could change anything
    assert len(audits) == 2


@pytest.mark.parametrize("verdict", ["leak", "cannot tell"])
def test_only_a_clean_audit_is_kept(
    build: Build, monkeypatch: pytest.MonkeyPatch, verdict: str
) -> None:
    made = []

    def audit(*_: object) -> AuditRecord:
        made.append(1)
        return CLEAN.model_copy(update={"verdict": verdict})

    monkeypatch.setattr(audit_reuse, "audit_before_training", audit)
    for _ in range(2):
        audit_or_reuse(build())
    assert len(made) == 2


def _flip(text: str) -> str:
    return text.replace("nothing was found", "nothing was sought")


@pytest.mark.parametrize(
    "damage", [_flip, lambda text: text[:-20], lambda text: "", lambda text: '{"schema": 9}']
)
def test_a_damaged_audit_is_made_again(
    build: Build, audits: list[Experiment], tmp_path: Path, damage: Callable[[str], str]
) -> None:
    audit_or_reuse(build())
    (file,) = (tmp_path / "cache" / "audits").iterdir()
    intact = json.loads(file.read_text())
    file.write_text(damage(file.read_text()))
    audit_or_reuse(build())
    assert len(audits) == 2
    assert json.loads(file.read_text())["sha256"] == intact["sha256"] or "audited" in intact
    audit_or_reuse(build())
    assert len(audits) == 2


def test_an_audit_under_the_name_of_another_is_not_reused(
    build: Build, audits: list[Experiment], tmp_path: Path
) -> None:
    audit_or_reuse(build())
    (first,) = (tmp_path / "cache" / "audits").iterdir()
    audit_or_reuse(build("model.layers=2"))
    second = next(one for one in first.parent.iterdir() if one != first)
    second.write_bytes(first.read_bytes())
    audit_or_reuse(build("model.layers=2"))
    assert len(audits) == 3


def test_weights_that_leak_are_found_though_the_key_is_the_same(
    build: Build, tmp_path: Path
) -> None:
    """The audit itself, with its key held: what the key missed, the gradients show."""
    real = training_audit.audit_before_training  # not the one that tests share
    with (
        mock.patch.object(audit_reuse, "audit_key", return_value="0" * 64),
        mock.patch.object(audit_reuse, "audit_before_training", real),
    ):
        audit_or_reuse(build())
        experiment = build()
        mlp = experiment.model.stack.blocks[0].mlp
        mlp.register_forward_hook(lambda module, args, out: out + out.flip(1))
        with pytest.raises(UserError, match="sees the future"):
            audit_or_reuse(experiment)


def test_a_leak_is_not_kept(build: Build, tmp_path: Path) -> None:
    record = CLEAN.model_copy(
        update={"verdict": "leak", "leaks": (Leak(0, 1, 1.0, "gradient", "evaluation mode"),)}
    )
    with mock.patch.object(audit_reuse, "audit_before_training", return_value=record):
        audit_or_reuse(build())
    assert not (tmp_path / "cache" / "audits").exists()


@pytest.mark.parametrize(
    ("line", "leaves_nothing"),
    [
        ("calls = []", True),
        ("torch.nn.functional.softmax = None", False),
        ("functional = torch.nn.functional\nfunctional.softmax = None", False),
        ("torch.nn.Module.__init__.__kwdefaults__[0] = None", False),
        ("setattr(torch.nn, 'Linear', None)", False),
        ("del torch.nn.Linear", False),
        ("import os", False),
    ],
)
def test_a_file_that_changes_what_it_imports_leaves_something_behind(
    line: str, leaves_nothing: bool
) -> None:
    assert leaves_nothing_behind(f"import torch\n{line}\n{KIND}".encode()) is leaves_nothing
