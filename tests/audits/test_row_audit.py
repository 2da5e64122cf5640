"""The leak test of one row: every pair that a painted mask opens is found, and no other."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.masks import mask as masks
from regard.attention.masks.painted import mask_of_table
from regard.audits.leaks.permission import Permission
from regard.audits.row_audit import audit_row
from regard.audits.subject import Subject
from regard.models.families.decoder import Decoder
from regard.models.inputs import ModelInputs

LENGTH, VOCABULARY = 9, 23
CAUSAL = torch.ones(LENGTH, LENGTH).tril().bool()
IDS = torch.arange(LENGTH)[None] + 3


def audited(allowed, declared, *, layers=2, kind=None, ids=IDS):
    """A decoder under one mask, held against another."""
    attention = {} if kind is None else {"attention": kind}
    settings = Decoder(layers=layers, heads=2, width=8, context=512, init_std=0.4, **attention)
    model = settings.build(vocabulary=VOCABULARY, seed=0).eval()
    mask = mask_of_table(allowed, "painted")

    def run(module, inputs, valid):
        return module.position_outputs(module.hidden_states(ModelInputs(inputs, mask=mask)))

    subject = Subject(
        "a decoder",
        run,
        module=model,
        vocabulary=VOCABULARY,
        max_length=512,
        embedding=model.token_table,
    )
    return audit_row(subject, ids, declared, name="declared")


@settings(max_examples=12, deadline=None)
@given(st.sets(st.sampled_from(list(itertools.combinations(range(LENGTH), 2))), max_size=3))
def test_what_leaks_is_what_the_painted_pairs_open(pairs):
    allowed = CAUSAL.clone()
    for query, key in pairs:
        allowed[query, key] = True
    found = audited(allowed, CAUSAL)
    reached = Permission("painted", lambda t: allowed).reachable(LENGTH)
    # Two layers here, and no pair opens a way that needs more.
    through = (allowed.float() @ allowed.float()) > 0
    expected = {(i, j) for i, j in (through & ~CAUSAL).nonzero().tolist()}
    assert {(leak.query, leak.key) for leak in found.leaks} == expected
    assert found.verdict == ("leak" if pairs else "clean")
    assert bool((reached & ~CAUSAL).any()) == bool(pairs)


def test_the_answer_names_the_position_and_the_tokens():
    allowed = CAUSAL.clone()
    allowed[4, 7] = True
    found = audited(allowed, CAUSAL, layers=1)
    assert found.sentence.startswith("sees the future: position 4 reacts to token 7 (largest")
    assert [(leak.query, leak.key) for leak in found.leaks] == [(4, 7)]


@pytest.mark.parametrize("query", range(4, LENGTH))
def test_a_window_wider_than_declared_is_found_at_each_query(query):
    window = (masks.causal() & masks.sliding_window(3)).dense(LENGTH, LENGTH)[0, 0]
    assert audited(window, window).verdict == "clean"
    wider = window.clone()
    wider[query, query - 3] = True
    found = audited(wider, window)
    assert {(leak.query, leak.key) for leak in found.leaks} == {(query, query - 3)}


def test_rows_in_which_not_every_pair_can_be_tested_are_not_called_clean():
    length = 300
    causal = torch.ones(length, length).tril().bool()
    ids = torch.arange(length)[None] % VOCABULARY
    found = audited(causal, causal, ids=ids, layers=6)
    assert (found.verdict, found.leaks) == ("cannot tell", ())
    assert "300 positions of this model take" in found.sentence
    assert "shorten the text" in found.sentence


def test_a_mask_that_forbids_nothing_is_said():
    everything = torch.ones_like(CAUSAL)
    found = audited(CAUSAL, everything)
    assert found.verdict == "nothing forbidden"
    assert found.sentence == "the mask declared forbids nothing, so nothing can leak"


def test_a_model_that_does_not_run_is_said():
    def run(module, inputs, valid):
        raise RuntimeError("no such row")

    found = audit_row(Subject("broken", run, vocabulary=9), IDS, CAUSAL, name="causal")
    assert found.verdict == "cannot tell"
    assert "no such row" in found.sentence
