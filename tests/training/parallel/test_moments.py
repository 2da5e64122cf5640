"""Moments that ranks saved in parts are read whole, or cut for another number of ranks."""

import pytest
import torch

from regard.core.errors import UserError
from regard.models.tensor_files import write_tensors
from regard.training.parallel.moments import (
    OPTIMIZER_FILE,
    moment_files,
    open_moments,
    write_moments,
)
from regard.training.parallel.sharded import rows_of

WHOLE = {
    "a|exp_avg": torch.arange(14.0).view(7, 2),
    "b|exp_avg": torch.arange(2.0),  # fewer rows than ranks
    "a|step": torch.tensor(3.0),
}


def cut(rank: int, size: int) -> dict[str, torch.Tensor]:
    return {
        name: tensor[rows_of(len(tensor), rank, size)].contiguous() if tensor.ndim else tensor
        for name, tensor in WHOLE.items()
    }


@pytest.mark.parametrize("saved_by", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("read_by", [1, 2, 4])
def test_moments_are_cut_anew(saved_by, read_by, tmp_path):
    if saved_by:
        for rank in range(saved_by):
            write_moments(tmp_path, cut(rank, saved_by), rank=rank, size=saved_by)
        assert len(moment_files(tmp_path)) == saved_by
    else:
        write_tensors(WHOLE, tmp_path / OPTIMIZER_FILE)
    with open_moments(tmp_path) as moments:
        assert {*moments.names} == {*WHOLE}
        for name, tensor in WHOLE.items():
            assert torch.equal(moments.read(name, None), tensor)
        for rank in range(read_by):
            for name, expected in cut(rank, read_by).items():
                rows = rows_of(len(WHOLE[name]), rank, read_by) if WHOLE[name].ndim else None
                assert torch.equal(moments.read(name, rows), expected)


def test_a_missing_part_is_named(tmp_path):
    for rank in range(2):
        write_moments(tmp_path, cut(rank, 2), rank=rank, size=2)
    missing = moment_files(tmp_path)[1]
    missing.unlink()
    with pytest.raises(UserError, match=f"{missing.name} is missing"), open_moments(tmp_path):
        pass
