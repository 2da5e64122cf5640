"""The public verbs in Python; the commands say the same words and do no more.

run = regard.train("recipes/mini-gpt.toml")
model = regard.load(run.folder)
model.generate(["The list"])        model.loss(["One sentence."])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.attention.kinds import ATTENTION
from regard.attention.positions import POSITIONS
from regard.catalog import Catalog
from regard.decode.generate import Sample, Strategy
from regard.errors import UserError
from regard.experiment.figures import measure
from regard.experiment.prepare import Prepared, prepare
from regard.experiment.run import Run, check_whole, read_config
from regard.experiment.samples import write_texts
from regard.experiment.train import run_experiment
from regard.experiment.watch import SILENT, Watch
from regard.files import MANIFEST, sha256
from regard.model.families import FAMILIES, Family
from regard.model.language_model import LanguageModel
from regard.objectives import OBJECTIVES
from regard.recipe import Recipe
from regard.settings import read_settings, settings_class
from regard.text.builtin import BUILTIN
from regard.text.tokenizer import Tokenizer, check_same
from regard.text.tokenizers import TOKENIZERS
from regard.training.checkpoint import load_weights
from regard.training.evaluation import document_losses


def train(
    recipe: Recipe | str | Path,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    watch: Watch = SILENT,
) -> Run:
    """Train a recipe, measure the result, and give its run folder (`runs/<name>` or `out`)."""
    if not isinstance(recipe, Recipe):
        recipe = Recipe.load(recipe)
    folder = Path(out) if out is not None else Path("runs") / recipe.name
    return run_experiment(recipe, folder, resume=resume, watch=watch)


def load(folder: str | Path, *, tokenizer: str | Path | None = None) -> Loaded:
    """A model with its tokenizer, from a run folder, a checkpoint or a `final` folder.

    `tokenizer` names another file to use; it has to be the one the model was trained with.
    """
    place = Path(folder)
    if not place.is_dir():
        what = "is not a folder" if place.exists() else "does not exist"
        raise UserError(f"{place} {what}", topic="run", mend="`regard train` makes run folders.")
    home = _model_folder(place)
    config = read_config(home)
    text = Tokenizer.load(tokenizer or home)
    check_same(config["tokenizer"], text, owner=f"model {place}")
    family = dict(config["model"])
    settings = read_settings(settings_class(FAMILIES, family.pop("family")), family, key="model")
    assert isinstance(settings, Family)
    model = settings.build(vocabulary=config["vocabulary"], seed=0)
    load_weights(model, home / "model.safetensors")
    return Loaded(model.eval(), text, home)


def evaluate(run: str | Path, *, watch: Watch = SILENT) -> dict[str, Any]:
    """Measure a finished run again, from its own recipe: figures with baselines, and remarks."""
    home = Run(Path(run))
    loaded = load(run)
    if not home.recipe_file.is_file():
        raise UserError(
            f"{run} is a model without its recipe, so its corpus is not known",
            topic="run",
            mend="Give the run folder it belongs to, such as runs/mini-gpt.",
        )
    recipe = home.recipe()
    prepared = prepare(recipe, tokenizer=loaded.tokenizer, watch=watch)
    _refuse_other_text(home, prepared)
    measured = measure(
        loaded.model,
        prepared.cache,
        loaded.tokenizer,
        recipe.evaluate,
        seed=recipe.train.seed,
        device="cpu",
        watch=watch,
    )
    return {
        "run": str(run),
        "figures": measured.figures,
        "comparisons": measured.comparisons,
        "remarks": home.figures()["remarks"],
        "weights": sha256(loaded.folder / "model.safetensors"),
    }


def _refuse_other_text(run: Run, prepared: Prepared) -> None:
    then = run.figures()["corpus"]["parts"]
    for name, part in prepared.statistics["parts"].items():
        before, now = then[name]["fingerprint"], part["fingerprint"]
        if before != now:
            raise UserError(
                f"the text of {run.folder} has changed: its {name} part was {before[:8]}… and "
                f"is {now[:8]}… now, so figures would speak of other documents",
                topic="run",
                mend="Put the old text back, or train on the new.",
            )


def _model_folder(place: Path) -> Path:
    if (place / "recipe.toml").is_file():
        return Run(place).model_folder()
    if not (place / "config.json").is_file() and not (place / MANIFEST).is_file():
        raise UserError(
            f"{place} is neither a run nor a model: it has no recipe.toml and no config.json",
            topic="run",
            mend="Give the folder that `regard train` wrote, such as runs/mini-gpt.",
        )
    return check_whole(place)


@dataclass(frozen=True)
class Loaded:
    """A trained model and the tokenizer it belongs to."""

    model: LanguageModel
    tokenizer: Tokenizer
    folder: Path

    def generate(
        self,
        texts: Sequence[str],
        *,
        strategy: Strategy | None = None,
        max_new: int = 60,
        seed: int = 0,
    ) -> list[str]:
        """What the model writes after each text. The default draws with temperature 0.8."""
        return write_texts(
            self.model,
            self.tokenizer,
            texts,
            strategy=strategy or Sample(temperature=0.8, top_p=0.95),
            max_new=max_new,
            seed=seed,
        )

    def loss(self, texts: Sequence[str]) -> list[float]:
        """Mean loss per token of each text, in nats, its end included."""
        if not texts:
            return []
        losses, tokens = document_losses(
            self.model,
            [np.asarray(ids, dtype=np.int64) for ids in self.tokenizer.encode_many(list(texts))],
            start=self.tokenizer.require("start"),
            stop=self.tokenizer.require("stop"),
            pad=self.tokenizer.require("pad"),
        )
        return [float(value) for value in losses / tokens]


def catalogs() -> list[Catalog]:
    """Every catalogue of named parts."""
    return [ATTENTION, POSITIONS, FAMILIES, OBJECTIVES, TOKENIZERS, BUILTIN]
