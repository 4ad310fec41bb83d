import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import ConfigError
from regard.data.text.sentence_splitter import Splitter


def split(text, **settings):
    return [text[start:stop] for start, stop in Splitter(**settings).split(text)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["It is late.", "We go home!", "Do you come?"],
        ["Dr. Kim met J. Smith at 3.30 p.m. in St. Louis.", "No guest came."],
        ["The U.S. team won 3.5 points, e.g. in May.", "It was vs. Norway."],
        ['"Go!" he said.', 'She said: "No."', "Then (finally!) he went."],
        ["See No. 7 and p. 12.", "Is that so?", "No.", "Yes."],
        ["1. First the eggs.", "2. Then the milk."],
        ["Wait... what is this?", "Well…", "It is a film."],
        ["It cost $3.50 (or 4.00).", "That is cheap :)"],
        ["영화가 정말 좋았다.", "그런데 결말은 아쉬웠어요.", "또 볼까?", "네!"],
        ['그는 "정말 좋다."라고 말했다.', '"가자!" 라고 외쳤다.', "모두 웃었다."],
        ["“재미있었어요.”", "다음에 또 올게요."],
        ["저예산이지만 2.5점은 너무했다.", "최고임.", "추천함ㅋㅋ"],
        ["😀 좋아요!", "👩‍👩‍👧 가족 영화."],
    ],
)
def test_english_and_korean_sentences(sentences):
    assert split(" ".join(sentences)) == sentences


def test_korean_without_a_space_after_the_full_stop():
    assert split("재밌었다.그런데 길다.좋아요!또 볼까?네") == ["재밌었다.", "그런데 길다.", "좋아요!", "또 볼까?", "네"]
    assert split("버전2.0.1은 a.b.c 파일이다") == ["버전2.0.1은 a.b.c 파일이다"]


def test_breaks_separate_sentences_and_belong_to_none():
    assert split("One<br /><br />two\nthree<br/>") == ["One", "two", "three"]
    assert split("One|two. Three", breaks=r"\|", marks="") == ["One", "two. Three"]
    assert split("One\ntwo", breaks="") == ["One\ntwo"]


def test_abbreviations_are_a_setting():
    assert split("Approx. Ten came.") == ["Approx.", "Ten came."]
    assert split("Approx. Ten came.", abbreviations=("approx",)) == ["Approx. Ten came."]


def test_decomposed_text_is_split_at_the_same_positions():
    text = "재밌었다.그런데 길어요. 끝!"
    raw = unicodedata.normalize("NFD", text)
    assert [unicodedata.normalize("NFC", part) for part in split(raw)] == split(text)


@given(st.text(alphabet="ab가다요.!?… \n\"'()<br/>1A😀", max_size=60))
def test_spans_are_sorted_and_cover_all_but_whitespace_and_breaks(text):
    spans = Splitter(breaks="\n").split(text)
    positions = [position for span in spans for position in span]
    assert positions == sorted(positions) and all(start < stop for start, stop in spans)
    assert "".join("".join(text[a:b].split()) for a, b in spans) == "".join(text.split())
    assert all(text[a:b] == text[a:b].strip() for a, b in spans)


def test_a_long_text_is_split_quickly():
    assert len(split("word " * 200_000)) == 1
    assert len(split("Yes. " * 100_000)) == 100_000


def test_an_invalid_expression_is_an_error():
    with pytest.raises(ConfigError, match=r"breaks='\(' is not a regular expression"):
        Splitter(breaks="(")
