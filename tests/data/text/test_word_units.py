import unicodedata
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from regard.data.text import word_units


def split(text, unit="words"):
    return [text[start:stop] for start, stop in word_units.SPLITTERS[unit](text)]


def test_words_are_split_as_in_common_tagged_corpora():
    assert split("It's me, @paul: I don't know... 3.5% of #NER at https://x.org/a?b!") == (
        "It 's me , @paul : I do n't know ... 3.5% of #NER at https://x.org/a?b!".split()
    )
    assert split("아름이는 파리에 갔다.") == ["아름이는", "파리에", "갔다", "."]


def test_characters_include_spaces():
    assert split("파리 2", "characters") == ["파", "리", " ", "2"]


def test_a_decomposed_syllable_is_one_unit():
    raw = unicodedata.normalize("NFD", "파리 갔다")
    assert [unicodedata.normalize("NFC", part) for part in split(raw, "characters")] == list("파리 갔다")
    assert [unicodedata.normalize("NFC", part) for part in split(raw)] == ["파리", "갔다"]


@given(st.text(max_size=40))
def test_units_are_sorted_and_cover_all_but_whitespace(text):
    for unit in ("words", "characters"):
        spans = word_units.SPLITTERS[unit](text)
        assert spans == sorted(spans) and all(a < b for a, b in spans)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
        assert "".join("".join(text[a:b] for a, b in spans).split()) == "".join(text.split())
