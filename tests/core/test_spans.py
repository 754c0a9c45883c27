"""Edits on bytes: what they change, what they leave, and that they can be taken back."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.spans import Edit, Span, inverse, is_encodable, splice


@st.composite
def texts_with_edits(draw: st.DrawFn) -> tuple[bytes, list[Edit]]:
    data = draw(st.binary(max_size=60))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    spans = [Span(start, end) for start, end in zip(cuts[::2], cuts[1::2], strict=False)]
    edits = [Edit(span, draw(st.binary(max_size=5))) for span in spans]
    return data, edits


@given(texts_with_edits())
def test_inverse_takes_every_splice_back(case: tuple[bytes, list[Edit]]) -> None:
    data, edits = case
    assert splice(splice(data, edits), inverse(data, edits)) == data


@given(texts_with_edits())
def test_splice_leaves_what_no_edit_names(case: tuple[bytes, list[Edit]]) -> None:
    data, edits = case
    gaps, at = [], 0
    for edit in edits:
        gaps.append(data[at : edit.span.start])
        at = edit.span.end
    pieces = [piece for gap, edit in zip(gaps, edits, strict=True) for piece in (gap, edit.new)]
    assert splice(data, reversed(edits) if _apart(edits) else edits) == b"".join([*pieces, data[at:]])


def _apart(edits: list[Edit]) -> bool:
    return all(a.span.end < b.span.start for a, b in itertools.pairwise(edits))


@pytest.mark.parametrize("span", [Span(0, 9), Span(3, 2), Span(-1, 1)])
def test_a_span_outside_the_text_is_refused(span: Span) -> None:
    with pytest.raises(ValueError, match="exceeds the text"):
        splice(b"12345678", [Edit(span, b"")])


def test_overlapping_edits_are_refused() -> None:
    with pytest.raises(ValueError, match="overlaps"):
        splice(b"12345678", [Edit(Span(0, 4), b"a"), Edit(Span(3, 5), b"b")])


@pytest.mark.parametrize("text", ["", "plain", "Größe 😀", "a\udc80b", "\ud83d", "\ud83d\ude00"])
def test_a_text_is_encodable_if_utf8_can_hold_it(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        assert not is_encodable(text)
    else:
        assert is_encodable(text)
