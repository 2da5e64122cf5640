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


def truncate_as_bert(a: list[int], b: list[int], max_length: int) -> tuple[list[int], list[int]]:
    """BERT's own loop, as the reference."""
    a, b = list(a), list(b)
    while len(a) + len(b) > max_length:
        (a if len(a) > len(b) else b).pop()
    return a, b


def test_single_sequence() -> None:
    assert special_tokens.single_sequence([7, 8], roles) == InputSequence(
        (CLS, 7, 8, SEP), (0, 0, 0, 0)
    )


def test_sequence_pair() -> None:
    assert special_tokens.sequence_pair([7, 8], [9], roles=roles) == InputSequence(
        (CLS, 7, 8, SEP, 9, SEP), (0, 0, 0, 0, 1, 1)
    )


def test_delimited_sequence() -> None:
    assert special_tokens.delimited_sequence([7], roles) == InputSequence(
        (START, 7, STOP), (0, 0, 0)
    )


def test_source_target_sequence() -> None:
    packed = special_tokens.source_target_sequence([7, 8], [9], roles=roles)
    assert packed == InputSequence((START, 7, 8, SEP, 9, STOP), (0, 0, 0, 0, 1, 1))


def test_empty_text_keeps_its_special_tokens() -> None:
    assert special_tokens.sequence_pair([], [9], roles=roles).segments == (0, 0, 1, 1)


@given(some_ids, some_ids, st.integers(1, 30))
def test_truncation_equals_bert(a: list[int], b: list[int], max_length: int) -> None:
    found = special_tokens.truncate_longest_first(a, b, max_length=max_length)
    assert found == truncate_as_bert(a, b, max_length)


@given(some_ids, some_ids, st.integers(4, 30))
def test_pair_respects_its_limit_and_counts_truncated_tokens(
    a: list[int], b: list[int], n: int
) -> None:
    packed = special_tokens.sequence_pair(a, b, roles=roles, limit=n)
    assert len(packed.ids) == len(packed.segments) == min(n, len(a) + len(b) + 3)
    assert packed.truncated == len(a) + len(b) + 3 - len(packed.ids)
    assert packed.ids.count(SEP) == 2


@given(some_ids, st.integers(3, 20))
def test_single_sequence_keeps_the_beginning(a: list[int], n: int) -> None:
    packed = special_tokens.single_sequence(a, roles, limit=n)
    assert packed.ids[1:-1] == tuple(a[: n - 2])
    assert packed.truncated == max(len(a) - (n - 2), 0)


@pytest.mark.parametrize(
    ("pack", "limit"), [(special_tokens.single_sequence, 2), (special_tokens.delimited_sequence, 0)]
)
def test_limit_too_small_for_text(pack, limit: int) -> None:
    with pytest.raises(UserError, match=r"no room for text.*Raise model\.context"):
        pack([7], roles, limit=limit)


def test_limit_too_small_for_a_pair() -> None:
    with pytest.raises(UserError, match="3 special tokens"):
        special_tokens.sequence_pair([7], [8], roles=roles, limit=3)
