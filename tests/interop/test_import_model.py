"""Imported models compute what transformers computes, and say what they left out."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tests.interop.theirs import (
    PIECES,
    SMALL,
    SMALL_GPT2,
    VOCABULARY,
    brought,
    edited,
    padded_rows,
    renamed,
    saved,
    shaken,
)

from regard.attention.masks.mask import padding
from regard.attention.token_positions import TokenPositions
from regard.core.errors import UserError
from regard.core.files import find_damage
from regard.interop.import_model import import_model, summed_up

WITHIN = 1e-5
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
    return shaken(transformers.BertModel(transformers.BertConfig(**SMALL, **more)))


@pytest.mark.parametrize("name", [*ENCODERS, *DECODERS])
@torch.no_grad()
def test_scores_and_vectors_are_those_of_transformers(name, tmp_path):
    theirs = shaken((ENCODERS | DECODERS)[name]())
    ours, imported = brought(saved(theirs, tmp_path / "theirs"), tmp_path / "ours")
    ids, valid = padded_rows()
    expected = theirs(
        input_ids=ids, attention_mask=valid.long(), output_hidden_states=True, use_cache=False
    )
    assert (ours.logits(ids, valid=valid) - expected.logits)[valid].abs().max() < WITHIN
    vectors = ours.hidden_states(ids, valid=valid)
    assert (vectors - expected.hidden_states[-1])[valid].abs().max() < WITHIN
    # Untied, transformers keeps two biases there and adds one of them.
    assert imported.unused == (["cls.predictions.bias"] if name == "bert untied" else [])
    assert not imported.unfilled
    assert find_damage(tmp_path / "ours") is None


@pytest.mark.parametrize("name", DECODERS)
@torch.no_grad()
def test_padding_on_the_left(name, tmp_path):
    theirs = shaken(DECODERS[name]())
    ours, _ = brought(saved(theirs, tmp_path / "theirs"), tmp_path / "ours")
    ids, valid = (tensor.flip(1) for tensor in padded_rows())
    positions = (valid.long().cumsum(1) - 1).clamp(min=0)
    expected = theirs(input_ids=ids, attention_mask=valid.long(), position_ids=positions).logits
    assert (ours.logits(ids, valid=valid) - expected)[valid].abs().max() < WITHIN


@torch.no_grad()
def test_token_types_and_pooler(tmp_path):
    theirs = bert()
    ours, _ = brought(saved(theirs, tmp_path / "theirs"), tmp_path / "ours")
    ids, valid = padded_rows()
    segments = (torch.arange(ids.shape[1])[None] > 3).long().expand(ids.shape)
    expected = theirs(input_ids=ids, attention_mask=valid.long(), token_type_ids=segments)
    found = ours.forward_ids(
        ids, TokenPositions.of_padded(valid), mask=padding(valid), segments=segments
    )
    assert (found - expected.last_hidden_state)[valid].abs().max() < WITHIN
    assert (ours.pooler(found[:, 0]) - expected.pooler_output).abs().max() < WITHIN


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
def test_the_prefix_of_names_makes_no_difference(make, prefix, tmp_path):
    theirs = shaken(make())
    folder = saved(theirs, tmp_path / "theirs")
    first, _ = brought(folder, tmp_path / "with")
    renamed(folder, lambda name: name.removeprefix(prefix))
    second, imported = brought(folder, tmp_path / "without")
    assert not imported.unused
    assert not imported.unfilled
    ids, _ = padded_rows()
    assert torch.equal(first.logits(ids), second.logits(ids))


def test_the_first_names_of_norms(tmp_path):
    folder = saved(bert(), tmp_path / "theirs")
    first, _ = brought(folder, tmp_path / "new")
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    renamed(
        folder, lambda name: next((name.replace(n, o) for n, o in old.items() if n in name), name)
    )
    second, imported = brought(folder, tmp_path / "old")
    assert not imported.unfilled
    ids, _ = padded_rows()
    assert torch.equal(first.hidden_states(ids), second.hidden_states(ids))


def test_a_missing_pooler_is_not_made_up(tmp_path):
    theirs = shaken(
        transformers.BertModel(transformers.BertConfig(**SMALL), add_pooling_layer=False)
    )
    ours, imported = brought(saved(theirs, tmp_path / "theirs"), tmp_path / "ours")
    assert ours.pooler is None
    assert not imported.unfilled
    assert any("cannot tell hidden tokens" in remark for remark in imported.remarks)


@torch.no_grad()
def test_without_token_types(tmp_path):
    theirs = bert(type_vocab_size=1)
    theirs.embeddings.token_type_embeddings.weight.zero_()
    folder = saved(theirs, tmp_path / "theirs")
    renamed(folder, lambda name: None if "token_type" in name else name)
    ours, imported = brought(folder, tmp_path / "ours")
    assert ours.embedding.segments is None
    assert not imported.unfilled
    ids, _ = padded_rows()
    assert (ours.hidden_states(ids) - theirs(input_ids=ids).last_hidden_state).abs().max() < WITHIN


def test_a_network_that_bends_otherwise_is_left_out_and_said(tmp_path):
    config = transformers.BertConfig(**SMALL, hidden_act="relu")
    theirs = shaken(transformers.BertForMaskedLM(config))
    ours, imported = brought(saved(theirs, tmp_path / "theirs"), tmp_path / "ours")
    assert ours.head.transform is None
    assert "cls.predictions.transform.dense.weight" in imported.unused
    assert any("bends by relu" in remark for remark in imported.remarks)


def test_heads_of_tasks_and_constants_are_said_to_be_unused(tmp_path):
    theirs = shaken(transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL)))
    folder = saved(theirs, tmp_path / "theirs")
    file = folder / "model.safetensors"
    tensors = {**load_file(file), "bert.embeddings.position_ids": torch.arange(20)[None]}
    save_file(tensors, file, metadata={"format": "pt"})
    _, imported = brought(folder, tmp_path / "ours")
    assert imported.unused == [
        "bert.embeddings.position_ids",
        "classifier.bias",
        "classifier.weight",
    ]
    kept = json.loads((tmp_path / "ours" / "config.json").read_text())["imported"]
    assert kept["unused"] == imported.unused
    assert any("classifier.weight" in line for line in imported.lines())


def test_what_nothing_fills_is_said_and_drawn_by_seed(tmp_path):
    folder = saved(shaken(DECODERS["llama"]()), tmp_path / "theirs")
    renamed(folder, lambda name: None if name == "lm_head.weight" else name)
    ours, imported = brought(folder, tmp_path / "ours")
    assert imported.unfilled == ["head.tokens.weight"]
    assert 0.01 < ours.head.tokens.weight.std() < 0.03
    assert any("seed 0" in remark for remark in imported.remarks)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama, tied, one head each, other base"])
def test_tied_stays_tied(name, tmp_path):
    folder = saved(shaken((ENCODERS | DECODERS)[name]()), tmp_path / "theirs")
    ours, _ = brought(folder, tmp_path / "ours")
    assert ours.head.tokens.weight is ours.embedding.tokens.weight


def test_a_copy_of_a_tied_table_is_used_and_another_table_is_not(tmp_path):
    folder = saved(shaken(DECODERS["gpt2"]()), tmp_path / "theirs")
    file = folder / "model.safetensors"
    tensors = load_file(file)
    table = tensors["transformer.wte.weight"]
    save_file({**tensors, "lm_head.weight": table.clone()}, file)
    assert brought(folder, tmp_path / "same")[1].unused == []
    save_file({**tensors, "lm_head.weight": table + 1}, file)
    assert brought(folder, tmp_path / "other")[1].unused == ["lm_head.weight"]


@torch.no_grad()
def test_shards_and_half_precision(tmp_path):
    theirs = shaken(DECODERS["llama"]()).to(torch.bfloat16)
    folder = saved(theirs, tmp_path / "theirs", max_shard_size="3KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 2
    ours, imported = brought(folder, tmp_path / "ours")
    assert not imported.unfilled
    ids, _ = padded_rows()
    # Read anew: half precision has rounded the angles of its rotation too.
    exact = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    assert (ours.logits(ids) - exact(input_ids=ids).logits).abs().max() < WITHIN


def test_a_window_shortens_the_context(tmp_path):
    folder = saved(shaken(DECODERS["mistral"]()), tmp_path / "theirs")
    ours, imported = brought(folder, tmp_path / "ours")
    assert ours.context == 12
    assert any("sliding_window" in remark for remark in imported.remarks)


def test_a_table_longer_than_the_list_of_pieces(tmp_path):
    config = transformers.GPT2Config(**{**SMALL_GPT2, "vocab_size": 32})
    folder = saved(shaken(transformers.GPT2LMHeadModel(config)), tmp_path / "theirs")
    ours, imported = brought(folder, tmp_path / "ours")
    assert ours.embedding.tokens.num_embeddings == imported.vocabulary == 32
    assert any(f"{VOCABULARY} pieces of 32 rows" in line for line in imported.lines())


def test_no_code_of_a_checkpoint_is_run(tmp_path):
    folder = saved(bert(), tmp_path / "theirs")
    edited(folder, auto_map={"AutoModel": "modeling.Evil"})
    (folder / "modeling.py").write_text("raise SystemExit('this was run')")
    _, imported = brought(folder, tmp_path / "ours")
    assert any("auto_map" in remark for remark in imported.remarks)


def test_vocab_txt_will_do(tmp_path):
    folder = saved(bert(), tmp_path / "theirs")
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    _, imported = brought(folder, tmp_path / "ours")
    assert imported.tokenizer.size == VOCABULARY


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda folder: edited(folder, vocab_size=31), "config asks for (31, 16)"),
        (lambda folder: edited(folder, hidden_size=10**12), "config asks for (30, 1000000000000)"),
        (lambda folder: edited(folder, intermediate_size=25), "config asks for (25, 16)"),
        (
            lambda folder: edited(folder, num_hidden_layers=3),
            "num_hidden_layers is 3, and its weights have 2 blocks",
        ),
        (
            lambda folder: edited(folder, num_hidden_layers=1),
            "num_hidden_layers is 1, and its weights have 2 blocks",
        ),
        (lambda folder: edited(folder, num_attention_heads=3), "heads = 3 does not divide"),
        (lambda folder: edited(folder, model_type="t5"), "regard reads bert"),
        (lambda folder: edited(folder, model_type=None), "Give a checkpoint of one of these"),
        (lambda folder: edited(folder, hidden_size=None), "missing, which every checkpoint of"),
        (lambda folder: edited(folder, regard="1.0"), "is regard's own already"),
        (
            lambda folder: (folder / "config.json").rename(folder / "adapter_config.json"),
            "holds an adapter (adapter_config.json)",
        ),
        (lambda folder: edited(folder, hidden_size="wide"), "hidden_size is 'wide'"),
        (lambda folder: edited(folder, num_hidden_layers=None), "num_hidden_layers is missing"),
        (lambda folder: edited(folder, quantization_config={"bits": 4}), "quantization_config"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "neither tokenizer.json nor"),
        (lambda folder: (folder / "config.json").write_text("{"), "is not JSON"),
        (lambda folder: (folder / "config.json").unlink(), "there is no such file"),
        (
            lambda folder: renamed(folder, lambda n: None if "word_embeddings" in n else n),
            "nothing in it fills embedding.tokens.weight",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(break_it, said, tmp_path):
    folder = saved(bert(), tmp_path / "theirs")
    break_it(folder)
    with pytest.raises(UserError) as told:
        import_model(str(folder), tmp_path / "ours")
    assert said in str(told.value)
    assert "\n" not in str(told.value)
    assert str(folder) in str(told.value)
    assert not (tmp_path / "ours").exists()


def test_a_vocabulary_beyond_the_table(tmp_path):
    config = transformers.BertConfig(**{**SMALL, "vocab_size": 20})
    folder = saved(shaken(transformers.BertModel(config)), tmp_path / "theirs")
    with pytest.raises(UserError, match="30 pieces, the model a table of 20 rows"):
        import_model(str(folder), tmp_path / "ours")


def test_packed_weights_are_refused(tmp_path):
    folder = saved(bert(), tmp_path / "theirs")
    file = folder / "model.safetensors"
    packed = {
        name: tensor.to(torch.int8) if "query.weight" in name else tensor
        for name, tensor in load_file(file).items()
    }
    save_file(packed, file)
    with pytest.raises(UserError, match=r"torch\.int8, not weights"):
        import_model(str(folder), tmp_path / "ours")


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    theirs = bert()
    with torch.no_grad():
        theirs.encoder.layer[1].output.dense.bias[2] = torch.nan
    folder = saved(theirs, tmp_path / "theirs")
    with pytest.raises(
        UserError, match=r"layer\.1\.output\.dense\.bias holds numbers that are none"
    ):
        import_model(str(folder), tmp_path / "ours")


def test_nothing_is_overwritten_and_nothing_fetched(tmp_path):
    with pytest.raises(UserError, match="is already there"):
        import_model("anything", tmp_path)
    with pytest.raises(UserError, match="regard fetches nothing itself"):
        import_model("google-bert/bert-base-uncased", tmp_path / "ours")
    file = tmp_path / "weights.bin"
    file.write_bytes(b"")
    with pytest.raises(UserError, match="neither a folder nor a"):
        import_model(str(file), tmp_path / "ours")


def test_names_that_differ_in_numbers_are_told_once():
    names = ["h.0.attn.bias", "h.1.attn.bias", "h.1.norm", "lm_head.weight"]
    assert summed_up(names) == ["h.*.attn.bias × 2 (0 to 1)", "h.1.norm", "lm_head.weight"]
    some = [f"h.{block}.attn.bias" for block in (10, 2, 7)]
    assert summed_up(some) == ["h.*.attn.bias × 3 (2, 7, 10)"]
    nested = [f"h.{block}.parts.{part}.x" for block in (0, 1) for part in (0, 1)]
    assert summed_up(nested) == ["h.0.parts.0.x and 3 alike"]


def test_one_weight_that_is_missing_is_named(tmp_path):
    folder = saved(bert(), tmp_path / "theirs")
    renamed(folder, lambda n: None if n.endswith("layer.1.attention.self.query.weight") else n)
    _, imported = brought(folder, tmp_path / "ours")
    name = "stack.blocks.1.attention.query.weight"
    assert f"unfilled      {name}" in imported.lines()
    assert f"nothing in the file fills {name}: random, drawn by seed 0" in imported.remarks


@pytest.mark.parametrize("name", ["gpt2", "llama", "roberta"])
def test_blocks_that_a_config_does_not_know_of(name, tmp_path):
    folder = saved(shaken((ENCODERS | DECODERS)[name]()), tmp_path / "theirs")
    key = "n_layer" if name == "gpt2" else "num_hidden_layers"
    edited(folder, **{key: 1})
    with pytest.raises(UserError, match=f"{key} is 1, and its weights have 2 blocks"):
        import_model(str(folder), tmp_path / "ours")
