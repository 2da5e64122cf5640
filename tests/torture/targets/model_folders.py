"""Model folders of regard and of Hugging Face, changed by somebody who can also seal them."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import NamedTuple

from tests.torture.commands import flip_bits, one_thread, without_charts, workspace_at
from tests.torture.harness import Target
from tests.torture.hostile_values import mutate
from tests.torture.targets.recipes import refuse

from regard.core.errors import UserError
from regard.core.files import MANIFEST, sha256
from regard.interop.import_model import import_model
from regard.runs.models.loaded_model import load_model


class Folders(NamedTuple):
    ours: Path
    theirs: Path


def make(home: Path) -> Folders:
    import transformers
    from tests.interop.transformers_models import save_checkpoint

    workspace = workspace_at(home / "work")
    workspace.recipe()
    with without_charts():
        workspace.run("train", "tiny.toml")
    settings = transformers.GPT2Config(
        vocab_size=30,
        n_positions=32,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=None,
        eos_token_id=None,
    )
    theirs = save_checkpoint(transformers.GPT2LMHeadModel(settings), home / "theirs")
    one_thread()
    return Folders(workspace.folder / "runs/tiny/final", theirs)


def damage(folder: Path, generator: random.Random) -> None:
    """One or two files: JSON by its values, others by their bytes."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    for file in generator.sample(files, generator.choice((1, 1, 2))):
        content = file.read_bytes()
        if file.suffix == ".json" and generator.random() < 0.8:
            changed = mutate(json.loads(content), generator, changes=generator.randrange(1, 4))
            file.write_text(json.dumps(changed), encoding="utf-8", errors="surrogatepass")
        elif file.suffix == ".safetensors" and generator.random() < 0.5:
            size = int.from_bytes(content[:8], "little")
            header = flip_bits(content[8 : 8 + size], generator)
            given = generator.choice((size, len(header), generator.randrange(2**64)))
            file.write_bytes(given.to_bytes(8, "little") + header + content[8 + size :])
        else:
            file.write_bytes(flip_bits(content, generator))


def seal(folder: Path) -> None:
    files = {file.name: sha256(file) for file in folder.iterdir() if file.name != MANIFEST}
    (folder / MANIFEST).write_text(json.dumps({"schema": 1, "files": files}), encoding="utf-8")


def trial(folders: Folders, generator: random.Random, folder: Path) -> str:
    ours = generator.random() < 0.6
    copied = Path(shutil.copytree(folders.ours if ours else folders.theirs, folder / "model"))
    damage(copied, generator)
    try:
        if not ours:
            import_model(str(copied), folder / "imported")
            return "imported"
        if generator.random() < 0.9:
            seal(copied)
        load_model(copied).generate(["the cat"], max_new_tokens=2)
    except UserError as problem:
        return refuse(problem)
    return "loaded"


TARGET = Target(
    "model folders",
    "model folders, ours (with a manifest that fits) and Hugging Face's: configs, tokenizers, "
    "weights",
    5_000,
    trial,
    make,
    seconds=40,
    batch=20,
)
