import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.text.unicode import nfc, nfc_spans

composable_text = st.text(
    st.sampled_from("aeé\u0301\u0323 한국어" + unicodedata.normalize("NFD", "한국é각") + "👩\u200d🚀\u09c7\u09be")
)


@given(st.one_of(st.text(max_size=20), composable_text))
def test_each_composed_character_comes_from_its_span(text):
    spans = nfc_spans(text)
    assert len(spans) == len(nfc(text))
    assert "".join(nfc(text[a:b]) for a, b in sorted(set(spans))) == nfc(text)


@given(composable_text)
def test_spans_cover_the_raw_text_in_order(text):
    ordered = sorted(set(nfc_spans(text)))
    assert [i for a, b in ordered for i in range(a, b)] == list(range(len(text)))
    assert nfc_spans(text) == sorted(nfc_spans(text))


def test_a_decomposed_syllable_is_one_span():
    assert nfc_spans(unicodedata.normalize("NFD", "한a")) == [(0, 3), (3, 4)]


@pytest.mark.parametrize("text", ["", "plain", "한국어"])
def test_composed_text_is_unchanged(text):
    assert nfc(text) is text
