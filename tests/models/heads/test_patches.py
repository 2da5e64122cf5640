"""Patches stand behind words: what is cut, where each stands, and who sees whom."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.kinds.dot import Dot
from regard.attention.kinds.group import Group
from regard.audits.audit import audit
from regard.batch import Batch, Example, collate
from regard.core.count import total
from regard.core.errors import UserError
from regard.core.settings import read_settings
from regard.models.families.encoder import Encoder
from regard.models.heads.patches import cut, joined
from regard.models.task_models.patch_model import (
    MaskedPatchModel,
    PatchEncoder,
    PatchHead,
    patch_positions,
)

CLS, SEP, PAD, VOCABULARY = 4, 5, 0, 30
PATCHES, VALUES, CONTEXT = 4, 4, 12


def example(words: list[int], patches: np.ndarray) -> Example:
    ids = np.array([CLS, *words, SEP] + [PAD] * len(patches))
    modalities = np.array([0] * (len(words) + 2) + [1] * len(patches))
    weights = np.zeros(len(ids), dtype=np.float32)
    weights[0] = 1
    return Example(ids, ids, weights, modalities=modalities, patches=patches.astype(np.float32))


def batch_of(*examples: Example) -> Batch:
    return collate(examples, pad_id=PAD, rows=range(len(examples)))


def family(**settings: object) -> Encoder:
    table = {"layers": 2, "heads": 2, "width": 16, "context": CONTEXT, "patch_values": VALUES}
    return Encoder.model_validate(table | settings)


def reader(**settings: object) -> PatchEncoder:
    model = family(**settings).build(vocabulary=VOCABULARY, seed=0)
    assert isinstance(model, PatchEncoder)
    return model.eval()


def drawn(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((PATCHES, VALUES))


def test_patches_are_squares_row_by_row() -> None:
    image = np.arange(16, dtype=np.float32).reshape(4, 4)
    expected = [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    assert cut(image, side=2).tolist() == expected


@given(side=st.integers(1, 4), across=st.integers(1, 4))
def test_cut_patches_join_to_the_image(side: int, across: int) -> None:
    length = side * across
    image = np.arange(length * length, dtype=np.float32).reshape(length, length)
    patches = cut(image, side=side)
    assert patches.shape == (across * across, side * side)
    assert np.array_equal(joined(patches), image)


@pytest.mark.parametrize("combine", ["add", "concatenate"])
def test_parameters_are_those_of_the_formula(combine: str) -> None:
    positions = {"kind": "learned", "combine": combine}
    table = {"heads": 2, "width": 16, "context": 12, "patch_values": 9, "positions": positions}
    settings = read_settings(Encoder, {**table, "tied": False})
    model = settings.build(vocabulary=VOCABULARY, seed=0)
    assert sum(p.numel() for p in model.parameters()) == total(settings.count(VOCABULARY))


def test_a_patch_keeps_its_position_however_long_the_question_is() -> None:
    batch = batch_of(example([7], drawn(0)), example([7, 8, 9], drawn(0)))
    assert batch.modalities is not None
    positions = patch_positions(batch.modalities == 1, batch.valid, context=CONTEXT)
    assert positions[0, :7].tolist() == [0, 1, 2, 8, 9, 10, 11]
    assert positions[1].tolist() == [0, 1, 2, 3, 4, 8, 9, 10, 11]


def test_patches_take_the_place_of_whatever_id_stands_there() -> None:
    one = batch_of(example([7], drawn(0)))
    other = batch_of(example([7], drawn(0)))
    other.ids[:, 3:] = 9
    model = reader()
    assert torch.equal(model.read(one), model.read(other))


def test_a_row_is_read_alike_alone_and_among_longer_ones() -> None:
    rows = (example([7], drawn(0)), example([7, 8, 9], drawn(1)))
    model = reader()
    together, alone = model.read(batch_of(*rows)), model.read(batch_of(rows[0]))
    assert torch.allclose(together[0, :7], alone[0], atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "meet"),
    [
        (Dot(), True),
        (Group(by="modality"), False),
        (Group(by="modality", fusion_every=2), True),
    ],
)
def test_words_learn_of_patches_where_modalities_meet(kind: object, meet: bool) -> None:
    model = reader(attention=kind)
    first, second = (model.read(batch_of(example([7, 8], drawn(seed)))) for seed in (0, 1))
    assert torch.equal(first[0, :4], second[0, :4]) is not meet
    assert not torch.allclose(first[0, 4:], second[0, 4:])


@pytest.mark.parametrize("kind", [Dot(), Group(by="modality", fusion_every=2)])
def test_the_audit_reads_words_and_patches(kind: object) -> None:
    seen = audit(reader(attention=kind))
    assert seen.verdict == "clean"
    assert not seen.findings
    assert "words and patches" in seen.target
    assert not [one for one in seen.unreached if "patches" in one.name]


def test_modality_groups_need_rows_with_modalities() -> None:
    plain = Encoder(layers=1, heads=2, width=16, context=CONTEXT, attention=Group(by="modality"))
    ids = np.array([CLS, 7, SEP])
    batch = batch_of(Example(ids, ids, np.ones(3, dtype=np.float32)))
    with pytest.raises(UserError, match="needs modality ids"):
        plain.build(vocabulary=VOCABULARY, seed=0)(batch)


def test_hidden_patches_count_by_their_squared_error() -> None:
    model = MaskedPatchModel(reader(), PatchHead(16, patch_values=VALUES), seed=0)
    rows, truths = [], []
    for seed, hidden in ((0, [0, 2]), (1, [1, 3])):
        whole = example([7] * (seed + 1), drawn(seed))
        weights = np.zeros(len(whole.inputs), dtype=np.float32)
        weights[[seed + 3 + number for number in hidden]] = 1
        truths.append(drawn(seed + 5)[hidden].astype(np.float32))
        rows.append(
            Example(
                whole.inputs,
                whole.targets,
                weights,
                labels=truths[-1].ravel(),
                modalities=whole.modalities,
                patches=whole.patches,
            )
        )
    batch = batch_of(*rows)
    told = model.told(batch)
    vectors = model.vectors(batch)
    assert torch.allclose(told[1, 0], model.head(vectors[1, 5]))  # [CLS] 7 7 [SEP], then the second
    term = model(batch)["patches"]
    expected = ((told.detach().numpy() - np.stack(truths)) ** 2).mean(axis=-1).sum()
    assert term.sum.item() == pytest.approx(float(expected), rel=1e-5)
    assert float(term.weight) == 4
    term.sum.backward()
    reached = model.body.get_parameter("patches.values.weight").grad
    assert reached is not None
    assert reached.abs().sum() > 0


def test_micro_batches_keep_their_patches() -> None:
    batch = batch_of(*(example([7], drawn(seed)) for seed in range(3)))
    parts = batch.split(2)
    assert batch.patches is not None
    assert torch.equal(torch.cat([part.patches for part in parts]), batch.patches)
    ids = np.array([CLS, 7, SEP])
    bare = Example(ids, ids, np.ones(3, dtype=np.float32), modalities=np.zeros(3, int))
    with pytest.raises(ValueError, match="patches"):
        batch_of(example([7], drawn(0)), bare)
