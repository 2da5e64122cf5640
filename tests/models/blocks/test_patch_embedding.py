"""Patch embedding and the patch encoder: patchify, positions, attention across modalities."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.kinds.dot import Dot
from regard.attention.kinds.group import Group
from regard.audits.audit import audit
from regard.batch import Batch, Example, collate
from regard.core.errors import UserError
from regard.core.ledger import total_parameters
from regard.core.settings import read_settings
from regard.models.blocks.patch_embedding import patchify
from regard.models.families.encoder import Encoder
from regard.models.inputs import ModelInputs
from regard.models.task_models.patch_model import (
    MaskedPatchModel,
    PatchEncoder,
    PatchHead,
    patch_positions,
)
from regard.runs.models.model_subject import model_subject

CLS, SEP, PAD, VOCABULARY = 4, 5, 0, 30
PATCHES, PATCH_DIM, CONTEXT = 4, 4, 12


def example(words: list[int], patches: np.ndarray) -> Example:
    ids = np.array([CLS, *words, SEP] + [PAD] * len(patches))
    modalities = np.array([0] * (len(words) + 2) + [1] * len(patches))
    weights = np.zeros(len(ids), dtype=np.float32)
    weights[0] = 1
    return Example(ids, ids, weights, modalities=modalities, patches=patches.astype(np.float32))


def batch_of(*examples: Example) -> Batch:
    return collate(examples, pad_id=PAD, rows=range(len(examples)))


def family(**settings: object) -> Encoder:
    table = {"layers": 2, "heads": 2, "width": 16, "context": CONTEXT, "patch_dim": PATCH_DIM}
    return Encoder.model_validate(table | settings)


def patch_encoder(**settings: object) -> PatchEncoder:
    model = family(**settings).build(vocabulary=VOCABULARY, seed=0)
    assert isinstance(model, PatchEncoder)
    return model.eval()


def random_patches(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((PATCHES, PATCH_DIM))


def test_patchify_cuts_squares_row_by_row() -> None:
    image = np.arange(16, dtype=np.float32).reshape(4, 4)
    expected = [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    assert patchify(image, side=2).tolist() == expected


@given(side=st.integers(1, 4), across=st.integers(1, 4))
def test_every_patch_is_a_square_of_the_image(side: int, across: int) -> None:
    length = side * across
    image = np.arange(length * length, dtype=np.float32).reshape(length, length)
    patches = patchify(image, side=side)
    assert patches.shape == (across * across, side * side)
    for number, patch in enumerate(patches):
        top, left = (side * one for one in divmod(number, across))
        square = image[top : top + side, left : left + side]
        assert np.array_equal(patch.reshape(side, side), square)


@pytest.mark.parametrize("combine", ["add", "concatenate"])
def test_parameter_count_equals_the_formula(combine: str) -> None:
    positions = {"kind": "learned", "combine": combine}
    table = {"heads": 2, "width": 16, "context": 12, "patch_dim": 9, "positions": positions}
    settings = read_settings(Encoder, {**table, "tied": False})
    model = settings.build(vocabulary=VOCABULARY, seed=0)
    assert sum(p.numel() for p in model.parameters()) == total_parameters(
        settings.count_parameters(VOCABULARY)
    )


def test_patch_positions_do_not_depend_on_the_question_length() -> None:
    batch = batch_of(example([7], random_patches(0)), example([7, 8, 9], random_patches(0)))
    assert batch.modalities is not None
    positions = patch_positions(batch.modalities == 1, batch.valid, context=CONTEXT)
    assert positions[0, :7].tolist() == [0, 1, 2, 8, 9, 10, 11]
    assert positions[1].tolist() == [0, 1, 2, 3, 4, 8, 9, 10, 11]


def test_patches_replace_the_ids_at_their_positions() -> None:
    one = batch_of(example([7], random_patches(0)))
    other = batch_of(example([7], random_patches(0)))
    other.ids[:, 3:] = 9
    model = patch_encoder()
    assert torch.equal(
        model.hidden_states(ModelInputs.of_batch(one)),
        model.hidden_states(ModelInputs.of_batch(other)),
    )


def test_a_row_has_the_same_hidden_states_alone_and_in_a_batch() -> None:
    rows = (example([7], random_patches(0)), example([7, 8, 9], random_patches(1)))
    model = patch_encoder()
    together, alone = (
        model.hidden_states(ModelInputs.of_batch(batch_of(*rows))),
        model.hidden_states(ModelInputs.of_batch(batch_of(rows[0]))),
    )
    assert torch.allclose(together[0, :7], alone[0], atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "mixes"),
    [
        (Dot(), True),
        (Group(by="modality"), False),
        (Group(by="modality", fusion_every=2), True),
    ],
)
def test_words_attend_to_patches_where_modalities_mix(kind: object, mixes: bool) -> None:
    model = patch_encoder(attention=kind)
    first, second = (
        model.hidden_states(ModelInputs.of_batch(batch_of(example([7, 8], random_patches(seed)))))
        for seed in (0, 1)
    )
    assert torch.equal(first[0, :4], second[0, :4]) is not mixes
    assert not torch.allclose(first[0, 4:], second[0, 4:])


@pytest.mark.parametrize("kind", [Dot(), Group(by="modality", fusion_every=2)])
def test_the_audit_covers_words_and_patches(kind: object) -> None:
    result = audit(model_subject(patch_encoder(attention=kind)))
    assert result.verdict == "clean"
    assert not result.findings
    assert "words and patches" in result.target
    assert not [one for one in result.unused_parameters if "patches" in one.name]


def test_modality_groups_need_rows_with_modalities() -> None:
    plain = Encoder(layers=1, heads=2, width=16, context=CONTEXT, attention=Group(by="modality"))
    ids = np.array([CLS, 7, SEP])
    batch = batch_of(Example(ids, ids, np.ones(3, dtype=np.float32)))
    with pytest.raises(UserError, match="needs modality ids"):
        plain.build(vocabulary=VOCABULARY, seed=0)(batch)


def test_loss_is_the_squared_error_of_masked_patches() -> None:
    model = MaskedPatchModel(patch_encoder(), PatchHead(16, patch_dim=PATCH_DIM), seed=0)
    rows, labels = [], []
    for seed, masked in ((0, [0, 2]), (1, [1, 3])):
        whole = example([7] * (seed + 1), random_patches(seed))
        weights = np.zeros(len(whole.inputs), dtype=np.float32)
        weights[[seed + 3 + number for number in masked]] = 1
        labels.append(random_patches(seed + 5)[masked].astype(np.float32))
        rows.append(
            Example(
                whole.inputs,
                whole.targets,
                weights,
                labels=labels[-1].ravel(),
                modalities=whole.modalities,
                patches=whole.patches,
            )
        )
    batch = batch_of(*rows)
    predicted = model.predict_patches(batch)
    hidden_states = model.hidden_states(batch)
    # Position 5 is the second patch after [CLS] 7 7 [SEP].
    assert torch.allclose(predicted[1, 0], model.head(hidden_states[1, 5]))
    term = model(batch)["patches"]
    expected = ((predicted.detach().numpy() - np.stack(labels)) ** 2).mean(axis=-1).sum()
    assert term.sum.item() == pytest.approx(float(expected), rel=1e-5)
    assert float(term.weight) == 4
    term.sum.backward()
    gradient = model.body.get_parameter("patches.values.weight").grad
    assert gradient is not None
    assert gradient.abs().sum() > 0


def test_micro_batches_keep_their_patches() -> None:
    batch = batch_of(*(example([7], random_patches(seed)) for seed in range(3)))
    micro_batches = batch.micro_batches(2)
    assert batch.patches is not None
    assert torch.equal(torch.cat([one.patches for one in micro_batches]), batch.patches)
    ids = np.array([CLS, 7, SEP])
    without_patches = Example(ids, ids, np.ones(3, dtype=np.float32), modalities=np.zeros(3, int))
    with pytest.raises(ValueError, match="patches"):
        batch_of(example([7], random_patches(0)), without_patches)
