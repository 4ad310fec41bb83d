import pytest

from regard.tasks import _bleu

TEXTS = ["A dog runs through the tall green grass.", "Two men are talking about the weather."]


def test_a_perfect_translation_has_full_marks():
    assert _bleu.scores(TEXTS, TEXTS, language="en") == pytest.approx({"bleu": 100, "bleu_lc": 100, "chrf": 100})


def test_case_counts_in_one_of_the_two():
    found = _bleu.scores([text.lower() for text in TEXTS], TEXTS, language="en")
    assert found["bleu_lc"] == pytest.approx(100) and found["bleu"] < 100


def test_signatures_say_how():
    found = _bleu.signatures("en")
    assert "case:mixed" in found["bleu"] and "tok:13a" in found["bleu"] and "case:lc" in found["bleu_lc"]
    assert "nc:6" in found["chrf"]


def test_languages_without_spaces_are_cut_otherwise():
    assert "tok:zh" in _bleu.signatures("zh")["bleu"] and "tok:char" in _bleu.signatures("ja")["bleu"]
