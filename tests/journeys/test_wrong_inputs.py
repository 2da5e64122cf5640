"""Wrong inputs, more than 250 over all commands: exit code 2, one sentence that names what is
wrong, no traceback, and advice that exists.

Advice is checked against the real thing: commands and options against the command tree, settings
against the settings classes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer.main
from tests.journeys import strangers_files
from tests.journeys.workspace import Workspace, file_digests, generated_text

from regard.cli.commands import app
from regard.core.settings import Settings, catalog_field, nested_settings, settings_class
from regard.runs.recipe import Recipe
from regard.studies.study import Study

STUDY = 'base = "tiny.toml"\nseeds = [0, 1]\n[variants.a]\n[variants.b]\n"train.lr" = 1e-3\n'
FILES = {
    "generated.txt": generated_text(120),
    "study.toml": STUDY,
    "rows.csv": "text,label\ngood film,pos\nbad film,neg\n",
    "items.csv": "id,variant,accuracy\n1,a,1\n2,a,0\n1,b,1\n2,b,1\n",
    "broken.json": '{"a": ',
    "broken.py": "def f(:\n",
    "raises.py": "1 / 0\n",
    "empty.py": "x = 1\n",
    "notes/shopping.txt": "eggs\n",
    "latin.csv": b"text,label\ncaf\xe9,a\n",
    "empty.csv": "",
}


def over(setting: str, *named: str) -> tuple[str, tuple[str, ...]]:
    """A recipe with one wrong setting, which the sentence names."""
    key = setting.partition("=")[0]
    return f"validate tiny.toml --set {shlex.quote(setting)}", (key, *named)


SETTINGS = [
    over("train.learning_rate=1", "train.lr?"),
    over("train.num_epochs=1", "train.epochs?"),
    over("train.batch_size=8", "train.batch_tokens?", "tokens"),
    over("train.optimizer=adam", "AdamW", "train.weight_decay"),
    over("optimizer=adam", "train?"),
    over("optimizer.lr=1", "train?"),
    over("wandb=true", "train.tensorboard"),
    over("train.wandb=true", "train.tensorboard"),
    over("train.report_to=wandb", "train.tensorboard"),
    over("train.precision=16", "'bf16'"),
    over("train.fp16=true", "train.precision?", "bf16"),
    over("precision=bf16", "train.precision?"),
    over("train.load_in_4bit=true", "train.precision"),
    over("train.flash_attention=true", "kernels"),
    over("model.torch_compile=true", "train.compile"),
    over("train.gpu=0", "train.device?"),
    over("train.gpus=2", "train.device?"),
    over("model.device=cuda", "train.device?"),
    over("device=cuda", "train.device?"),
    over("train.warmup=100", "train.warmup_ratio?", "fraction"),
    over("train.warmup_steps=100", "train.warmup_ratio?"),
    over("train.scheduler=cosine", "train.warmup_ratio"),
    over("train.lr_scheduler_type=linear", "train.min_lr_ratio"),
    over("train.gradient_accumulation_steps=4", "train.accumulate?"),
    over("train.max_iters=4", "train.max_steps?"),
    over("train.early_stopping=3", "train.patience?"),
    over("train.num_workers=4", "train.threads"),
    over("train.random_state=4", "train.seed?"),
    over("train.save_steps=4", "train.checkpoint_every?"),
    over("train.output_dir=x", "--out"),
    over("train.push_to_hub=true", "regard export"),
    over("model.n_layer=2", "model.layers?"),
    over("model.num_hidden_layers=2", "model.layers?"),
    over("model.hidden_size=8", "model.width?"),
    over("model.n_embd=8", "model.width?"),
    over("model.num_attention_heads=2", "model.heads?"),
    over("model.max_length=9", "model.context?"),
    over("model.block_size=9", "model.context?"),
    over("model.lr=1", "train.lr?"),
    over("lr=1", "train.lr?"),
    over("epochs=1", "train.epochs?"),
    over("seed=1", "train.seed?"),
    over("layers=1", "model.layers?"),
    over("train.layers=1", "model.layers?"),
    over("train.dropout=0.1", "model.dropout?"),
    over("model.vocab_size=50", "tokenizer.vocabulary?"),
    over("tokenizer.vocab_size=50", "tokenizer.vocabulary?"),
    over("model.num_labels=2", "labels"),
    over("model.fsdp=true", "train.parallel"),
    over("model.widht=8", "model.width?"),
    over("model.atention=dot", "model.attention?"),
    over("trian.lr=1", "train?"),
    over("dataset=x", "data?"),
    over("data.dataset=x", "data.corpus?"),
    over("data.val=0.1", "data.dev?"),
    over("data.train_file=x", "data.corpus?"),
    over("model.zzzz=1", "known: "),
    over("model.attention.kind=rope", "known: "),
    over("model.positions.kind=rope", "rotary?"),
    over("model.attention.kind=softmax", "dot?"),
    over("model.family=bert", "encoder?"),
    over("model.family=gpt2", "decoder?"),
    over("model.family=lstm", "recurrent?"),
    over("tokenizer.kind=sentencepiece", "unigram?"),
    over("objective.kind=mlm", "masked?"),
    over("task.kind=ner", "known: "),
    over("train.lr=fast", "number"),
    over("train.lr=0", "greater than 0"),
    over("train.lr=nan", "train.lr"),
    over("train.epochs=0", "greater"),
    over("train.epochs=1.5", "integer"),
    over("train.max_steps=-1", "greater"),
    over("train.warmup_ratio=2", "less than 1"),
    over("train.batches=random", "'packed'"),
    over("train.device=gpu", "auto"),
    over("train.threads=100000", "256"),
    over("train.seed=-1", "greater"),
    over("model.layers=1000000", "4096"),
    over("model.layers=two", "integer"),
    over("model.context=100000000000", "16777216"),
    over("model.activation=swish", "'gelu'"),
    over("model.tied=maybe", "boolean"),
    over("tokenizer.vocabulary=1000000000", "10000000"),
    over("data.dev=0.9", "below 0.5"),
    ("validate tiny.toml --set data.corpus=nowhere.csv", ("nowhere.csv", "no such file")),
    over("data.unit=page", "'line'"),
    over("samples.top_p=2", "1"),
    over("evaluate.ngram=9", "5"),
    over("train=1", "[train]"),
    over("name=a/b", "name"),
    over("init_from=runs/none", "init_from"),
    over("adapt.kind=lora", "init_from"),
]

COMMANDS: list[tuple[str, tuple[str, ...]]] = [
    ("trian tiny.toml", ("trian", "train")),
    ("train", ("RECIPE",)),
    ("train tiny.toml --rezume", ("--rezume", "--resume")),
    ("train tiny.toml extra", ("extra",)),
    ("train none.toml", ("none.toml", "regard new")),
    ("train none.toml --resume", ("none.toml", "does not exist")),
    ("train runs/none --resume", ("runs/none", "does not exist", "regard runs")),
    ("train notes", ("notes", "recipe.toml")),
    ("train generated.txt", ("generated.txt", "regard new generated.txt")),
    ("train rows.csv", ("rows.csv", "regard new rows.csv")),
    ("train study.toml", ("study.toml", "regard compare study.toml")),
    ("train tiny.toml --with none.py", ("none.py",)),
    ("train tiny.toml --with generated.txt", ("generated.txt", ".py")),
    ("train tiny.toml --with raises.py", ("raises.py, line 1",)),
    ("train tiny.toml --set train.lr", ("--set train.lr", "key=value")),
    ("train tiny.toml --out generated.txt", ("generated.txt",)),
    ("train tiny.toml --out notes", ("notes",)),
    ("validate", ("RECIPE",)),
    ("validate study.toml", ("study.toml", "regard compare study.toml")),
    ("validate latin.csv", ("latin.csv",)),
    ("compare tiny.toml", ("tiny.toml", "regard train tiny.toml")),
    ("compare none.toml", ("none.toml", "does not exist")),
    ("compare generated.txt", ("generated.txt",)),
    ("compare study.toml --seeds x", ("--seeds", "x")),
    ("compare study.toml --only c", ("c", "a")),
    ("compare study.toml --jobs -1", ("--jobs",)),
    ("compare notes", ("notes",)),
    ("plan none.toml", ("none.toml", "does not exist")),
    ("plan tiny.toml", ("tiny.toml", "regard train tiny.toml")),
    ("plan study.toml --seeds x", ("--seeds", "x")),
    ("sweep study.toml", ("grid",)),
    ("sweep none.toml", ("none.toml",)),
    ("judge none.csv", ("none.csv", "no such file")),
    ("serve --in nowhere", ("nowhere",)),
    ("serve --port 70000", ("--port",)),
    ("serve --port http", ("--port",)),
    ("judge items.csv --metric zzz", ("zzz",)),
    ("judge items.csv --variant zzz", ("zzz",)),
    ("judge broken.json other=broken.json", ("broken.json",)),
    ("evaluate none", ("none", "regard train")),
    ("evaluate generated.txt", ("generated.txt", "not a folder")),
    ("evaluate notes", ("notes", "regard train")),
    ("predict none rows.csv", ("none", "regard train")),
    ("predict notes rows.csv", ("notes", "regard train")),
    ("generate none", ("none", "regard train")),
    ("generate generated.txt", ("generated.txt", "not a folder")),
    ("generate notes --temperature hot", ("--temperature",)),
    ("generate notes --max-new-tokens 0", ("--max-new-tokens",)),
    ("ask none what", ("none", "regard train")),
    ("inspect none --text a", ("none", "regard train")),
    ("inspect none", ("--text",)),
    ("ledger none", ("none", "regard train")),
    ("ledger generated.txt", ("generated.txt", "not a folder")),
    ("report none", ("none", "regard train")),
    ("report generated.txt", ("generated.txt", "folder")),
    ("report notes", ("notes", "regard train")),
    ("errors none", ("none", "regard train")),
    ("errors notes", ("notes", "regard train")),
    ("runs --in nowhere", ("nowhere", "--in")),
    ("runs --in notes --where foo", ("--where", "foo")),
    ("runs --in notes --state gone", ("gone", "finished")),
    ("runs --limit 0", ("--limit",)),
    ("audit none", ("none", "regard train")),
    ("audit generated.txt", ("generated.txt",)),
    ("audit none.py:model", ("none.py",)),
    ("audit broken.py:f", ("broken.py", "line 1")),
    ("audit empty.py:f", ("empty.py", "f")),
    ("audit empty.py:x", ("empty.py", "x")),
    ("check none.py", ("none.py",)),
    ("check generated.txt", ("generated.txt", ".py")),
    ("check empty.py", ("empty.py",)),
    ("check broken.py", ("broken.py, line 1",)),
    ("check empty.py --configurations none", ("--configurations",)),
    ("import hub:bert-base --out m", ("hub:bert-base", "hf download bert-base")),
    ("import none --out m", ("none",)),
    ("import notes --out m", ("notes", "config.json")),
    ("import pip:no-such-package --out m", ("no-such-package",)),
    ("import notes", ("--out",)),
    ("export none --out m", ("none", "regard train")),
    ("export notes --out m", ("notes", "regard train")),
    ("ls zzz", ("zzz", "attention")),
    ("ls attentoin", ("attentoin", "attention?")),
    ("mask zzz", ("zzz", "causal")),
    ("mask lookback:4", ("lookback", "sliding-window:5?")),
    ("mask sliding", ("sliding", "sliding-window?")),
    ('mask "causal &"', ("causal &",)),
    ("mask causal --length 0", ("0", "1 to")),
    ("mask causal --prefix 3", ("--prefix",)),
    ("mask causal --labels 'a b' --length 3", ("--labels", "--length")),
    ("lesson zzz", ("zzz",)),
    ("lesson average-of-two --set zzz=1", ("zzz",)),
    ("exercise zzz", ("zzz",)),
    ("corpus zzz", ("zzz",)),
    ("tokenizer zzz", ("zzz",)),
    ("corpus stats none.txt", ("none.txt", "no such file")),
    ("corpus stats 'some words of text'", ("some words of text", "a file")),
    ("new 'some words of text'", ("some words of text",)),
    ("predict notes 'a fine film'", ("notes",)),
    ("corpus stats rows.csv --text zzz", ("zzz",)),
    ("corpus stats empty.csv", ("empty.csv",)),
    ("corpus stats generated.txt --unit page", ("--unit",)),
    ("tokenizer show none", ("none",)),
    ("tokenizer show generated.txt", ("generated.txt",)),
    ("tokenizer show broken.json", ("broken.json",)),
    ("tokenizer train generated.txt --out t --kind zzz", ("zzz", "bpe")),
    ("tokenizer train generated.txt --out t --kind sentencepiece", ("unigram?",)),
    ("tokenizer train generated.txt --out t --vocabulary 1", ("vocabulary",)),
    ("tokenizer train generated.txt --out notes", ("notes", "--out")),
    ("tokenizer advise generated.txt --tokenizer none", ("none",)),
    ("new none.csv", ("none.csv",)),
    ("new empty.csv", ("empty.csv",)),
    ("schema zzz", ("zzz", "recipe")),
    ("recipes --out rows.csv", ("rows.csv", "a folder")),
]

INPUTS = [*SETTINGS, *COMMANDS, *strangers_files.COMMANDS]


def test_there_are_150_wrong_inputs_over_all_commands() -> None:
    assert len(INPUTS) >= 150
    used = [command for command, _ in INPUTS]
    assert [name for name in commands() if not any(one.startswith(name) for one in used)] == []


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A folder with a recipe, a study and files of other kinds; no input changes it."""
    workspace = Workspace(tmp_path_factory.mktemp("stranger"))
    workspace.recipe()
    for name, content in {**FILES, **strangers_files.FILES}.items():
        workspace.write(name, content)
    return workspace


@pytest.mark.parametrize(("command", "named"), INPUTS, ids=[command for command, _ in INPUTS])
def test_wrong_input_is_one_sentence_with_advice_that_exists(
    stranger: Workspace, command: str, named: tuple[str, ...]
) -> None:
    before = digests(stranger)
    words = shlex.split(command)
    result = stranger.invoke(*words)
    assert result.exit_code == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert "bug in regard" not in result.stderr
    assert result.stderr.strip() == result.error, "more than one line"
    for one in named:
        assert one in result.error
    assert not re.search(
        r"  |\bNone\b|(?<![=-]) 1 (rows|documents|steps|runs|files|tokens)\b", result.error
    )
    assert set(advised(result.error, given=command)) == set(), result.error
    assert digests(stranger) == before


def digests(workspace: Workspace) -> dict[str, str]:
    found = file_digests(workspace.folder)
    return {
        name: one for name, one in found.items() if not name.startswith(("cache/", "__pycache__/"))
    }


def advised(sentence: str, *, given: str) -> Iterator[str]:
    """What the sentence advises and does not exist; what the input itself names is left out."""
    known_commands, known_options = (
        commands(),
        {one for found in commands().values() for one in found},
    )
    for name in re.findall(r"(?:`|\. )regard ([a-z]+)", sentence):
        if name not in known_commands:
            yield f"regard {name}"
    for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", sentence):
        if option not in {*known_options, "--local-dir"} and option not in given:
            yield option
    for table, key in re.findall(rf"\b({'|'.join(TABLES)})\.([a-z_]+)\b", sentence):
        if key not in settings() and f"{table}.{key}" not in given and key not in SUFFIXES:
            yield f"{table}.{key}"


TABLES = (
    "data",
    "tokenizer",
    "model",
    "objective",
    "task",
    "adapt",
    "train",
    "evaluate",
    "samples",
)
SUFFIXES = ("safetensors", "toml", "csv", "txt", "json", "kind", "family")


@cache
def commands() -> dict[str, set[str]]:
    """The options of each command, of those in groups too."""
    tree: Any = typer.main.get_command(app)
    found = {"": options_of(tree)}
    for name, command in tree.commands.items():
        if command.hidden:
            continue
        found[name] = options_of(command)
        for inner, one in getattr(command, "commands", {}).items():
            found[f"{name} {inner}"] = options_of(one)
    return {name: options for name, options in found.items() if name}


def options_of(command: Any) -> set[str]:
    return {"--help", "--quiet", "--version", *(o for p in command.params for o in p.opts)}


@cache
def settings() -> set[str]:
    """The names of every setting of a recipe, of whatever part, and of a study."""
    names: set[str] = set()

    def collect(cls: type[Settings]) -> None:
        for name, field in cls.model_fields.items():
            names.add(name)
            if (choice := catalog_field(field)) is not None:
                for part in choice.catalog.names():
                    collect(settings_class(choice.catalog, part))
            elif (section := nested_settings(field)) is not None:
                collect(section)

    collect(Recipe)
    collect(Study)
    return names
