"""`regard audit`: verdicts as exit codes, errors as sentences."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.wording import says
from typer.testing import CliRunner

from regard import api
from regard.cli.app import app
from regard.core.errors import UserError
from regard.runs.models.loaded_model import LoadedModel

MODELS = '''
import torch
from torch import nn
from neighbour import AHEAD


class CumulativeSum(nn.Module):
    """CumulativeSum the embeddings up to each position, and of `ahead` later ones."""

    def __init__(self, ahead):
        super().__init__()
        self.tokens, self.ahead = nn.Embedding(9, 4), ahead

    def forward(self, ids):
        t = ids.shape[1]
        return torch.ones(t, t).tril(self.ahead) @ self.tokens(ids)


def clean():
    return CumulativeSum(0)


def leaking():
    return CumulativeSum(AHEAD)


class BatchMean(CumulativeSum):
    def forward(self, ids):
        outputs = super().forward(ids)
        return outputs - outputs.mean(dim=0)


def coupled():
    return BatchMean(0)


def random():
    generator = torch.Generator()
    return lambda ids: torch.rand(*ids.shape, 2, generator=generator)


def table():
    values = torch.randn(9, 2)
    return lambda ids: values[ids]


def broken():
    return 1 / 0


def exits():
    raise SystemExit(0)


def biased():
    import torch
    from regard.models.families import FAMILIES
    from regard.core.settings import read_settings, settings_class

    table = {"layers": 3, "heads": 2, "width": 8, "context": 12}
    return read_settings(settings_class(FAMILIES, "encoder"), table).build(vocabulary=9, seed=0)


def needs_argument(width):
    return CumulativeSum(0)


def path():
    return "runs/mine"


instance = CumulativeSum(0)
'''


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "neighbour.py").write_text("AHEAD = 1\n")
    file = tmp_path / "models.py"
    file.write_text(MODELS)
    return file


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["audit", *args])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_clean_gives_exit_code_0(models: Path) -> None:
    code, output = run(f"{models}:clean")
    assert code == 0
    assert says(output, "CLEAN", "no output depends", "causal")
    assert "the model has no cache" in output


def test_a_model_itself_is_taken(models: Path) -> None:
    assert run(f"{models}:instance")[0] == 0


def test_leak_gives_exit_code_1_with_map_and_pairs(models: Path) -> None:
    code, output = run(f"{models}:leaking")
    assert code == 1
    assert "LEAK  sees the future: position " in output
    drawn = [line.split() for line in output.splitlines() if "■ row" not in line and "■" in line]
    assert [row.index("■") for row in drawn[:2]] == [1, 2]
    assert {len(row) for row in drawn} == {12}
    assert "leaking pairs in total" in output


def test_batch_coupling_gives_exit_code_1(models: Path) -> None:
    code, output = run(f"{models}:coupled")
    assert code == 1
    assert says(output, "BATCH COUPLING", "evaluation mode")


def test_nondeterministic_model_gives_exit_code_2(models: Path) -> None:
    code, output = run(f"{models}:random", "--vocabulary", "9")
    assert code == 2
    assert says(output, "CANNOT TELL", "evaluation mode", "length 12", "two identical seeded runs")


def test_json_has_every_leak(models: Path) -> None:
    code, output = run(f"{models}:leaking", "--json", "--length", "6")
    table = json.loads(output)
    assert code == 1
    assert table["verdict"] == "leak"
    assert {(leak["query"], leak["key"]) for leak in table["leaks"]} == {
        (i, i + 1) for i in range(5)
    }
    assert all("length 6" in leak["where"] for leak in table["leaks"])


def test_another_mask(models: Path) -> None:
    assert run(f"{models}:leaking", "--mask", "bidirectional")[0] == 0
    assert run(f"{models}:clean", "--mask", "prefix:4")[0] == 0


def test_vocabulary_option_if_it_cannot_be_detected(models: Path) -> None:
    with pytest.raises(UserError, match=r"vocabulary is not known.*sample"):
        run(f"{models}:table")
    assert run(f"{models}:table", "--vocabulary", "9")[0] == 0


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("models.py", r"models.py: a Python file alone is no model.*models.py:factory"),
        ("gone.py:clean", r"gone.py: there is no such file"),
        ("models.py:claen", r"has no function claen — did you mean clean\?"),
        ("models.py:broken", r"broken\(\) raised ZeroDivisionError: division by zero"),
        ("models.py:path", r"path\(\) returned a str, not a model"),
        ("models.py:exits", r"exits\(\) raised SystemExit: 0"),
        ("exits.py:clean", r"exits.py: running it raised SystemExit: 4"),
        ("models.py:needs_argument", r"needs_argument\(\) raised TypeError.*without arguments"),
        ("wrong.py:clean", r"wrong.py: running it raised SyntaxError"),
        ("nowhere", r"nowhere does not exist"),
    ],
)
def test_invalid_target_is_refused(
    models: Path, target: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(models.parent)
    (models.parent / "wrong.py").write_text("def clean(:\n")
    (models.parent / "exits.py").write_text("import sys\nsys.exit(4)\n")
    with pytest.raises(UserError, match=message):
        run(target)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--length", "1"), "length 1 cannot be audited"),
        (("--vocabulary", "5"), "--vocabulary 5: the model has 9 ids"),
        (("--vocabulary", "1"), "--vocabulary 1: nothing can be exchanged"),
    ],
)
def test_options_that_contradict_the_model(
    models: Path, args: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run(f"{models}:clean", *args)


def test_vocabulary_option_may_repeat_the_detected_size(models: Path) -> None:
    assert run(f"{models}:clean", "--vocabulary", "9")[0] == 0


def test_encoder_is_audited_with_its_own_mask_and_key_biases_are_listed_once(
    models: Path,
) -> None:
    code, output = run(f"{models}:biased")
    assert code == 0
    assert "mask bidirectional (the model's own)" in output
    assert output.count("softmax is invariant") == 1
    assert "3 key biases (" in output
    table = json.loads(run(f"{models}:biased", "--json")[1])
    assert sum(one["name"].endswith("key.bias") for one in table["unused_parameters"]) == 3


def test_unknown_mask_is_refused(models: Path) -> None:
    with pytest.raises(UserError, match="cuasal"):
        run(f"{models}:clean", "--mask", "cuasal")


def test_sys_path_is_restored(models: Path) -> None:
    import sys

    before = list(sys.path)
    run(f"{models}:clean")
    assert sys.path == before


def test_mask_object_equals_mask_expression() -> None:
    import torch

    from regard.attention.masks.mask import prefix, sliding_window

    def ahead(ids: torch.Tensor) -> torch.Tensor:
        t = ids.shape[1]
        return torch.ones(t, t).tril(1) @ torch.nn.functional.one_hot(ids, 9).float()

    sample = torch.randint(9, (2, 8))
    for mask in (sliding_window(3), "sliding-window:3", prefix(torch.tensor([2])), "prefix:2"):
        result = api.audit(ahead, mask, sample)
        assert result.verdict == "leak"
        assert all(leak.key > leak.query for leak in result.leaks)
    assert api.audit(ahead, sliding_window(21) | ~sliding_window(21), sample).is_clean
    assert (
        api.audit(ahead, sliding_window(3) | ~sliding_window(21), sample).verdict == "cannot tell"
    )


def test_run_folder_is_loaded(
    tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.cli.trust.audit import _call_factory

    loads: list[object] = []

    def load(folder: object, *, base: object, user_files: object) -> LoadedModel:
        loads.append((folder, user_files))
        model = _call_factory(f"{models}:leaking")
        return LoadedModel(SimpleNamespace(model=model), tmp_path)  # type: ignore[arg-type]

    monkeypatch.setattr(api, "load", load)
    assert run("runs/some", "--with", "kind.py")[0] == 1
    assert loads == [("runs/some", [Path("kind.py")])]
