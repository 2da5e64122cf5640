"""`regard audit`: verdicts as exit codes, and sentences for what goes wrong."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from regard import api
from regard.cli.app import app
from regard.core.errors import UserError

MODELS = '''
import torch
from torch import nn
from beside import AHEAD


class Sums(nn.Module):
    """Adds up tokens to the left, and `ahead` more."""

    def __init__(self, ahead):
        super().__init__()
        self.tokens, self.ahead = nn.Embedding(9, 4), ahead

    def forward(self, ids):
        t = ids.shape[1]
        return torch.ones(t, t).tril(self.ahead) @ self.tokens(ids)


def clean():
    return Sums(0)


def leaking():
    return Sums(AHEAD)


def random():
    generator = torch.Generator()
    return lambda ids: torch.rand(*ids.shape, 2, generator=generator)


def table():
    values = torch.randn(9, 2)
    return lambda ids: values[ids]


def broken():
    return 1 / 0


def leaving():
    raise SystemExit(0)


def biased():
    import torch
    from regard.models.families import FAMILIES
    from regard.core.settings import read_settings, settings_class

    table = {"layers": 3, "heads": 2, "width": 8, "context": 12}
    return read_settings(settings_class(FAMILIES, "encoder"), table).build(vocabulary=9, seed=0)


def greedy(width):
    return Sums(0)
'''


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("AHEAD = 1\n")
    file = tmp_path / "models.py"
    file.write_text(MODELS)
    return file


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["audit", *words])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def test_clean_is_0(models: Path) -> None:
    code, said = run(f"{models}:clean")
    assert code == 0
    assert "CLEAN  no output depends on an input that the mask causal forbids" in said
    assert "through the cache: the model offers no cache" in said


def test_a_leak_is_1_with_picture_and_pairs(models: Path) -> None:
    code, said = run(f"{models}:leaking")
    assert code == 1
    assert "LEAK  sees the future: position " in said
    assert "    · ■ · · · · · · · · · ·\n    · · ■ ·" in said
    assert "leaking pairs in all" in said


def test_what_cannot_be_told_is_2(models: Path) -> None:
    code, said = run(f"{models}:random", "--vocabulary", "9")
    assert code == 2
    assert "CANNOT TELL  evaluation mode, length 12: two identical seeded runs" in said


def test_json_is_all_of_it(models: Path) -> None:
    code, said = run(f"{models}:leaking", "--json", "--length", "6")
    told = json.loads(said)
    assert code == 1
    assert told["verdict"] == "leak"
    assert {(leak["query"], leak["key"]) for leak in told["leaks"]} == {
        (i, i + 1) for i in range(5)
    }
    assert all("length 6" in leak["where"] for leak in told["leaks"])


def test_another_mask(models: Path) -> None:
    assert run(f"{models}:leaking", "--mask", "bidirectional")[0] == 0
    assert run(f"{models}:clean", "--mask", "prefix:4")[0] == 0


def test_a_vocabulary_where_none_is_found(models: Path) -> None:
    with pytest.raises(UserError, match=r"vocabulary is not known.*sample"):
        run(f"{models}:table")
    assert run(f"{models}:table", "--vocabulary", "9")[0] == 0


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("models.py", r"models.py: a Python file alone is no model.*models.py:factory"),
        ("gone.py:clean", r"gone.py: there is no such file"),
        ("models.py:claen", r"has no function claen — did you mean clean\?"),
        ("models.py:broken", r"broken\(\) raised ZeroDivisionError: division by zero"),
        ("models.py:leaving", r"leaving\(\) raised SystemExit: 0"),
        ("left.py:clean", r"left.py: running it raised SystemExit: 4"),
        ("models.py:greedy", r"greedy\(\) raised TypeError.*without arguments"),
        ("wrong.py:clean", r"wrong.py: running it raised SyntaxError"),
        ("nowhere", r"nowhere does not exist"),
    ],
)
def test_a_target_that_is_none(
    models: Path, target: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(models.parent)
    (models.parent / "wrong.py").write_text("def clean(:\n")
    (models.parent / "left.py").write_text("import sys\nsys.exit(4)\n")
    with pytest.raises(UserError, match=says):
        run(target)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--length", "1"), "length 1 cannot be audited"),
        (("--vocabulary", "5"), "--vocabulary 5: the model has 9 ids"),
        (("--vocabulary", "1"), "--vocabulary 1: nothing can be exchanged"),
    ],
)
def test_options_that_do_not_fit_the_model(models: Path, words: tuple[str, ...], says: str) -> None:
    with pytest.raises(UserError, match=says):
        run(f"{models}:clean", *words)


def test_a_vocabulary_that_is_known_may_be_said(models: Path) -> None:
    assert run(f"{models}:clean", "--vocabulary", "9")[0] == 0


def test_an_encoder_of_regards_is_held_to_its_own_mask_and_key_biases_are_told_once(
    models: Path,
) -> None:
    code, said = run(f"{models}:biased")
    assert code == 0
    assert "mask bidirectional (the model's own)" in said
    assert said.count("a softmax does not see what moves all scores of a query alike") == 1
    assert "3 key biases (" in said
    told = json.loads(run(f"{models}:biased", "--json")[1])
    assert sum(one["name"].endswith("key.bias") for one in told["unused_parameters"]) == 3


def test_a_mask_that_is_none(models: Path) -> None:
    with pytest.raises(UserError, match="cuasal"):
        run(f"{models}:clean", "--mask", "cuasal")


def test_the_file_leaves_nothing_on_the_path(models: Path) -> None:
    import sys

    before = list(sys.path)
    run(f"{models}:clean")
    assert sys.path == before


def test_a_mask_object_and_its_name_say_the_same() -> None:
    import torch

    from regard.attention.masks.mask import prefix, sliding_window

    def ahead(ids: torch.Tensor) -> torch.Tensor:
        t = ids.shape[1]
        return torch.ones(t, t).tril(1) @ torch.nn.functional.one_hot(ids, 9).float()

    sample = torch.randint(9, (2, 8))
    for mask in (sliding_window(3), "sliding-window:3", prefix(torch.tensor([2])), "prefix:2"):
        seen = api.audit(ahead, mask, sample)
        assert seen.verdict == "leak"
        assert all(leak.key > leak.query for leak in seen.leaks)
    assert api.audit(ahead, sliding_window(21) | ~sliding_window(21), sample).is_clean
    assert (
        api.audit(ahead, sliding_window(3) | ~sliding_window(21), sample).verdict == "cannot tell"
    )


def test_a_run_folder_is_loaded(
    tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.cli.trust.audit import _made_by

    asked: list[object] = []

    def load(folder: object, *, base: object, user_files: object) -> api.LoadedModel:
        asked.append((folder, user_files))
        model = _made_by(f"{models}:leaking")
        return api.LoadedModel(SimpleNamespace(model=model), tmp_path)  # type: ignore[arg-type]

    monkeypatch.setattr(api, "load", load)
    assert run("runs/some", "--with", "kind.py")[0] == 1
    assert asked == [("runs/some", [Path("kind.py")])]
