"""A family in a user's own file: by what it declares it is adapted, decoded, inspected, audited."""

import pytest
import torch
from tests.adapters.small_models import VOCABULARY, batch_of, ids_of
from tests.objectives.toy_data import tokenizer
from torch import nn

from regard.adapters.bias_only import BiasOnly
from regard.adapters.ledger import ledger
from regard.adapters.lora import Lora
from regard.adapters.prefix_tuning import PrefixTuning
from regard.adapters.prompt_tuning import PromptTuning
from regard.adapters.top_layers import TopLayers
from regard.attention.function import HeadShape
from regard.attention.kinds.dot import Dot
from regard.attention.multi_head import build_mixer
from regard.attention.positions.learned import Learned
from regard.audits.audit import audit
from regard.core.errors import UserError
from regard.core.ledger import ParameterCount
from regard.generation.decoding_setup import prepare_decoding
from regard.generation.generate import Greedy, generate
from regard.models.blocks.block import Block
from regard.models.blocks.embedding import Embedding
from regard.models.blocks.stack import Stack
from regard.models.blocks.virtual_tokens import VirtualTokens
from regard.models.families import Family, build_model
from regard.models.families.attention_shape import AttentionShape, LinearShape
from regard.models.heads.language_model_head import LanguageModelHead
from regard.models.heads.task_heads import ClassificationHead
from regard.models.inputs import ModelInputs, causal_rows
from regard.models.model import TokenModel, token_losses
from regard.models.task_models.task_model import SequenceClassifier
from regard.nn.mlp import build_mlp
from regard.nn.residual import Residual
from regard.runs.inspection.inspect import inspect_text
from regard.runs.models.model_subject import model_subject

WIDTH, CONTEXT = 8, 24
HEAD = HeadShape(width=4, heads=2, context=CONTEXT)


class OneBlock(VirtualTokens, TokenModel):
    entry_points = ("hidden_states", "logits", "step")
    generates = True
    token_table = "words.tokens"

    def __init__(self, vocabulary):
        super().__init__()
        self.context = CONTEXT
        self.words = Embedding(
            vocabulary, width=WIDTH, context=CONTEXT, positions=Learned(), dropout=0.0
        )
        block = Block(
            build_mixer(Dot(), HEAD),
            build_mlp("gelu", WIDTH, hidden=2 * WIDTH, biases=True),
            residual=lambda: Residual(nn.LayerNorm(WIDTH), norm_placement="pre", dropout=0.0),
        )
        self.trunk = Stack([block], norm=nn.LayerNorm(WIDTH))
        self.head = LanguageModelHead(vocabulary, width=WIDTH)

    @property
    def stacks(self):
        return {"trunk": self.trunk}

    def hidden_states(self, inputs, *, cache=None, recorder=None):
        count, before = inputs.ids.shape[1], 0 if cache is None else cache.length
        length = count + before - (self.virtual_prefix.length if before else 0)
        positions, mask = causal_rows(inputs.valid, length=length, device=inputs.ids.device)
        positions = self.virtual_prefix.positions(positions)
        x = self.words(inputs.ids, positions.last(count))
        if not before:
            x = self.prepend_prompt(x, self.words, positions)
        mask = self.virtual_prefix.mask(mask, keys=positions.ids.shape[1], device=x.device)
        y = self.trunk(x, mask=mask, positions=positions, cache=cache, recorder=recorder)
        return y[:, -count:]

    def new_cache(self, rows):
        return self.trunk.new_cache(self.context + self.virtual_prefix.length)

    def step(self, ids, *, valid, positions, cache):
        return self.logits(ModelInputs(ids, valid), cache=cache)[:, -1]


class OneBlockFamily(Family):
    """Settings of the model above."""

    def build(self, *, vocabulary, seed):
        torch.manual_seed(seed)
        return OneBlock(vocabulary).eval()

    def count_parameters(self, vocabulary):
        model = self.build(vocabulary=vocabulary, seed=0)
        return [ParameterCount("all", "counted", sum(p.numel() for p in model.parameters()))]

    @property
    def token_width(self):
        return WIDTH

    def stacks(self):
        return {"trunk": [{"attention": AttentionShape(Dot(), HEAD, WIDTH)}]}

    def linear_layers(self):
        attention = self.stacks()["trunk"][0]["attention"].linear_layers()
        mlp = {"up_proj": (WIDTH, 2 * WIDTH), "down_proj": (2 * WIDTH, WIDTH)}
        return {
            **{f"trunk.blocks.0.attention.{name}": shape for name, shape in attention.items()},
            **{f"trunk.blocks.0.mlp.{name}": LinearShape(*shape) for name, shape in mlp.items()},
        }

    def count_biases(self):
        return [ParameterCount("biases", "4w + 3w + 3w", 10 * WIDTH)]

    def count_top_layers(self, layers):
        block = 4 * WIDTH * (WIDTH + 1) + 4 * WIDTH * WIDTH + 3 * WIDTH + 6 * WIDTH
        return [ParameterCount("block and norm", "8w·w + 13w", block)]


ADAPTED = {
    "lora": (Lora(rank=2, targets=("query", "mlp.*")), 2 * (16 + 24 + 24)),
    "prefix": (PrefixTuning(length=3), 2 * 3 * WIDTH),
    "prompt": (PromptTuning(length=3), 3 * WIDTH),
    "bias": (BiasOnly(), 10 * WIDTH),
    "top": (TopLayers(), 8 * WIDTH * WIDTH + 13 * WIDTH),
}


@pytest.mark.parametrize("kind", ADAPTED)
def test_it_is_adapted_and_the_ledger_agrees(kind):
    adapter, trained = ADAPTED[kind]
    family = OneBlockFamily(context=CONTEXT)
    model = family.build(vocabulary=VOCABULARY, seed=0)
    adapter.apply(model, seed=0)
    assert ledger(model, adapter, family, vocabulary=VOCABULARY).total == trained
    cache, ids = model.new_cache(3), ids_of()
    pieces = [model.logits(ModelInputs(piece), cache=cache) for piece in ids.split([4, 1, 4], 1)]
    assert torch.allclose(torch.cat(pieces, dim=1), model.logits(ModelInputs(ids)), atol=1e-5)


def test_a_family_without_stacks_refuses_adapters_of_blocks():
    class Blockless(OneBlockFamily):
        """It describes no stack."""

        def stacks(self):
            return {}

    for adapter in (PrefixTuning(), PromptTuning(), TopLayers()):
        with pytest.raises(UserError, match=r"adapt\.kind"):
            adapter.count_parameters(Blockless(), vocabulary=VOCABULARY)


def test_it_generates_and_is_inspected_and_audited():
    words = tokenizer("word")
    model = OneBlockFamily(context=CONTEXT).build(vocabulary=words.size, seed=0)
    start, stop = words.require("start"), words.require("stop")
    decoder, prompts = prepare_decoding(model, [[start], [start, stop, start]], words)
    for prompt, one in zip(
        prompts,
        generate(decoder, prompts, strategy=Greedy(), max_new_tokens=4, stop=None, pad=0),
        strict=True,
    ):
        logits = model.logits(ModelInputs(torch.tensor([[*prompt, *one.ids]])))
        assert logits[0, len(prompt) - 1 : -1].argmax(dim=-1).tolist() == list(one.ids)
    inspection = inspect_text(model, words, "London")
    assert len(inspection.losses) == len(inspection.row.tokens)
    assert len(inspection.attention) == 1
    result = audit(model_subject(model), lengths=[5])
    assert (result.verdict, result.mask_from) == ("clean", "the model's own")


def test_a_task_head_stands_on_it():
    model = OneBlockFamily(context=CONTEXT).build(vocabulary=VOCABULARY, seed=0)
    classifier = SequenceClassifier(
        model, ClassificationHead(WIDTH, labels=2, pooling="last"), seed=0
    )
    assert classifier.logits(batch_of()).shape == (3, 2)
    assert classifier.body is model
    assert token_losses(model, batch_of()).shape == (3, 9)
    with pytest.raises(UserError, match="no token losses"):
        token_losses(classifier, batch_of())


class BareFamily(OneBlockFamily):
    """Declares nothing that adapters count by."""

    token_width = Family.token_width
    count_top_layers = Family.count_top_layers

    def linear_layers(self):
        return {}


@pytest.mark.parametrize(
    ("adapter", "missing"),
    [
        (PromptTuning(), "token_width"),
        (TopLayers(), "count_top_layers"),
        (Lora(targets=["up_proj"]), "linear_layers"),
    ],
)
def test_what_a_family_does_not_declare_is_named(adapter, missing):
    with pytest.raises(UserError, match=missing):
        adapter.count_parameters(BareFamily(), vocabulary=VOCABULARY)


class PlainModuleFamily(OneBlockFamily):
    def build(self, *, vocabulary, seed):
        return nn.Linear(vocabulary, vocabulary)


def test_a_family_has_to_build_a_token_model():
    with pytest.raises(UserError, match="PlainModuleFamily builds a Linear, not a TokenModel"):
        build_model(PlainModuleFamily(), vocabulary=VOCABULARY, seed=0)


def test_a_token_table_that_does_not_exist_is_named():
    model = OneBlock(VOCABULARY)
    model.token_table = "embedding.tokens"
    with pytest.raises(UserError, match=r"OneBlock\.token_table = 'embedding\.tokens'"):
        model.vocabulary  # noqa: B018
