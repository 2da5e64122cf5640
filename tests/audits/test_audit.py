"""The whole audit: accepted targets, verdicts and sentences, also for third-party models."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.audits import clean_modules
from tests.audits.planted_leaks import LEAKS, lookahead
from tests.audits.toy_models import MAX_LENGTH, VOCABULARY, Components, ToyTransformer, full_subject
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
from regard.core.json_records import record_table
from regard.runs.results import AuditRecord

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


# Third-party models.


def test_gpt2_is_clean_but_depends_on_left_padding() -> None:
    model = gpt2()
    implementation = model.config._attn_implementation
    report = audit(model)
    assert report.verdict == "clean"
    assert report.leaks == ()
    assert [finding.check for finding in report.findings] == ["with padding on the left"]
    for mode in ("training mode", "with attention weights requested", "with the KV cache"):
        assert any(note.startswith(f"{mode}, length") for note in report.checked)
    assert model.config._attn_implementation == implementation


def test_gpt2_without_its_mask_leaks() -> None:
    model = gpt2(attn_implementation="eager", is_decoder=True)
    for submodule in model.modules():
        if hasattr(submodule, "is_causal"):
            submodule.is_causal = False
    # The model hands its layers a causal mask as well: take the tokens' order from there too.
    head = model.transformer.h[0].attn
    plain = head.forward
    head.forward = lambda x, *rest, **named: plain(x, *rest, **(named | {"attention_mask": None}))
    report = audit(model)
    assert report.verdict == "leak"
    assert (0, 11) in {(leak.query, leak.key) for leak in report.leaks}


def test_bert_leaks_under_causal_and_is_clean_under_bidirectional() -> None:
    model = bert()
    report = audit(model)
    assert report.verdict == "leak"
    assert report.sentence().startswith("sees the future: position ")
    assert {(leak.query, leak.key) for leak in report.leaks} == {
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


def test_decoder_of_an_encoder_decoder_is_audited() -> None:
    report = audit(t5(), lengths=[7, 9])
    assert report.verdict == "clean"
    assert any(note.startswith("with the KV cache, length 9") for note in report.checked)
    gradients = next(note for note in report.checked if "gradients of" in note)
    assert gradients.startswith("evaluation mode, length 7")
    assert "6 positions" in gradients
    leaking = t5()
    decoder = leaking.decoder
    plain = decoder.forward
    decoder.forward = lambda *given, **named: _centred(plain(*given, **named))
    assert audit(leaking, lengths=[9]).sentence().startswith("sees the future: position ")


def _centred(output: Any) -> Any:
    output.last_hidden_state = output[0] - output[0].mean(dim=1, keepdim=True)
    return output


class TorchEncoder(nn.Module):
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
def test_torch_transformer_encoder(diagonal: int, verdict: str) -> None:
    model = TorchEncoder(lambda t: torch.ones(t, t).triu(diagonal).bool())
    assert audit(model, lengths=[9]).verdict == verdict


# Accepted targets.


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
def test_accepted_output_types(wrap: Callable[[Tensor], Any]) -> None:
    class Wrapped(ToyTransformer):
        def forward(self, ids: Tensor, **options: Any) -> Any:
            return wrap(super().forward(ids, **options))

    assert (
        audit(Wrapped(Components(mask=lookahead(3), max_length=12)), lengths=[8]).verdict == "leak"
    )


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (lambda ids: torch.zeros(len(ids), 3), r"shape \(2, 3\) for inputs \(2, 12\)"),
        (lambda ids: torch.zeros(ids.shape[1], len(ids), 3), r"shape \(12, 2, 3\)"),
        (lambda ids: "text", "returned a str"),
    ],
)
def test_outputs_without_positions_raise(output: Callable[[Tensor], Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        audit(output, sample=torch.randint(9, (2, 12)))


def test_vocabulary_and_embedding_are_detected() -> None:
    subject = build_subject(ToyTransformer())
    assert (subject.vocabulary, subject.embedding) == (VOCABULARY, "tokens")
    found = build_subject(gpt2())
    assert (found.vocabulary, found.max_length, found.accepts_padding_mask) == (50, 16, True)
    assert found.run_cached is not None


def test_module_of_a_bound_method_is_detected() -> None:
    model = ToyTransformer(Components(max_length=12))
    assert build_subject(model.forward).module is model


def test_audit_subject_of_the_model_is_used() -> None:
    class Knowing(ToyTransformer):
        def audit_subject(self) -> Any:
            return full_subject(self)

    assert build_subject(Knowing()).max_length == MAX_LENGTH


def test_unknown_vocabulary_needs_a_sample() -> None:
    table = torch.randn(30, 5)
    with pytest.raises(UserError, match=r"vocabulary is not known.*sample"):
        audit(lambda ids: table[ids])
    assert audit(lambda ids: table[ids], sample=torch.randint(30, (2, 9))).is_clean


def test_embeddings_as_inputs() -> None:
    past = nn.GRU(6, 6, batch_first=True)
    both = nn.GRU(6, 6, batch_first=True, bidirectional=True)
    sample = torch.randn(2, 10, 6)
    assert audit(past, sample=sample, lengths=[10]).is_clean
    assert audit(lambda x: past(x)[0], sample=sample, lengths=[10]).is_clean
    report = audit(both, sample=sample, lengths=[10])
    assert (0, 9) in {(leak.query, leak.key) for leak in report.leaks}
    assert audit(lambda x: x.flip(1), sample=sample).verdict == "leak"


@pytest.mark.parametrize(
    ("target", "sample", "message"),
    [
        (3, None, "an object of type int cannot be audited"),
        (nn.Linear(3, 3), None, "did not run on token ids"),
        (nn.Linear(3, 3), torch.randn(2, 5, 4), "did not run on the sample"),
        (nn.Linear(3, 3), torch.randn(5, 3), r"shape \(5, 3\)"),
        (ToyTransformer(), torch.tensor([[1, -1]]), "smallest id -1"),
        (
            ToyTransformer(),
            torch.tensor([[1, 400]]),
            "id 400 is out of range: its vocabulary has 19 ids",
        ),
    ],
)
def test_invalid_targets_and_samples_raise(
    target: Any, sample: Tensor | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        audit(target, sample=sample)


# Verdicts and sentences.


def test_clean_audit_as_sentence_and_json() -> None:
    report = audit(full_subject(ToyTransformer(Components(max_length=12))))
    assert report.sentence().startswith("clean: ")
    assert "mask causal" in report.sentence()
    fields = json.loads(json.dumps(record_table(AuditRecord.of_audit(report))))
    assert fields["verdict"] == "clean"
    assert (fields["leaks"], fields["leak_count"]) == ([], 0)
    assert fields["checked"]
    assert fields["findings"][0]["check"] == "with padding on the left"


def test_default_mask_is_the_models_own() -> None:
    class Bidirectional(ToyTransformer):
        visibility = "bidirectional"

    def mask_and_verdict(model: ToyTransformer, **options: Any) -> tuple[str, str, str]:
        report = audit(model, lengths=[5], **options)
        return report.mask, report.mask_from, report.verdict

    unmasked = Components(mask=lookahead(99), max_length=12)
    assert mask_and_verdict(Bidirectional(unmasked)) == (
        "bidirectional",
        "the model's own",
        "clean",
    )
    assert mask_and_verdict(Bidirectional(unmasked), mask="causal") == (
        "causal",
        "as given",
        "leak",
    )
    assert mask_and_verdict(ToyTransformer(unmasked)) == ("causal", "by default", "leak")


def test_system_exit_in_the_model_raises() -> None:
    def leave(ids: Tensor) -> Tensor:
        raise SystemExit(3)

    with pytest.raises(UserError, match="sample: SystemExit: 3"):
        audit(leave, sample=torch.ones(1, 5).long())


def test_leak_as_sentence_and_json() -> None:
    report = audit(LEAKS["one pair"]())
    assert report.sentence().startswith("sees the future: position 3 reacts to token 9")
    assert "influence 0." in report.sentence()
    fields = json.loads(json.dumps(record_table(AuditRecord.of_audit(report))))
    assert fields["leak_count"] == 1
    assert (fields["leaks"][0]["query"], fields["leaks"][0]["key"]) == (3, 9)


def test_many_leaks_are_counted_and_the_largest_listed() -> None:
    report = audit(LEAKS["only past a length"]())
    fields = record_table(AuditRecord.of_audit(report))
    assert fields["leak_count"] == len(report.leaks) > 100
    listed = [leak["influence"] for leak in fields["leaks"]]
    assert len(listed) == 100
    assert listed[0] == max(leak.influence for leak in report.leaks)


def test_leak_of_the_past() -> None:
    """A mask that forbids the past: position 1 must not see position 0."""
    report = audit(ToyTransformer(Components(max_length=12)), mask=torch.eye(6).bool())
    assert report.sentence().startswith("sees what the mask forbids: position ")


def test_random_outputs_are_not_called_clean() -> None:
    generator = torch.Generator()
    report = audit(
        lambda ids: torch.rand(*ids.shape, 3, generator=generator), sample=torch.ones(1, 5).long()
    )
    assert report.verdict == "cannot tell"
    assert report.sentence().startswith("cannot tell: evaluation mode")
    assert not report.is_clean
    assert report.findings == ()


def test_forgetful_cache_is_a_finding() -> None:
    from dataclasses import replace

    whole = full_subject(ToyTransformer(Components(max_length=12)))

    def forgetful(module: ToyTransformer, ids: Tensor, cuts: Any) -> Tensor:
        ends = zip((0, *cuts), (*cuts, ids.shape[1]), strict=True)
        return torch.cat([module(ids[:, a:b]) for a, b in ends], dim=1)

    report: Audit = audit(replace(whole, run_cached=forgetful))
    assert report.verdict == "clean"
    assert {finding.check for finding in report.findings} >= {
        "cache, chunk by chunk",
        "cache, token by token",
    }


def test_audit_is_deterministic_by_seed() -> None:
    def results(seed: int) -> tuple[Any, ...]:
        report = audit(LEAKS["mask off by one"](), seed=seed, lengths=[6])
        return report.leaks, report.checked, report.findings

    assert results(3) == results(3)
    assert results(3) != results(4)


class WithLossAndKwargs(nn.Module):
    """Returns a loss before its outputs, and takes more than ids."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(9, 4)

    def forward(self, ids: Tensor, targets: Tensor | None = None, **options: Any) -> Any:
        x: Tensor = self.tokens(ids)
        return x.mean(), x.cumsum(dim=1), x.flip(1)


def test_what_else_a_model_takes_and_returns_is_said() -> None:
    report = audit(WithLossAndKwargs())
    assert report.verdict == "clean"
    assert "arguments of its forward that keep their defaults: targets, **options" in (
        report.unchecked
    )
    assert "outputs beside the first: 1 that have a value at each position" in report.unchecked
    bound = audit(WithLossAndKwargs().forward)
    assert not any(note.startswith("arguments") for note in bound.unchecked)


def test_noise_that_depends_on_inputs_is_said() -> None:
    report = audit(clean_modules.CLEAN["experts with dropout"]())
    assert any(note.startswith("training mode, with its noise") for note in report.unchecked)
