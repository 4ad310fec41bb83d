import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as some

from regard.core.errors import ConfigError
from regard.data.text.sentence_splitter import Splitter


def cut(text, **settings):
    return [text[start:stop] for start, stop in Splitter(**settings).split(text)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["It is late.", "We go home!", "Do you come?"],
        ["Dr. Kim met J. Smith at 3.30 p.m. in St. Louis.", "Nobody came."],
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
    assert cut(" ".join(sentences)) == sentences


def test_korean_without_a_space_behind_the_full_stop():
    assert cut("재밌었다.그런데 길다.좋아요!또 볼까?네") == ["재밌었다.", "그런데 길다.", "좋아요!", "또 볼까?", "네"]
    assert cut("버전2.0.1은 a.b.c 파일이다") == ["버전2.0.1은 a.b.c 파일이다"]


def test_breaks_part_sentences_and_belong_to_none():
    assert cut("One<br /><br />two\nthree<br/>") == ["One", "two", "three"]
    assert cut("One|two. Three", breaks=r"\|", marks="") == ["One", "two. Three"]
    assert cut("One\ntwo", breaks="") == ["One\ntwo"]


def test_abbreviations_are_a_setting():
    assert cut("Approx. Ten came.") == ["Approx.", "Ten came."]
    assert cut("Approx. Ten came.", abbreviations=("approx",)) == ["Approx. Ten came."]


def test_decomposed_text_is_cut_at_the_same_places():
    text = "재밌었다.그런데 길어요. 끝!"
    raw = unicodedata.normalize("NFD", text)
    assert [unicodedata.normalize("NFC", part) for part in cut(raw)] == cut(text)


@given(some.text(alphabet="ab가다요.!?… \n\"'()<br/>1A😀", max_size=60))
def test_spans_are_in_order_and_hold_everything_but_blanks_and_breaks(text):
    spans = Splitter(breaks="\n").split(text)
    places = [place for span in spans for place in span]
    assert places == sorted(places) and all(start < stop for start, stop in spans)
    assert "".join("".join(text[a:b].split()) for a, b in spans) == "".join(text.split())
    assert all(text[a:b] == text[a:b].strip() for a, b in spans)


def test_a_long_text_takes_no_long_time():
    assert len(cut("word " * 200_000)) == 1
    assert len(cut("Yes. " * 100_000)) == 100_000


def test_a_wrong_expression_is_an_error():
    with pytest.raises(ConfigError, match=r"breaks='\(' is not a regular expression"):
        Splitter(breaks="(")
