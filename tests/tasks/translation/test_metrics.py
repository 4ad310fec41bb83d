import pytest

from regard.core.errors import ConfigError, DataError, MissingExtra
from regard.tasks.translation import metrics

TEXTS = ["A dog runs through the tall green grass.", "Two men are talking about the weather."]


def test_a_perfect_translation_has_full_marks():
    assert metrics.compute_metrics(TEXTS, TEXTS, tokenize="13a") == pytest.approx(
        {"bleu": 100, "bleu_lc": 100, "chrf": 100}
    )


def test_case_counts_in_one_of_the_two():
    found = metrics.compute_metrics([text.lower() for text in TEXTS], TEXTS, tokenize="13a")
    assert found["bleu_lc"] == pytest.approx(100) and found["bleu"] < 100


def test_signatures_say_how():
    found = metrics.signatures("13a")
    assert "case:mixed" in found["bleu"] and "tok:13a" in found["bleu"] and "case:lc" in found["bleu_lc"]
    assert "nc:6" in found["chrf"]


@pytest.mark.parametrize(
    ("language", "name"), [("en", "13a"), ("de-AT", "13a"), ("zh", "zh"), ("zh_TW", "zh"), ("ja", "char"), ("2", "13a")]
)
def test_every_language_has_its_own_tokenizer(language, name):
    assert metrics.bleu_tokenizer(language) == name


@pytest.mark.parametrize(("installed", "name"), [(True, "ko-mecab"), (False, "char")])
def test_korean_is_cut_into_morphemes_or_else_into_characters(monkeypatch, installed, name):
    monkeypatch.setattr(metrics, "find_spec", lambda package: object() if installed else None)
    assert metrics.bleu_tokenizer("ko") == metrics.bleu_tokenizer("ko-KR") == name


def test_characters_see_what_words_between_spaces_do_not():
    """One ending is another: between spaces no word but one is right, of the characters nearly all are."""
    found, true = ["저는 학교에 갔습니다"], ["저는 학교로 갔습니다"]
    by_words, by_characters = (metrics.compute_metrics(found, true, tokenize=name)["bleu"] for name in ("13a", "char"))
    assert by_characters > 2 * by_words


def test_a_tokenizer_may_be_chosen(monkeypatch):
    assert (
        metrics.bleu_tokenizer("ko", "13a") == "13a"
        and "tok:intl" in metrics.signatures(metrics.bleu_tokenizer("ko", "intl"))["bleu"]
    )
    with pytest.raises(ConfigError, match=r"^bleu='13b' is no tokenizer of sacreBLEU; did you mean '13a'\?$"):
        metrics.bleu_tokenizer("ko", "13b")
    monkeypatch.setattr(metrics, "find_spec", lambda package: None)
    message = r"^bleu=ko-mecab needs mecab_ko, not installed; run: pip install 'sacrebleu\[ko\]'$"
    with pytest.raises(MissingExtra, match=message):
        metrics.bleu_tokenizer("ko", "ko-mecab")


def test_a_file_of_translations_is_scored(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    assert metrics.score_file(path, [("x", text) for text in TEXTS], tokenize="13a")["bleu"] == pytest.approx(100)
    with pytest.raises(
        DataError, match=r"out\.txt: 2 lines, but there are 3 texts; a line is the translation of each$"
    ):
        metrics.score_file(path, [("x", "y")] * 3, tokenize="13a")
