"""What adapters train: counted in real models, told by closed formulas, equal in the ledger.

    head            2d + 2                              prompt of p   p·d, + head
    prefix of p     2·p·L·d, + head                     LoRA          r·(in + out) a matrix, + head

d width, L layers, for two labels (2d + 2 is a linear layer with its biases).
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from regard.adapters import ADAPTERS, Adapter
from regard.adapters.bias_only import BiasOnly
from regard.adapters.full import Full
from regard.adapters.head_only import HeadOnly
from regard.adapters.ledger import Ledger, ledger
from regard.adapters.lora import Lora
from regard.adapters.prefix_tuning import PrefixTuning
from regard.adapters.prompt_tuning import PromptTuning
from regard.core.count import total
from regard.core.settings import name_of
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, exercise
from regard.lessons.lesson import Lesson, LessonTable, equal
from regard.lessons.lesson_charts import bars
from regard.lessons.parameters import Range
from regard.lessons.registry import lesson
from regard.models.families.encoder import Encoder
from regard.models.heads.heads import ClassificationHead
from regard.models.task_models.task_model import SequenceClassifier

LABELS = 2
VOCABULARY = 50
HEAD_WIDTH = 8
ONE_KEY = {"key_value_heads": 1}
"All heads share the keys and values of one."
BERT_BASE = Encoder(
    layers=12,
    heads=12,
    width=768,
    context=512,
    texts=2,
    embedding_norm=True,
    pooler=True,
    norm_place="post",
)
"Under the head of a task, so without the network that told hidden words."
BERT_VOCABULARY = 30_522
IN_BERT = "parameters in BERT base"


@lesson("adapter-counts", topic="adaptation", title="What adapters train")
def adapter_counts(
    *,
    heads: Annotated[int, Range(1, 16)] = 4,
    layers: Annotated[int, Range(1, 8)] = 4,
    length: Annotated[int, Range(1, 256)] = 128,
    rank: Annotated[int, Range(1, HEAD_WIDTH)] = 8,
) -> Lesson:
    """How many parameters does each way of adapting a model train?

    A head for two labels has 2d + 2. A prompt of 128 vectors adds 128·d, 130d + 2 in all: vectors
    that stand before the row as words do, at the input alone. Prefix tuning is not the same thing:
    it trains 128 keys and 128 values in every one of L layers, 2·128·L·d, which is 2L times the
    prompt, 24 times in a BERT of 12 layers, and less where heads share keys and values. LoRA of
    rank r puts r·(in + out) beside each matrix that it changes, and the matrix itself stays as it
    is.

    Each formula is worked out from settings alone; the ledger counts the tensors of a real model
    and is an error, never a table, where the two differ.
    """
    d, size = HEAD_WIDTH * heads, length
    family = Encoder(layers=layers, heads=heads, width=d, context=length + 8)
    adapters = _adapters(length, rank)
    found = {name: _ledger(adapter, family) for name, adapter in adapters.items()}
    head, prompt, prefix, lora, *_ = (one.total for one in found.values())
    own = LABELS * d + LABELS
    in_bert = {name: _in_bert(adapter) for name, adapter in adapters.items()}
    return Lesson(
        table=LessonTable(
            ("trained", "formula", "count", "share of the model", "in BERT base"),
            [
                (name, _formula(one), one.total, one.share, in_bert[name])
                for name, one in found.items()
            ],
        ),
        chart=bars(
            [{"trained": name, IN_BERT: count} for name, count in in_bert.items()],
            name="trained",
            value=IN_BERT,
            scale="log",
        ),
        caption="Parameters that each adapter would train in BERT base, with a head for two "
        "labels.",
        checks=[
            equal("head: 2d + 2", head, own),
            equal(f"prompt: {size}d + 2d + 2", prompt, length * d + own),
            equal(f"prefix: 2·{size}·L·d + 2d + 2", prefix, 2 * length * layers * d + own),
            equal(
                f"prefix, heads sharing keys of width c = {HEAD_WIDTH}: 2·{size}·L·c + 2d + 2",
                _ledger(PrefixTuning(length=length), family.model_copy(update=ONE_KEY)).total,
                2 * length * layers * HEAD_WIDTH + own,
            ),
            equal("LoRA: r·(d + d) for 2L matrices", lora, rank * 2 * d * 2 * layers + own),
            equal("prefix ÷ prompt, without head: 2L", (prefix - own) / (prompt - own), 2 * layers),
            equal(
                "BERT base: 130d + 2, and 2·128·L·d + 2d + 2",
                [_in_bert(PromptTuning(length=128)), _in_bert(PrefixTuning(length=128))],
                [130 * 768 + 2, 2 * 128 * 12 * 768 + 2 * 768 + 2],
            ),
            equal(
                "shape of each prefix: keys and values, places, width",
                _shapes(found[f"prefix of {size}"], "prefix"),
                [[2, length, d]],
            ),
        ],
        see=["adapters/ledger.py", "adapters/prefix_tuning.py", "recipes/adapters.toml"],
    )


def _adapters(length: int, rank: int) -> dict[str, Adapter]:
    return {
        "head": HeadOnly(),
        f"prompt of {length}": PromptTuning(length=length),
        f"prefix of {length}": PrefixTuning(length=length),
        f"LoRA, rank {rank}": Lora(rank=rank),
        "biases": BiasOnly(),
        "everything": Full(),
    }


def _ledger(adapter: Adapter, family: Encoder) -> Ledger:
    """Of a real model with a head for two labels, which the adapter was put onto."""
    body = family.build(vocabulary=VOCABULARY, seed=0)
    head = ClassificationHead(family.width, labels=LABELS, pooling="first")
    model = SequenceClassifier(body, head, seed=0)
    adapter.apply(model, seed=0)
    return ledger(model, adapter, family, vocabulary=VOCABULARY)


def _shapes(found: Ledger, last_name: str) -> list[tuple[int, ...]]:
    """The shapes, each once, of the trained tensors whose names end so."""
    return sorted({row.shape for row in found.rows if row.name.endswith(last_name)})


def _formula(found: Ledger) -> str:
    if len(found.terms) > 6:
        return "all of its tensors" if found.share == 1 else "see the ledger"
    return " + ".join(term.formula for term in found.terms)


def _in_bert(adapter: Adapter) -> int:
    """From settings alone: nothing is built."""
    head = ClassificationHead(BERT_BASE.width, labels=LABELS, pooling="first")
    return total([*adapter.terms(BERT_BASE, vocabulary=BERT_VOCABULARY), *head.terms()])


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
    head = ClassificationHead(family.width, labels=labels, pooling="first").terms()
    wanted = {
        name_of(one, ADAPTERS): total([*one.terms(family, vocabulary=VOCABULARY), *head])
        for one in adapters
    }

    def mark(answer: Answer) -> Mark:
        given = {name: float(answer[name]) for name in wanted}
        wrong = [
            f"{name} {given[name]:,.0f} is {'too few' if given[name] < right else 'too many'}"
            for name, right in wanted.items()
            if given[name] != right
        ]
        says = f"{'; '.join(wrong)}." if wrong else "All counts are right."
        return Mark(len(wrong) / len(wanted), 0.0, says)

    return ExerciseSheet(
        task="An encoder of the given width and layers gets a linear head with biases for so many "
        "labels. How many parameters are trained, head included, by the head alone, by a prompt "
        "of length vectors, by a prefix of length keys and values in every layer, and by LoRA of "
        "that rank beside the query and value matrices (width × width) of every layer?",
        given={
            "width": family.width,
            "layers": layers,
            "labels": labels,
            "length": length,
            "rank": rank,
        },
        slots=tuple(Slot(name, ()) for name in wanted),
        mark=mark,
    )
