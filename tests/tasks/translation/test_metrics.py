"""BLEU and chrF with their tokenizers and signatures, and the alignment error rate of attention."""

import pytest
import torch

from regard.attention.record import record
from regard.core.errors import ConfigError, DataError, MissingExtra
from regard.data.text import pair_sources
from regard.data.text.alignment import align_words, error_rate, word_indices
from regard.models import bahdanau, seq2seq, transformer
from regard.tasks import translation
from regard.tasks.translation import metrics

TEXTS = ["A dog runs through the tall green grass.", "Two men are talking about the weather."]


def test_a_perfect_translation_has_full_scores():
    assert metrics.compute_metrics(TEXTS, TEXTS, tokenize="13a") == pytest.approx(
        {"bleu": 100, "bleu_lc": 100, "chrf": 100}
    )


def test_only_cased_bleu_depends_on_case():
    scores = metrics.compute_metrics([text.lower() for text in TEXTS], TEXTS, tokenize="13a")
    assert scores["bleu_lc"] == pytest.approx(100) and scores["bleu"] < 100


def test_signatures_name_case_and_tokenizer():
    signatures = metrics.signatures("13a")
    assert "case:mixed" in signatures["bleu"] and "tok:13a" in signatures["bleu"]
    assert "case:lc" in signatures["bleu_lc"] and "nc:6" in signatures["chrf"]


@pytest.mark.parametrize(
    ("language", "name"), [("en", "13a"), ("de-AT", "13a"), ("zh", "zh"), ("zh_TW", "zh"), ("ja", "char"), ("2", "13a")]
)
def test_every_language_has_a_default_tokenizer(language, name):
    assert metrics.bleu_tokenizer(language) == name


@pytest.mark.parametrize("installed", [True, False])
def test_korean_is_split_into_characters_on_every_machine(monkeypatch, installed):
    monkeypatch.setattr(metrics, "find_spec", lambda package: object() if installed else None)
    assert metrics.bleu_tokenizer("ko") == metrics.bleu_tokenizer("ko-KR") == "char"


def test_chrf_is_the_first_metric_of_languages_without_words():
    assert list(metrics.compute_metrics(["네"], ["네"], tokenize="char")) == ["chrf", "bleu", "bleu_lc"]
    assert list(metrics.compute_metrics(["yes"], ["yes"], tokenize="13a")) == ["bleu", "bleu_lc", "chrf"]


def test_characters_match_where_words_between_spaces_do_not():
    """One word has another ending: most words between spaces do not match, but nearly all characters do."""
    hypotheses, references = ["저는 학교에 갔습니다"], ["저는 학교로 갔습니다"]
    by_words, by_characters = (
        metrics.compute_metrics(hypotheses, references, tokenize=name)["bleu"] for name in ("13a", "char")
    )
    assert by_characters > 2 * by_words


def test_a_tokenizer_can_be_requested(monkeypatch):
    assert metrics.bleu_tokenizer("ko", "13a") == "13a"
    assert "tok:intl" in metrics.signatures(metrics.bleu_tokenizer("ko", "intl"))["bleu"]
    with pytest.raises(ConfigError, match=r"^bleu='13b' is not a tokenizer of sacreBLEU; did you mean '13a'\?$"):
        metrics.bleu_tokenizer("ko", "13b")
    monkeypatch.setattr(metrics, "find_spec", lambda package: None)
    message = r"^bleu=ko-mecab needs mecab_ko, not installed; run: pip install 'sacrebleu\[ko\]'$"
    with pytest.raises(MissingExtra, match=message):
        metrics.bleu_tokenizer("ko", "ko-mecab")


def test_a_file_of_translations_is_scored(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    assert metrics.score_file(path, [("x", text) for text in TEXTS], tokenize="13a")["bleu"] == pytest.approx(100)
    with pytest.raises(DataError, match=r"out\.txt: 2 lines for 3 texts; give one translation per line$"):
        metrics.score_file(path, [("x", "y")] * 3, tokenize="13a")


def test_lines_of_pairs_with_an_empty_side_are_not_scored(tmp_path):
    (tmp_path / "x.txt").write_text("the cat sat on the mat\nnoise\nnoise\n", encoding="utf-8")
    pairs = [("x", "the cat sat on the mat"), ("", "another text"), ("x", " ")]
    assert metrics.score_file(tmp_path / "x.txt", pairs, tokenize="13a")["bleu"] == pytest.approx(100)


@pytest.fixture(scope="module")
def task():
    return translation.build(translation.Config(pairs=200, tokenizer="word"))


@pytest.fixture(scope="module")
def true_links(task):
    return pair_sources.true_links(task.config.data_source, "test")


def build(task, module):
    torch.manual_seed(0)
    return module.build(module.TINY, task.spec).eval()


def error_rates(task, model, true_links, count=20):
    return metrics.alignment_errors(
        model,
        task.split("test")[:count],
        true_links[:count],
        vocabularies=task.vocabularies,
        special_tokens=task.special_tokens,
    )


def test_an_untrained_model_has_a_high_error_rate(task, true_links):
    rates = error_rates(task, build(task, bahdanau), true_links)
    assert list(rates) == ["cross_attn"]
    assert 0.5 < rates["cross_attn"] <= 1
    assert len(error_rates(task, build(task, transformer), true_links)) == transformer.TINY.layers


def test_attention_to_the_true_words_has_no_error(task, true_links, monkeypatch):
    remaining = iter(true_links)

    def predict_links(model, pairs, source, vocabularies, special_tokens):
        batch = [next(remaining) for _ in pairs]
        first_sources = [{t: min(s for s, target in links if target == t) for _, t in links} for links in batch]
        return {"cross_attn": [frozenset((s, t) for t, s in sources.items()) for sources in first_sources]}

    monkeypatch.setattr(metrics, "predict_links", predict_links)
    assert error_rates(task, build(task, bahdanau), true_links, count=50) == {"cross_attn": 0.0}


@torch.no_grad()
def test_the_error_rate_does_not_depend_on_batches(task, true_links):
    model, pairs = build(task, bahdanau), task.split("test")[:40]
    predicted = []
    for source, target in pairs:
        tokens = task.vocabularies.target.encode([target])[0]
        with record(model) as maps:
            model(torch.tensor([[task.special_tokens.bos, *tokens]]), model.start(task.encode_sources([source])))
        sides = zip(task.vocabularies, (source, target), strict=True)
        columns, rows = (word_indices(text, tokenizer.encode_with_offsets(text)) for tokenizer, text in sides)
        predicted.append(align_words(maps["cross_attn"].weights[0, 0].numpy(), source=columns, target=rows))
    rates = error_rates(task, model, true_links, count=40)
    assert rates["cross_attn"] == pytest.approx(error_rate(predicted, true_links[:40]))


def test_the_task_reports_the_error_rate_of_models_with_attention(task, true_links):
    assert error_rates(task, build(task, seq2seq), true_links) == {}
    assert task.extra_metrics(build(task, seq2seq), "test", None) == {}
    assert 0 < task.extra_metrics(build(task, bahdanau).train(), "test", None)["aer"] <= 1


def test_data_without_true_alignment_has_no_error_rate(tmp_path):
    (tmp_path / "x.tsv").write_text("".join(f"a{i}\tb{i}\n" for i in range(60)), encoding="utf-8")
    config = translation.Config(path=tmp_path / "x.tsv", source="1", target="2", vocab_size=200)
    task = translation.build(config)
    assert task.extra_metrics(build(task, bahdanau), "test", None) == {} and "aer" not in task.signatures()


def test_no_sentences_are_a_one_line_error():
    with pytest.raises(DataError, match="BLEU and chrF: there are no sentences; give at least one translation"):
        metrics.compute_metrics([], [], tokenize="13a")
