import unicodedata
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as some

from regard.data.text import word_units


def cut(text, unit="words"):
    return [text[start:stop] for start, stop in word_units.SPLITTERS[unit](text)]


def test_words_are_cut_as_in_the_usual_tagged_data():
    assert cut("It's me, @paul: I don't know... 3.5% of #NER at https://x.org/a?b!") == (
        "It 's me , @paul : I do n't know ... 3.5% of #NER at https://x.org/a?b!".split()
    )
    assert cut("아름이는 파리에 갔다.") == ["아름이는", "파리에", "갔다", "."]


def test_characters_are_cut_with_spaces():
    assert cut("파리 2", "characters") == ["파", "리", " ", "2"]


def test_a_decomposed_syllable_is_one_unit():
    raw = unicodedata.normalize("NFD", "파리 갔다")
    assert [unicodedata.normalize("NFC", part) for part in cut(raw, "characters")] == list("파리 갔다")
    assert [unicodedata.normalize("NFC", part) for part in cut(raw)] == ["파리", "갔다"]


@given(some.text(max_size=40))
def test_units_are_in_order_and_leave_nothing_but_blanks_out(text):
    for unit in ("words", "characters"):
        spans = word_units.SPLITTERS[unit](text)
        assert spans == sorted(spans) and all(a < b for a, b in spans)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
        assert "".join("".join(text[a:b] for a, b in spans).split()) == "".join(text.split())
