"""Trainable parameters of adapters: closed formulas against the ledger of built models.

    head          2d + 2                            prompt of p   p·d, + head
    prefix of p   2·p·L·d, + head                   LoRA          r·(in + out) per matrix, + head

d width, L layers, two labels (2d + 2: a linear layer with biases).
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from regard.adapters import ADAPTERS, Adapter
from regard.adapters.bias_only import BiasOnly
from regard.adapters.full import Full
from regard.adapters.head_only import HeadOnly
from regard.adapters.ledger import ledger
from regard.adapters.lora import Lora
from regard.adapters.prefix_tuning import PrefixTuning
from regard.adapters.prompt_tuning import PromptTuning
from regard.core.ledger import Ledger, total_parameters
from regard.core.settings import catalog_name
from regard.lessons import (
    Answer,
    ExerciseSheet,
    Lesson,
    LessonTable,
    Mark,
    Range,
    Slot,
    bar_chart,
    equal,
    exercise,
    lesson,
)
from regard.models.families.encoder import Encoder
from regard.models.heads.task_heads import ClassificationHead
from regard.models.task_models.task_model import SequenceClassifier

LABELS = 2
VOCABULARY = 50
HEAD_WIDTH = 8
MULTI_QUERY = {"key_value_heads": 1}
"All heads share one head of keys and values."
BERT_BASE = Encoder(
    layers=12,
    heads=12,
    width=768,
    context=512,
    segments=2,
    embedding_norm=True,
    pooler=True,
    norm_placement="post",
)
"With a task head, hence without the masked language model head."
BERT_VOCABULARY = 30_522
IN_BERT = "parameters in BERT base"


@lesson("adapter-counts", topic="adaptation", title="Trainable parameters of adapters")
def adapter_counts(
    *,
    heads: Annotated[int, Range(1, 16)] = 4,
    layers: Annotated[int, Range(1, 8)] = 4,
    length: Annotated[int, Range(1, 256)] = 128,
    rank: Annotated[int, Range(1, HEAD_WIDTH)] = 8,
) -> Lesson:
    """How many parameters does each adapter train?

    A head for two labels has 2d + 2. A prompt of 128 virtual tokens adds 128·d, in total 130d + 2:
    embeddings prepended to the sequence, at the input only. Prefix tuning is different: it trains
    128 keys and 128 values in each of L layers, 2·128·L·d, which is 2L times the prompt, 24 times
    in a BERT of 12 layers, and less where heads share keys and values. LoRA of rank r adds
    r·(in + out) to each matrix that it adapts; the matrix itself stays frozen.

    Each formula is derived from the settings alone; the ledger counts the tensors of a built model
    and raises an error if the two differ.
    """
    d = HEAD_WIDTH * heads
    family = Encoder(layers=layers, heads=heads, width=d, context=length + 8)
    adapters: dict[str, Adapter] = {
        "head": HeadOnly(),
        f"prompt of {length}": PromptTuning(length=length),
        f"prefix of {length}": PrefixTuning(length=length),
        f"LoRA, rank {rank}": Lora(rank=rank),
        "biases": BiasOnly(),
        "full fine-tuning": Full(),
    }
    ledgers = {name: _ledger(adapter, family) for name, adapter in adapters.items()}
    head, prompt, prefix, lora, *_ = (one.total for one in ledgers.values())
    prefix_rows = ledgers[f"prefix of {length}"].rows
    head_formula = LABELS * d + LABELS
    in_bert = {name: _in_bert(adapter) for name, adapter in adapters.items()}
    return Lesson(
        table=LessonTable(
            ("adapter", "formula", "parameters", "fraction of the model", "in BERT base"),
            [
                (name, _formula(one), one.total, one.fraction, in_bert[name])
                for name, one in ledgers.items()
            ],
        ),
        chart=bar_chart(
            [{"adapter": name, IN_BERT: count} for name, count in in_bert.items()],
            name="adapter",
            value=IN_BERT,
            scale="log",
        ),
        caption="Trainable parameters of each adapter in BERT base, with a head for two labels.",
        checks=[
            equal("head: 2d + 2", head, head_formula),
            equal(f"prompt: {length}d + 2d + 2", prompt, length * d + head_formula),
            equal(
                f"prefix: 2·{length}·L·d + 2d + 2", prefix, 2 * length * layers * d + head_formula
            ),
            equal(
                f"prefix, one key-value head of width c = {HEAD_WIDTH}: 2·{length}·L·c + 2d + 2",
                _ledger(PrefixTuning(length=length), family.model_copy(update=MULTI_QUERY)).total,
                2 * length * layers * HEAD_WIDTH + head_formula,
            ),
            equal(
                "LoRA: r·(d + d) for 2L matrices", lora, rank * 2 * d * 2 * layers + head_formula
            ),
            equal(
                "prefix ÷ prompt, without head: 2L",
                (prefix - head_formula) / (prompt - head_formula),
                2 * layers,
            ),
            equal(
                "BERT base: 130d + 2, and 2·128·L·d + 2d + 2",
                [_in_bert(PromptTuning(length=128)), _in_bert(PrefixTuning(length=128))],
                [130 * 768 + 2, 2 * 128 * 12 * 768 + 2 * 768 + 2],
            ),
            equal(
                "shape of each prefix: keys and values, positions, width",
                sorted({row.shape for row in prefix_rows if row.name.endswith("prefix")}),
                [[2, length, d]],
            ),
        ],
        see_also=["adapters/ledger.py", "adapters/prefix_tuning.py", "recipes/adapters.toml"],
    )


def _ledger(adapter: Adapter, family: Encoder) -> Ledger:
    """Of a built model with a head for two labels and the adapter."""
    body = family.build(vocabulary=VOCABULARY, seed=0)
    head = ClassificationHead(family.width, labels=LABELS, pooling="first")
    model = SequenceClassifier(body, head, seed=0)
    adapter.apply(model, seed=0)
    return ledger(model, adapter, family, vocabulary=VOCABULARY)


def _formula(model_ledger: Ledger) -> str:
    if len(model_ledger.terms) > 6:
        return "all tensors" if model_ledger.fraction == 1 else "see the ledger"
    return " + ".join(term.formula for term in model_ledger.terms)


def _in_bert(adapter: Adapter) -> int:
    """From the settings alone: no model is built."""
    head = ClassificationHead(BERT_BASE.width, labels=LABELS, pooling="first")
    return total_parameters(
        [*adapter.count_parameters(BERT_BASE, vocabulary=BERT_VOCABULARY), *head.count_parameters()]
    )


@exercise("adapter-counts")
def adapter_counts_exercise(seed: int) -> ExerciseSheet:
    generator = np.random.default_rng(seed)
    layers, heads = int(generator.integers(2, 13)), int(generator.integers(2, 9))
    length, rank = int(generator.choice([10, 20, 50, 100])), int(generator.choice([2, 4, 8, 16]))
    labels = int(generator.integers(2, 6))
    family = Encoder(layers=layers, heads=heads, width=64 * heads, context=256)
    adapters: tuple[Adapter, ...] = (
        HeadOnly(),
        PromptTuning(length=length),
        PrefixTuning(length=length),
        Lora(rank=rank, targets=("query", "value")),
    )
    head = ClassificationHead(family.width, labels=labels, pooling="first").count_parameters()
    target = {
        catalog_name(adapter, ADAPTERS): total_parameters(
            [*adapter.count_parameters(family, vocabulary=VOCABULARY), *head]
        )
        for adapter in adapters
    }

    def mark(answer: Answer) -> Mark:
        given = {name: float(answer[name]) for name in target}
        wrong = [
            f"{name} {given[name]:,.0f} is {'too few' if given[name] < count else 'too many'}"
            for name, count in target.items()
            if given[name] != count
        ]
        feedback = f"{'; '.join(wrong)}." if wrong else "All counts are correct."
        return Mark(len(wrong) / len(target), 0.0, feedback)

    return ExerciseSheet(
        task="An encoder of the given width and layers gets a linear classification head with "
        "biases. How many parameters are trained, head included: the head alone, a prompt of "
        "length virtual tokens, a prefix of length keys and values in every layer, and LoRA of the "
        "given rank on the query and value matrices (width × width) of every layer?",
        given={
            "width": family.width,
            "layers": layers,
            "labels": labels,
            "length": length,
            "rank": rank,
        },
        slots=tuple(Slot(name, ()) for name in target),
        mark=mark,
    )
