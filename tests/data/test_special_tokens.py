import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data import special_tokens
from regard.data.special_tokens import InputSequence

CLS, SEP, START, STOP = 4, 5, 2, 3


class Roles:
    def require(self, role: str) -> int:
        return {"cls": CLS, "sep": SEP, "start": START, "stop": STOP}[role]


roles = Roles()
some_ids = st.lists(st.integers(7, 99), max_size=12)


def pop_from_the_longer(a: list[int], b: list[int], room: int) -> tuple[list[int], list[int]]:
    """BERT's own loop, as the oracle."""
    a, b = list(a), list(b)
    while len(a) + len(b) > room:
        (a if len(a) > len(b) else b).pop()
    return a, b


def test_one() -> None:
    assert special_tokens.single_sequence([7, 8], roles) == InputSequence(
        (CLS, 7, 8, SEP), (0, 0, 0, 0)
    )


def test_pair() -> None:
    assert special_tokens.sequence_pair([7, 8], [9], roles=roles) == InputSequence(
        (CLS, 7, 8, SEP, 9, SEP), (0, 0, 0, 0, 1, 1)
    )


def test_bounded() -> None:
    assert special_tokens.delimited_sequence([7], roles) == InputSequence(
        (START, 7, STOP), (0, 0, 0)
    )


def test_source_and_target_each_have_their_limit() -> None:
    source, target = special_tokens.source_and_target(
        [7, 8, 9], [10, 11], roles=roles, source_limit=4, target_limit=9
    )
    assert source == InputSequence((START, 7, 8, STOP), (0,) * 4, lost=1)
    assert target == InputSequence((START, 10, 11, STOP), (0,) * 4)


def test_source_to_target_in_one_row() -> None:
    packed = special_tokens.source_target_sequence([7, 8], [9], roles=roles)
    assert packed == InputSequence((START, 7, 8, SEP, 9, STOP), (0, 0, 0, 0, 1, 1))


def test_an_empty_side_is_kept() -> None:
    assert special_tokens.sequence_pair([], [9], roles=roles).segments == (0, 0, 1, 1)


@given(some_ids, some_ids, st.integers(1, 30))
def test_the_longer_side_is_cut_as_bert_cuts_it(a: list[int], b: list[int], room: int) -> None:
    assert special_tokens.truncate_longest_first(a, b, room=room) == pop_from_the_longer(a, b, room)


@given(some_ids, some_ids, st.integers(4, 30))
def test_a_pair_keeps_its_limit_and_counts_its_loss(a: list[int], b: list[int], n: int) -> None:
    packed = special_tokens.sequence_pair(a, b, roles=roles, limit=n)
    assert len(packed.ids) == len(packed.segments) == min(n, len(a) + len(b) + 3)
    assert packed.truncated == len(a) + len(b) + 3 - len(packed.ids)
    assert packed.ids.count(SEP) == 2


@given(some_ids, st.integers(3, 20))
def test_one_text_keeps_its_beginning(a: list[int], n: int) -> None:
    packed = special_tokens.single_sequence(a, roles, limit=n)
    assert packed.ids[1:-1] == tuple(a[: n - 2])
    assert packed.truncated == max(len(a) - (n - 2), 0)


@pytest.mark.parametrize(
    ("pack", "limit"), [(special_tokens.single_sequence, 2), (special_tokens.delimited_sequence, 0)]
)
def test_no_room(pack, limit: int) -> None:
    with pytest.raises(UserError, match=r"no room for text.*Raise model\.context"):
        pack([7], roles, limit=limit)


def test_no_room_for_a_pair() -> None:
    with pytest.raises(UserError, match="3 special tokens"):
        special_tokens.sequence_pair([7], [8], roles=roles, limit=3)
