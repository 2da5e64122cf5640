"""Naming rules: the field's terms, unique class names, packages of limited size."""

import io
import keyword
import re
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "regard"
MODULES = sorted(SOURCE.rglob("*.py"))
C_FILES = sorted(SOURCE.rglob("*.[ch]"))

BANNED = {
    "asked": "inputs, arguments, question",
    "bend": "activation",
    "bends": "activations",
    "disguised": "corrupted",
    "figure": "estimate, score",
    "figures": "estimates, scores, results",
    "hiding": "masking",
    "in_twos": "log2_scaled",
    "laid_out": "packed",
    "learnt": "task_state",
    "least_kept": "keep_threshold",
    "lookback": "sliding_window",
    "mass": "denominator, lse",
    "mend": "hint",
    "narrowed": "restricted",
    "newest": "decode step",
    "optimiser": "optimizer",
    "processor": "cpu",
    "quick": "fast",
    "share_kept": "keep_probability",
    "shaken": "perturbed",
    "source_attention": "cross_attention",
    "starting_deviation": "init_std",
    "tell": "predict, score, report",
    "tells": "predicts, scores, reports",
    "told": "predicted, scored, reported",
    "unreached": "unused parameters",
    "unread": "unused parameters",
    "want_weights": "need_weights",
    "widen": "up_proj",
}
"Each with its replacement."
STANDARD_LIBRARY = {"most_common", "processor", "tell"}
"Attributes of Counter, platform and file objects, which may be used."
SUPERLATIVES = {"most_frequent_answer", "most_predicted"}
"Not limits."
PARTICIPLES = {"Learned", "Masked", "SoftMasked", "ZeroMasked"}
"Kinds of positions, objectives and attention."
BANNED_PREFIXES = {"MOST_": "MAX_", "FEWEST_": "MIN_", "most_": "max_", "fewest_": "min_"}
PUBLIC_CLASS = re.compile(r"^class ([A-Za-z]\w*)", flags=re.MULTILINE)
SUSPECTS = re.compile(rf"\b(({'|'.join(BANNED)})\b|{'|'.join(BANNED_PREFIXES)})")


def identifiers(file: Path) -> set[str]:
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        code = re.sub(r'/\*.*?\*/|//[^\n]*|"[^"\n]*"', " ", text, flags=re.S)
        return set(re.findall(r"[A-Za-z_]\w*", code))
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    return {
        token.string
        for before, token in zip([None, *tokens], tokens, strict=False)
        if token.type == tokenize.NAME
        and not keyword.iskeyword(token.string)
        and token.string not in SUPERLATIVES
        and not (before and before.string == "." and token.string in STANDARD_LIBRARY)
    }


def banned_identifiers(file: Path) -> dict[str, str]:
    """Those in the file, each with its replacement."""
    if not SUSPECTS.search(file.read_text(encoding="utf-8")):
        return {}
    found = identifiers(file)
    replacements = {name: BANNED[name] for name in found & BANNED.keys()}
    return replacements | {
        name: prefix + name.removeprefix(banned)
        for name in found
        for banned, prefix in BANNED_PREFIXES.items()
        if name.startswith(banned)
    }


def test_no_banned_identifier() -> None:
    found = {str(file.relative_to(SOURCE)): banned_identifiers(file) for file in MODULES + C_FILES}
    assert len(found) > 400
    assert {file: names for file, names in found.items() if names} == {}


@pytest.mark.parametrize("name", ["told", "MOST_ROWS"])
def test_banned_identifier_is_found(tmp_path: Path, name: str) -> None:
    file = tmp_path / "module.py"
    file.write_text(f"{name} = 1", encoding="utf-8")
    assert list(banned_identifiers(file)) == [name]


def test_class_names_are_unique() -> None:
    files_by_class = defaultdict(list)
    for file in MODULES:
        for name in PUBLIC_CLASS.findall(file.read_text(encoding="utf-8")):
            files_by_class[name].append(str(file.relative_to(SOURCE)))
    assert len(files_by_class) > 300
    assert {name: files for name, files in files_by_class.items() if len(files) > 1} == {}


def test_classes_are_nouns() -> None:
    """No past participle names a class, but for kinds that the field calls so."""
    names = {
        name for file in MODULES for name in PUBLIC_CLASS.findall(file.read_text(encoding="utf-8"))
    }
    assert {name for name in names if name.endswith(("ed", "own", "ept"))} == PARTICIPLES


def test_packages_have_at_most_16_modules() -> None:
    packages = [folder for folder in SOURCE.rglob("*") if (folder / "__init__.py").is_file()]
    counts = {
        str(package.relative_to(SOURCE)): len(list(package.glob("*.py"))) - 1
        for package in packages
    }
    assert len(counts) > 40
    assert {package: count for package, count in counts.items() if count > 16} == {}


@pytest.mark.parametrize(
    ("term", "file"),
    [
        ("KV cache", "attention/cache.py"),
        ("cross-attention", "models/blocks/block.py"),
        ("prefetch", "training/prefetch.py"),
        ("hidden size", "models/families/transformer.py"),
        ("activation", "nn/activations.py"),
        ("dropout", "nn/dropout.py"),
        ("gradient norm", "training/loop.py"),
        ("sliding window", "attention/masks/mask.py"),
        ("logits", "models/heads/language_model_head.py"),
        ("embedding", "models/blocks/embedding.py"),
        ("split", "data/splits.py"),
        ("checkpoint", "training/checkpoint.py"),
    ],
)
def test_the_fields_terms_lead_to_the_right_file(term: str, file: str) -> None:
    assert term in (SOURCE / file).read_text(encoding="utf-8").lower().replace(
        "kv cache", "KV cache"
    )
