"""The examples of the lecture notes, with the shipped runs."""

from __future__ import annotations

import pytest

import regard


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("아름", "<아름:person>"),
        ("2018년", "<2018년:time>"),
        ("파리", "<파리:place>"),
        ("아름이가 2018년에 파리에 갔다.", "<아름:person>이가 <2018년:time>에 <파리:place>에 갔다."),
    ],
)
def test_entities_alone_and_in_a_sentence(text, marked):
    assert regard.load("pretrained:tagging-korean").predict([text])[0][0].text == marked


def test_sentences_of_the_lecture_are_translated():
    love, dog = regard.load("pretrained:translation").translate(["Hello I love you", "I gave my dog Charlie some food"])
    assert "안녕" in love and "사랑" in love
    assert "개 찰리에게" in dog and "음식을 줬어요" in dog


def test_unknown_words_are_named_in_the_prediction_and_in_json():
    prediction = regard.load("pretrained:translation").predict(["zzz qqq"])[0][0]
    assert prediction.to_json()["unknown_tokens"] == ["zzz", "qqq"]
    assert prediction.remarks == ("not in the vocabulary, or spelled out in characters: zzz, qqq",)
