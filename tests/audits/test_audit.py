"""The whole audit: what can be handed over, what it says, also of models regard did not make."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.audits.planted_leaks import LEAKS, ahead
from tests.audits.toy_models import LONGEST, VOCABULARY, Parts, Toy, subject_around
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers import logging as transformers_logging

from regard.audits.audit import Audit, audit
from regard.audits.build_subject import build_subject
from regard.core.errors import UserError

transformers_logging.set_verbosity_error()


def gpt2(**settings: Any) -> GPT2LMHeadModel:
    torch.manual_seed(0)
    tiny = {"vocab_size": 50, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(**tiny, bos_token_id=0, eos_token_id=0, **settings))


def bert() -> BertModel:
    torch.manual_seed(0)
    return BertModel(
        BertConfig(
            vocab_size=50,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=16,
        )
    )


# Models that regard did not make.


def test_gpt2_is_clean_and_feels_padding_on_the_left() -> None:
    model = gpt2()
    implementation = model.config._attn_implementation
    seen = audit(model)
    assert seen.verdict == "clean"
    assert seen.leaks == ()
    assert [finding.check for finding in seen.findings] == ["with padding on the left"]
    for way in ("training mode", "with weights requested", "through the cache"):
        assert any(told.startswith(f"{way}, length") for told in seen.checked)
    assert model.config._attn_implementation == implementation


def test_gpt2_with_its_mask_gone_is_caught() -> None:
    model = gpt2(attn_implementation="eager", is_decoder=True)
    for part in model.modules():
        if hasattr(part, "is_causal"):
            part.is_causal = False
    # The model hands its layers a causal mask as well: take the tokens' order from there too.
    head = model.transformer.h[0].attn
    plain = head.forward
    head.forward = lambda x, *rest, **named: plain(x, *rest, **(named | {"attention_mask": None}))
    seen = audit(model)
    assert seen.verdict == "leak"
    assert (0, 11) in {(leak.query, leak.key) for leak in seen.leaks}


def test_bert_sees_the_future_and_may() -> None:
    model = bert()
    seen = audit(model)
    assert seen.verdict == "leak"
    assert seen.sentence().startswith("sees the future: position ")
    assert {(leak.query, leak.key) for leak in seen.leaks} == {
        (i, j) for i in range(12) for j in range(i + 1, 12)
    }
    allowed = audit(model, mask="bidirectional")
    assert allowed.is_clean
    assert {one.name for one in allowed.unused_parameters} >= {
        "encoder.layer.0.attention.self.key.bias",
        "pooler.dense.weight",
    }


def t5() -> T5ForConditionalGeneration:
    torch.manual_seed(0)
    sizes = {"vocab_size": 31, "d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    return T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0))


def test_the_decoder_of_an_encoder_decoder_is_looked_at() -> None:
    seen = audit(t5(), lengths=[7, 9])
    assert seen.verdict == "clean"
    assert any(told.startswith("through the cache, length 9") for told in seen.checked)
    assert "evaluation mode, length 7: gradients of 6 places" in seen.checked
    leaking = t5()
    decoder = leaking.decoder
    plain = decoder.forward
    decoder.forward = lambda *given, **named: _centred(plain(*given, **named))
    assert audit(leaking, lengths=[9]).sentence().startswith("sees the future: position ")


def _centred(output: Any) -> Any:
    output.last_hidden_state = output[0] - output[0].mean(dim=1, keepdim=True)
    return output


class Layers(nn.Module):
    """PyTorch's own encoder; `mask` gives (t,t) with True = may NOT attend, as PyTorch has it."""

    def __init__(self, mask: Callable[[int], Tensor]) -> None:
        super().__init__()
        self.mask = mask
        self.tokens = nn.Embedding(23, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: Tensor) -> Tensor:
        mask = self.mask(ids.shape[1])
        y: Tensor = self.layers(self.tokens(ids), mask=mask)
        return y


@pytest.mark.parametrize(("diagonal", "verdict"), [(1, "clean"), (2, "leak"), (99, "leak")])
def test_pytorchs_own_layers(diagonal: int, verdict: str) -> None:
    model = Layers(lambda t: torch.ones(t, t).triu(diagonal).bool())
    assert audit(model, lengths=[9]).verdict == verdict


# What can be handed over.


@pytest.mark.parametrize(
    "wrap",
    [
        lambda out: out,
        lambda out: (out, None),
        lambda out: {"loss": None, "logits": out},
        lambda out: SimpleNamespace(logits=out),
        lambda out: SimpleNamespace(last_hidden_state=out),
        lambda out: out[..., 0],
        lambda out: out.argmax(dim=-1),
        lambda out: out.unflatten(-1, (19, 1)),
    ],
)
def test_outputs_of_many_forms(wrap: Callable[[Tensor], Any]) -> None:
    class Wrapped(Toy):
        def forward(self, ids: Tensor, **how: Any) -> Any:
            return wrap(super().forward(ids, **how))

    assert audit(Wrapped(Parts(mask=ahead(3), max_length=12)), lengths=[8]).verdict == "leak"


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (lambda ids: torch.zeros(len(ids), 3), r"shape \(2, 3\) for 2 rows of 12 places"),
        (lambda ids: torch.zeros(ids.shape[1], len(ids), 3), r"shape \(12, 2, 3\)"),
        (lambda ids: "text", "gave a str"),
    ],
)
def test_outputs_without_a_row_a_place(output: Callable[[Tensor], Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        audit(output, sample=torch.randint(9, (2, 12)))


def test_vocabulary_and_embedding_are_found() -> None:
    subject = build_subject(Toy())
    assert (subject.vocabulary, subject.embedding) == (VOCABULARY, "tokens")
    found = build_subject(gpt2())
    assert (found.vocabulary, found.max_length, found.accepts_padding_mask) == (50, 16, True)
    assert found.run_cached is not None


def test_a_bound_method_has_its_module() -> None:
    toy = Toy(Parts(max_length=12))
    assert build_subject(toy.forward).module is toy


def test_a_model_may_say_itself_how_it_is_audited() -> None:
    class Knowing(Toy):
        def audit_subject(self) -> Any:
            return subject_around(self)

    assert build_subject(Knowing()).max_length == LONGEST


def test_a_sample_is_asked_for_where_the_vocabulary_is_not_known() -> None:
    table = torch.randn(30, 5)
    with pytest.raises(UserError, match=r"vocabulary is not known.*sample"):
        audit(lambda ids: table[ids])
    assert audit(lambda ids: table[ids], sample=torch.randint(30, (2, 9))).is_clean


def test_vectors_instead_of_ids() -> None:
    past = nn.GRU(6, 6, batch_first=True)
    both = nn.GRU(6, 6, batch_first=True, bidirectional=True)
    sample = torch.randn(2, 10, 6)
    assert audit(past, sample=sample, lengths=[10]).is_clean
    assert audit(lambda x: past(x)[0], sample=sample, lengths=[10]).is_clean
    seen = audit(both, sample=sample, lengths=[10])
    assert (0, 9) in {(leak.query, leak.key) for leak in seen.leaks}
    assert audit(lambda x: x.flip(1), sample=sample).verdict == "leak"


@pytest.mark.parametrize(
    ("target", "sample", "says"),
    [
        (3, None, "a int cannot be audited"),
        (nn.Linear(3, 3), None, "did not run on token ids"),
        (nn.Linear(3, 3), torch.randn(2, 5, 4), "did not run on the sample"),
        (nn.Linear(3, 3), torch.randn(5, 3), r"shape \(5, 3\)"),
        (Toy(), torch.tensor([[1, -1]]), "least id -1"),
        (Toy(), torch.tensor([[1, 400]]), "id 400 is out of range: its vocabulary has 19 ids"),
    ],
)
def test_what_cannot_be_audited_is_said_in_a_sentence(
    target: Any, sample: Tensor | None, says: str
) -> None:
    with pytest.raises(UserError, match=says):
        audit(target, sample=sample)


# What it says.


def test_a_clean_audit_in_words_and_json() -> None:
    seen = audit(subject_around(Toy(Parts(max_length=12))))
    assert seen.sentence() == ("clean: no output depends on an input that the mask causal forbids")
    told = json.loads(json.dumps(seen.as_dict()))
    assert told["verdict"] == "clean"
    assert (told["leaks"], told["leak_count"]) == ([], 0)
    assert told["checked"]
    assert told["findings"][0]["check"] == "with padding on the left"


def test_a_mask_that_layers_widen_is_not_said_to_be_kept() -> None:
    def last_three(t: int) -> Tensor:
        return torch.ones(t, t).tril().triu(-2).bool()

    seen = audit(Toy(Parts(max_length=12)), mask=last_three)
    assert seen.is_clean
    assert "through any number of layers; what one layer sees alone was not" in seen.sentence()

    def near(t: int) -> Tensor:
        return torch.ones(t, t).tril(2).triu(-2).bool()

    seen = audit(Toy(Parts(max_length=12)), mask=near)
    assert seen.sentence().startswith("cannot tell: through several layers the mask near lets")


def test_the_mask_is_the_models_own_unless_asked() -> None:
    class Seeing(Toy):
        sees = "bidirectional"

    def told(model: Toy, **asked: Any) -> tuple[str, str, str]:
        seen = audit(model, lengths=[5], **asked)
        return seen.mask, seen.mask_from, seen.verdict

    whole = Parts(mask=ahead(99), max_length=12)
    assert told(Seeing(whole)) == ("bidirectional", "the model's own", "clean")
    assert told(Seeing(whole), mask="causal") == ("causal", "as asked", "leak")
    assert told(Toy(whole)) == ("causal", "by default", "leak")


def test_a_model_that_ends_the_program_is_told() -> None:
    def leave(ids: Tensor) -> Tensor:
        raise SystemExit(3)

    with pytest.raises(UserError, match="did not run on the sample: SystemExit: 3"):
        audit(leave, sample=torch.ones(1, 5).long())


def test_a_leak_in_words_and_json() -> None:
    seen = audit(LEAKS["one pair"]())
    assert seen.sentence().startswith(
        "sees the future: position 3 reacts to token 9 (largest influence 0."
    )
    told = json.loads(json.dumps(seen.as_dict()))
    assert told["leak_count"] == 1
    assert (told["leaks"][0]["query"], told["leaks"][0]["key"]) == (3, 9)


def test_many_leaks_are_counted_and_the_largest_listed() -> None:
    seen = audit(LEAKS["only past a length"]())
    told = seen.as_dict()
    assert told["leak_count"] == len(seen.leaks) > 100
    listed = [leak["influence"] for leak in told["leaks"]]
    assert len(listed) == 100
    assert listed[0] == max(leak.influence for leak in seen.leaks)


def test_a_leak_that_is_not_of_the_future() -> None:
    """A mask that forbids the past: position 1 must not see position 0."""
    seen = audit(Toy(Parts(max_length=12)), mask=torch.eye(6).bool())
    assert seen.sentence().startswith("sees what the mask forbids: position ")


def test_what_cannot_be_told_is_not_called_clean() -> None:
    generator = torch.Generator()
    seen = audit(
        lambda ids: torch.rand(*ids.shape, 3, generator=generator), sample=torch.ones(1, 5).long()
    )
    assert seen.verdict == "cannot tell"
    assert seen.sentence().startswith("cannot tell: evaluation mode")
    assert not seen.is_clean
    assert seen.findings == ()


def test_rows_that_feel_each_other_are_a_finding() -> None:
    """Statistics over the batch at each place: nothing of the future, all of the neighbours."""

    class Neighbours(Toy):
        def forward(self, ids: Tensor, **how: Any) -> Tensor:
            out = super().forward(ids, **how)
            return out - out.mean(dim=0, keepdim=True) if self.training else out

    seen = audit(Neighbours(Parts(max_length=12)))
    assert seen.verdict == "clean"
    assert [finding.check for finding in seen.findings] == ["other rows, training mode"]


def test_a_cache_that_forgets_is_a_finding() -> None:
    from dataclasses import replace

    whole = subject_around(Toy(Parts(max_length=12)))

    def forgetful(module: Toy, ids: Tensor, cuts: Any) -> Tensor:
        ends = zip((0, *cuts), (*cuts, ids.shape[1]), strict=True)
        return torch.cat([module(ids[:, a:b]) for a, b in ends], dim=1)

    seen: Audit = audit(replace(whole, run_cached=forgetful))
    assert seen.verdict == "clean"
    assert {finding.check for finding in seen.findings} >= {
        "cache, piece by piece",
        "cache, token by token",
    }


def test_the_same_seed_says_the_same() -> None:
    def told(seed: int) -> tuple[Any, ...]:
        seen = audit(LEAKS["mask off by one"](), seed=seed, lengths=[6])
        return seen.leaks, seen.checked, seen.findings

    assert told(3) == told(3)
    assert told(3) != told(4)
