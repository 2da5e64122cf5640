"""What is not equal between variants is said, and what is equal is not."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from regard.study.equality import unequal
from regard.study.outcome import VariantOutcome
from regard.study.record import Figures, RunRecord
from regard.study.usable import Usable

STUDY = SimpleNamespace(
    study=SimpleNamespace(tolerance=0.05, budget="steps"),
    variants=[SimpleNamespace(name="a", against="a"), SimpleNamespace(name="b", against="a")],
)


def variant(name: str, **facts) -> VariantOutcome:
    sizes = {"parameters": 1000, "tokens": 500, "steps": 10}
    return VariantOutcome(name, {}, **{**sizes, **facts})


def usable(**facts) -> Usable:
    table = {
        "run": "x",
        "finished": "now",
        "figures": (),
        "items": {part: {"documents": "d", "told": "t"} for part in ("train", "dev", "test")},
        "order": "o",
        "tokenizer": {"name": "bpe", "size": 9, "fingerprint": "f"},
        **facts,
    }
    figures = Figures.model_validate(table)
    record = RunRecord(Path(), "x", "", None, figures)
    return Usable(Path(), record, figures)


def said(other: VariantOutcome, **facts) -> list[str]:
    variants = {"a": variant("a"), "b": other}
    runs = {"a": {0: usable(), 1: usable()}, "b": {0: usable(), 1: usable(**facts)}}
    return unequal(STUDY, variants, runs)


def test_equal_variants_have_nothing_said_about_them():
    assert said(variant("b")) == []
    assert said(variant("b", parameters=1040)) == []


def test_sizes_beyond_the_tolerance_are_said():
    [told] = said(variant("b", parameters=1100))
    assert told == "b: 1,100 parameters where a has 1,000 (+10.0%; tolerance 5%)"
    assert any("510 tokens where a had 500" in line for line in said(variant("b", tokens=510)))
    assert any("9 steps where a took 10" in line for line in said(variant("b", steps=9)))


def test_other_text_order_or_tokenizer_is_said_with_its_seed():
    [told] = said(variant("b"), order="other")
    assert told == "b: other tokens, or the same in another order (seed 1)"
    other = {"name": "bpe", "size": 9, "fingerprint": "g"}
    assert "another tokenizer" in said(variant("b"), tokenizer=other)[0]


def test_a_seed_on_one_side_only_is_said():
    variants = {"a": variant("a"), "b": variant("b")}
    runs = {"a": {0: usable(), 1: usable()}, "b": {0: usable()}}
    assert unequal(STUDY, variants, runs) == ["b: seed 1 is on one side only and left out"]


def test_a_budget_in_operations_leaves_steps_and_tokens_free():
    by_operations = SimpleNamespace(**{**vars(STUDY)})
    by_operations.study = SimpleNamespace(tolerance=0.05, budget="flops")
    variants = {"a": variant("a"), "b": replace(variant("b"), steps=7, tokens=350)}
    runs = {"a": {0: usable()}, "b": {0: usable()}}
    assert unequal(by_operations, variants, runs) == []
