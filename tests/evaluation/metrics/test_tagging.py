import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.evaluation.metrics.tagging import TaggingMetric, TagSpan, tag_spans

METRIC = TaggingMetric()


def value(score_name, *pairs):
    rows = [{"truth": truth, "predicted": predicted} for truth, predicted in pairs]
    return float(METRIC.score_function(score_name)(METRIC.statistics(rows).sum(axis=1)))


@st.composite
def segmented(draw):
    """Spans side by side, each of a type or outside, with their BIO tags."""
    spans, bio, bioes, at = set(), [], [], 0
    for kind, size in draw(
        st.lists(st.tuples(st.sampled_from(["PER", "LOC", "O"]), st.integers(1, 3)), max_size=6)
    ):
        if kind == "O":
            bio += ["O"] * size
            bioes += ["O"] * size
        else:
            spans.add(TagSpan(kind, at, at + size))
            bio += [f"B-{kind}"] + [f"I-{kind}"] * (size - 1)
            inner = [f"I-{kind}"] * (size - 2)
            bioes += [f"S-{kind}"] if size == 1 else [f"B-{kind}", *inner, f"E-{kind}"]
        at += size
    return spans, bio, bioes


@given(segmented())
def test_spans_are_read_back_from_both_schemes(drawn):
    spans, bio, bioes = drawn
    assert tag_spans(bio) == spans
    assert tag_spans(bioes) == spans


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("I-PER I-PER O", [("PER", 0, 2)]),  # IOB1
        ("I-PER B-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("B-PER I-LOC", [("PER", 0, 1), ("LOC", 1, 2)]),
        ("O I-LOC I-LOC", [("LOC", 1, 3)]),
        ("S-PER I-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("B-a-b I-a-b", [("a-b", 0, 2)]),
        ("NOUN NOUN VERB", [("NOUN", 0, 1), ("NOUN", 1, 2), ("VERB", 2, 3)]),
        ("B I O", [("", 0, 2)]),
        ("", []),
    ],
)
def test_spans_as_conlleval_reads_them(tags, spans):
    assert tag_spans(tags.split()) == {TagSpan(*span) for span in spans}


def test_a_span_counts_only_as_a_whole():
    pair = ("B-PER I-PER O B-LOC", "B-PER O O B-LOC")
    assert value("accuracy", pair) == 0.75
    assert value("precision", pair) == value("recall", pair) == value("span_f1", pair) == 0.5


def test_f1_is_over_all_sentences_not_their_mean():
    pairs = [("B-A B-A B-A", "B-A B-A B-A"), ("B-A", "O")]
    assert value("span_f1", *pairs) == pytest.approx(2 * 3 / (3 + 4))


def test_sentences_without_spans_count_for_accuracy_alone():
    assert value("span_f1", ("O O", "O O")) == 0
    assert METRIC.why_no_interval("span_f1", METRIC.statistics([{"truth": "O", "predicted": "O"}]))
    assert not METRIC.why_no_interval("accuracy", METRIC.statistics([]))


def test_tags_for_other_words_are_refused():
    with pytest.raises(UserError, match="1 predicted tags for 2 words"):
        METRIC.statistics([{"truth": "O O", "predicted": "O"}])
