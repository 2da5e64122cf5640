"""Imported models equal those of transformers; the report lists what is unused or unfilled."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tests.interop.transformers_models import (
    PIECES,
    SMALL,
    SMALL_GPT2,
    VOCABULARY,
    edit_config,
    import_and_load,
    padded_rows,
    randomise,
    rename_tensors,
    save_checkpoint,
)

from regard.core.errors import UserError
from regard.core.files import find_damage
from regard.interop.import_model import import_model, summarise_names
from regard.models.inputs import ModelInputs

TOLERANCE = 1e-5
ENCODERS = {
    "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**SMALL)),
    "bert untied": lambda: transformers.BertForMaskedLM(
        transformers.BertConfig(**SMALL, tie_word_embeddings=False)
    ),
    "roberta": lambda: transformers.RobertaForMaskedLM(transformers.RobertaConfig(**SMALL)),
    "roberta, gelu_new": lambda: transformers.RobertaForMaskedLM(
        transformers.RobertaConfig(**SMALL, hidden_act="gelu_new", type_vocab_size=1)
    ),
}
LLAMA = {**SMALL, "num_key_value_heads": 2}
DECODERS = {
    "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**SMALL_GPT2)),
    "gpt2 untied, relu, narrow": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            **SMALL_GPT2, tie_word_embeddings=False, activation_function="relu", n_inner=20
        )
    ),
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)),
    "llama, tied, one head each, other base": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            **SMALL,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 500.0},
            rms_norm_eps=1e-3,
        )
    ),
    "llama with biases": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**LLAMA, attention_bias=True, mlp_bias=True)
    ),
    "mistral": lambda: transformers.MistralForCausalLM(
        transformers.MistralConfig(**LLAMA, sliding_window=12)
    ),
}


def bert(**more) -> transformers.BertModel:
    return randomise(transformers.BertModel(transformers.BertConfig(**SMALL, **more)))


@pytest.mark.parametrize("name", [*ENCODERS, *DECODERS])
@torch.no_grad()
def test_logits_and_hidden_states_equal_transformers(name, tmp_path):
    theirs = randomise((ENCODERS | DECODERS)[name]())
    ours, report = import_and_load(save_checkpoint(theirs, tmp_path / "theirs"), tmp_path / "ours")
    ids, valid = padded_rows()
    expected = theirs(
        input_ids=ids, attention_mask=valid.long(), output_hidden_states=True, use_cache=False
    )
    assert (ours.logits(ModelInputs(ids, valid=valid)) - expected.logits)[
        valid
    ].abs().max() < TOLERANCE
    hidden = ours.hidden_states(ModelInputs(ids, valid=valid))
    assert (hidden - expected.hidden_states[-1])[valid].abs().max() < TOLERANCE
    # Untied, transformers has two output biases and adds only one of them.
    assert report.unused == (["cls.predictions.bias"] if name == "bert untied" else [])
    assert not report.unfilled
    assert find_damage(tmp_path / "ours") is None


@pytest.mark.parametrize("name", DECODERS)
@torch.no_grad()
def test_left_padding(name, tmp_path):
    theirs = randomise(DECODERS[name]())
    ours, _ = import_and_load(save_checkpoint(theirs, tmp_path / "theirs"), tmp_path / "ours")
    ids, valid = (tensor.flip(1) for tensor in padded_rows())
    positions = (valid.long().cumsum(1) - 1).clamp(min=0)
    expected = theirs(input_ids=ids, attention_mask=valid.long(), position_ids=positions).logits
    assert (ours.logits(ModelInputs(ids, valid=valid)) - expected)[valid].abs().max() < TOLERANCE


@torch.no_grad()
def test_token_types_and_pooler(tmp_path):
    theirs = bert()
    ours, _ = import_and_load(save_checkpoint(theirs, tmp_path / "theirs"), tmp_path / "ours")
    ids, valid = padded_rows()
    segments = (torch.arange(ids.shape[1])[None] > 3).long().expand(ids.shape)
    expected = theirs(input_ids=ids, attention_mask=valid.long(), token_type_ids=segments)
    found = ours.hidden_states(ModelInputs(ids, valid, segments=segments))
    assert (found - expected.last_hidden_state)[valid].abs().max() < TOLERANCE
    assert (ours.pooler(found[:, 0]) - expected.pooler_output).abs().max() < TOLERANCE


@torch.no_grad()
@pytest.mark.parametrize(
    ("make", "prefix"),
    [
        (lambda: transformers.BertForMaskedLM(transformers.BertConfig(**SMALL)), "bert."),
        (
            lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**SMALL_GPT2)),
            "transformer.",
        ),
        (lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)), "model."),
    ],
)
def test_prefix_of_the_body_may_be_missing(make, prefix, tmp_path):
    theirs = randomise(make())
    folder = save_checkpoint(theirs, tmp_path / "theirs")
    first, _ = import_and_load(folder, tmp_path / "with")
    rename_tensors(folder, lambda name: name.removeprefix(prefix))
    second, report = import_and_load(folder, tmp_path / "without")
    assert not report.unused
    assert not report.unfilled
    ids, _ = padded_rows()
    assert torch.equal(first.logits(ModelInputs(ids)), second.logits(ModelInputs(ids)))


def test_tensorflow_names_of_norms(tmp_path):
    folder = save_checkpoint(bert(), tmp_path / "theirs")
    first, _ = import_and_load(folder, tmp_path / "new")
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    rename_tensors(
        folder, lambda name: next((name.replace(n, o) for n, o in old.items() if n in name), name)
    )
    second, report = import_and_load(folder, tmp_path / "old")
    assert not report.unfilled
    ids, _ = padded_rows()
    assert torch.equal(
        first.hidden_states(ModelInputs(ids)), second.hidden_states(ModelInputs(ids))
    )


def test_missing_pooler_is_not_created(tmp_path):
    theirs = randomise(
        transformers.BertModel(transformers.BertConfig(**SMALL), add_pooling_layer=False)
    )
    ours, report = import_and_load(save_checkpoint(theirs, tmp_path / "theirs"), tmp_path / "ours")
    assert ours.pooler is None
    assert not report.unfilled
    assert any("cannot predict masked tokens" in remark for remark in report.remarks)


@torch.no_grad()
def test_missing_token_types(tmp_path):
    theirs = bert(type_vocab_size=1)
    theirs.embeddings.token_type_embeddings.weight.zero_()
    folder = save_checkpoint(theirs, tmp_path / "theirs")
    rename_tensors(folder, lambda name: None if "token_type" in name else name)
    ours, report = import_and_load(folder, tmp_path / "ours")
    assert ours.embedding.segments is None
    assert not report.unfilled
    ids, _ = padded_rows()
    assert (
        ours.hidden_states(ModelInputs(ids)) - theirs(input_ids=ids).last_hidden_state
    ).abs().max() < TOLERANCE


def test_head_transform_with_another_activation_is_left_out_and_remarked(tmp_path):
    config = transformers.BertConfig(**SMALL, hidden_act="relu")
    theirs = randomise(transformers.BertForMaskedLM(config))
    ours, report = import_and_load(save_checkpoint(theirs, tmp_path / "theirs"), tmp_path / "ours")
    assert ours.head.transform is None
    assert "cls.predictions.transform.dense.weight" in report.unused
    assert any("activation of its head transform is relu" in remark for remark in report.remarks)


def test_task_heads_and_buffers_are_reported_unused(tmp_path):
    theirs = randomise(transformers.BertForMultipleChoice(transformers.BertConfig(**SMALL)))
    folder = save_checkpoint(theirs, tmp_path / "theirs")
    file = folder / "model.safetensors"
    tensors = {**load_file(file), "bert.embeddings.position_ids": torch.arange(20)[None]}
    save_file(tensors, file, metadata={"format": "pt"})
    _, report = import_and_load(folder, tmp_path / "ours")
    assert report.unused == [
        "bert.embeddings.position_ids",
        "classifier.bias",
        "classifier.weight",
    ]
    stored = json.loads((tmp_path / "ours" / "config.json").read_text())["imported"]
    assert stored["unused"] == report.unused
    assert any("classifier.weight" in line for line in report.lines())


def test_unfilled_parameters_are_reported_and_initialised_by_seed(tmp_path):
    folder = save_checkpoint(randomise(DECODERS["llama"]()), tmp_path / "theirs")
    rename_tensors(folder, lambda name: None if name == "lm_head.weight" else name)
    ours, report = import_and_load(folder, tmp_path / "ours")
    assert report.unfilled == ["head.tokens.weight"]
    assert 0.01 < ours.head.tokens.weight.std() < 0.03
    assert any("seed 0" in remark for remark in report.remarks)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama, tied, one head each, other base"])
def test_tied_weights_stay_tied(name, tmp_path):
    folder = save_checkpoint(randomise((ENCODERS | DECODERS)[name]()), tmp_path / "theirs")
    ours, _ = import_and_load(folder, tmp_path / "ours")
    assert ours.head.tokens.weight is ours.embedding.tokens.weight


def test_identical_copy_of_a_tied_embedding_is_used_another_is_not(tmp_path):
    folder = save_checkpoint(randomise(DECODERS["gpt2"]()), tmp_path / "theirs")
    file = folder / "model.safetensors"
    tensors = load_file(file)
    table = tensors["transformer.wte.weight"]
    save_file({**tensors, "lm_head.weight": table.clone()}, file)
    assert import_and_load(folder, tmp_path / "same")[1].unused == []
    save_file({**tensors, "lm_head.weight": table + 1}, file)
    assert import_and_load(folder, tmp_path / "other")[1].unused == ["lm_head.weight"]


@torch.no_grad()
def test_shards_and_half_precision(tmp_path):
    theirs = randomise(DECODERS["llama"]()).to(torch.bfloat16)
    folder = save_checkpoint(theirs, tmp_path / "theirs", max_shard_size="3KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 2
    ours, report = import_and_load(folder, tmp_path / "ours")
    assert not report.unfilled
    ids, _ = padded_rows()
    # Loaded again in float32: bfloat16 has rounded the rotation angles too.
    exact = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    assert (ours.logits(ModelInputs(ids)) - exact(input_ids=ids).logits).abs().max() < TOLERANCE


def test_sliding_window_limits_the_context(tmp_path):
    folder = save_checkpoint(randomise(DECODERS["mistral"]()), tmp_path / "theirs")
    ours, report = import_and_load(folder, tmp_path / "ours")
    assert ours.context == 12
    assert any("sliding_window" in remark for remark in report.remarks)


def test_embedding_with_more_rows_than_pieces(tmp_path):
    config = transformers.GPT2Config(**{**SMALL_GPT2, "vocab_size": 32})
    folder = save_checkpoint(randomise(transformers.GPT2LMHeadModel(config)), tmp_path / "theirs")
    ours, report = import_and_load(folder, tmp_path / "ours")
    assert ours.embedding.tokens.num_embeddings == report.vocabulary == 32
    assert any(f"{VOCABULARY} pieces of 32 rows" in line for line in report.lines())


def test_code_of_a_checkpoint_is_not_run(tmp_path):
    folder = save_checkpoint(bert(), tmp_path / "theirs")
    edit_config(folder, auto_map={"AutoModel": "modeling.Evil"})
    (folder / "modeling.py").write_text("raise SystemExit('this was run')")
    _, report = import_and_load(folder, tmp_path / "ours")
    assert any("auto_map" in remark for remark in report.remarks)


def test_vocab_txt_instead_of_tokenizer_json(tmp_path):
    folder = save_checkpoint(bert(), tmp_path / "theirs")
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    _, report = import_and_load(folder, tmp_path / "ours")
    assert report.tokenizer.size == VOCABULARY


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda folder: edit_config(folder, vocab_size=31), "config implies (31, 16)"),
        (
            lambda folder: edit_config(folder, hidden_size=10**12),
            "config implies (30, 1000000000000)",
        ),
        (lambda folder: edit_config(folder, intermediate_size=25), "config implies (25, 16)"),
        (
            lambda folder: edit_config(folder, num_hidden_layers=3),
            "num_hidden_layers is 3, but its weights have 2 blocks",
        ),
        (
            lambda folder: edit_config(folder, num_hidden_layers=1),
            "num_hidden_layers is 1, but its weights have 2 blocks",
        ),
        (lambda folder: edit_config(folder, num_attention_heads=3), "heads = 3 does not divide"),
        (lambda folder: edit_config(folder, model_type="t5"), "regard reads bert"),
        (lambda folder: edit_config(folder, model_type=None), "Give a checkpoint of one of these"),
        (
            lambda folder: edit_config(folder, hidden_size=None),
            "missing; every checkpoint of",
        ),
        (lambda folder: edit_config(folder, regard="1.0"), "is a regard model already"),
        (
            lambda folder: (folder / "config.json").rename(folder / "adapter_config.json"),
            "is an adapter (adapter_config.json)",
        ),
        (lambda folder: edit_config(folder, hidden_size="wide"), "hidden_size is 'wide'"),
        (
            lambda folder: edit_config(folder, num_hidden_layers=None),
            "num_hidden_layers is missing",
        ),
        (
            lambda folder: edit_config(folder, quantization_config={"bits": 4}),
            "quantization_config",
        ),
        (lambda folder: (folder / "tokenizer.json").unlink(), "neither tokenizer.json nor"),
        (lambda folder: (folder / "config.json").write_text("{"), "is not JSON"),
        (lambda folder: (folder / "config.json").unlink(), "there is no such file"),
        (
            lambda folder: rename_tensors(folder, lambda n: None if "word_embeddings" in n else n),
            "it has no tensors for embedding.tokens.weight",
        ),
    ],
)
def test_inconsistent_checkpoints_are_refused_in_one_sentence(break_it, message, tmp_path):
    folder = save_checkpoint(bert(), tmp_path / "theirs")
    break_it(folder)
    with pytest.raises(UserError) as error:
        import_model(str(folder), tmp_path / "ours")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)
    assert not (tmp_path / "ours").exists()


def test_tokenizer_larger_than_the_embedding_is_refused(tmp_path):
    config = transformers.BertConfig(**{**SMALL, "vocab_size": 20})
    folder = save_checkpoint(randomise(transformers.BertModel(config)), tmp_path / "theirs")
    with pytest.raises(UserError, match="30 pieces, the token embedding 20 rows"):
        import_model(str(folder), tmp_path / "ours")


def test_quantized_weights_are_refused(tmp_path):
    folder = save_checkpoint(bert(), tmp_path / "theirs")
    file = folder / "model.safetensors"
    quantized = {
        name: tensor.to(torch.int8) if "query.weight" in name else tensor
        for name, tensor in load_file(file).items()
    }
    save_file(quantized, file)
    with pytest.raises(UserError, match=r"dtype torch\.int8"):
        import_model(str(folder), tmp_path / "ours")


def test_nan_weights_are_refused(tmp_path):
    theirs = bert()
    with torch.no_grad():
        theirs.encoder.layer[1].output.dense.bias[2] = torch.nan
    folder = save_checkpoint(theirs, tmp_path / "theirs")
    with pytest.raises(
        UserError, match=r"layer\.1\.output\.dense\.bias has NaN or infinite values"
    ):
        import_model(str(folder), tmp_path / "ours")


def test_nothing_is_overwritten_or_downloaded(tmp_path):
    with pytest.raises(UserError, match="is already there"):
        import_model("anything", tmp_path)
    with pytest.raises(UserError, match="regard downloads nothing"):
        import_model("google-bert/bert-base-uncased", tmp_path / "ours")
    file = tmp_path / "weights.bin"
    file.write_bytes(b"")
    with pytest.raises(UserError, match="neither a folder nor a"):
        import_model(str(file), tmp_path / "ours")


def test_names_are_grouped_by_block_number():
    names = ["h.0.attn.bias", "h.1.attn.bias", "h.1.norm", "lm_head.weight"]
    assert summarise_names(names) == ["h.*.attn.bias × 2 (0 to 1)", "h.1.norm", "lm_head.weight"]
    some = [f"h.{block}.attn.bias" for block in (10, 2, 7)]
    assert summarise_names(some) == ["h.*.attn.bias × 3 (2, 7, 10)"]
    nested = [f"h.{block}.parts.{part}.x" for block in (0, 1) for part in (0, 1)]
    assert summarise_names(nested) == ["h.0.parts.0.x and 3 similar"]


def test_a_missing_tensor_is_named(tmp_path):
    folder = save_checkpoint(bert(), tmp_path / "theirs")
    rename_tensors(
        folder, lambda n: None if n.endswith("layer.1.attention.self.query.weight") else n
    )
    _, report = import_and_load(folder, tmp_path / "ours")
    name = "stack.blocks.1.attention.query.weight"
    assert f"unfilled      {name}" in report.lines()
    assert any(name in remark and "seed 0" in remark for remark in report.remarks)


@pytest.mark.parametrize("name", ["gpt2", "llama", "roberta"])
def test_more_blocks_than_the_config_says_are_refused(name, tmp_path):
    folder = save_checkpoint(randomise((ENCODERS | DECODERS)[name]()), tmp_path / "theirs")
    key = "n_layer" if name == "gpt2" else "num_hidden_layers"
    edit_config(folder, **{key: 1})
    with pytest.raises(UserError, match=f"{key} is 1, .* 2 blocks"):
        import_model(str(folder), tmp_path / "ours")
