"""Caption metrics on published examples, and against formulas of the papers."""

import math
import sys
from collections import Counter

import pytest

from regard.core.errors import DataError, MissingExtra
from regard.tasks.captioning import metrics

# The example of nltk's documentation of METEOR, from Papineni et al. 2002.
HYPOTHESIS = "It is a guide to action which ensures that the military always obeys the commands of the party"
REFERENCES = (
    "It is a guide to action that ensures that the military will forever heed Party commands",
    "It is the guiding principle which guarantees the military forces always being under the command of the Party",
    "It is the practical guide for the army always to heed the directions of the party",
)


def test_words_are_lowercased_without_punctuation():
    assert metrics.split_words("A Dog's ball, red .") == ["a", "dog's", "ball", "red"]
    assert metrics.normalize_caption("큰  파란 원!") == "큰 파란 원"


def test_korean_is_scored_by_characters():
    assert metrics.split_units("큰 파란 원 2 dogs!") == ["큰", "파", "란", "원", "2", "dogs"]
    hypotheses, references = ["저는 학교에 갔습니다"], [["저는 학교로 갔습니다"]]
    assert metrics.bleu(hypotheses, references)["bleu4"] > 50
    assert 40 < metrics.chrf(hypotheses, references) < 100
    assert "Hangul, Han and Kana by characters" in metrics.signatures()["bleu4"]
    assert metrics.chrf(["a dog", "a cat"], [["a dog", "dogs"], ["a cat"]]) == pytest.approx(100)


def test_bleu_of_the_published_example():
    """17 of 18 words are in a reference; 10 of 17 pairs, 7 of 16 triples, 4 of 15 quadruples."""
    scores = metrics.bleu([HYPOTHESIS], [REFERENCES])
    precisions = (17 / 18, 10 / 17, 7 / 16, 4 / 15)
    for order in metrics.NGRAM_ORDERS:  # 18 words, as in the second reference: no brevity penalty
        expected = math.prod(precisions[:order]) ** (1 / order)
        assert scores[f"bleu{order}"] == pytest.approx(100 * expected, abs=0.01)


def test_images_may_differ_in_the_number_of_references():
    scores = metrics.bleu(["a dog runs fast", "a cat sits here"], [["a dog runs fast", "the dog"], ["a cat sits here"]])
    assert scores == pytest.approx(dict.fromkeys(scores, 100.0))


def test_meteor_of_the_published_example():
    pytest.importorskip("nltk")
    assert metrics.meteor([HYPOTHESIS], [REFERENCES]) == pytest.approx(69.44, abs=0.01)


def cider_d(hypotheses, references):
    """Vedantam et al. 2015, sections 4 and 6, for captions of the same length as their references."""
    documents = [
        Counter(ngram for n in range(1, 5) for ngram in set().union(*(ngrams(text, n) for text in texts)))
        for texts in references
    ]
    frequency = sum((Counter(document.keys()) for document in documents), Counter())
    scores = []
    for hypothesis, texts in zip(hypotheses, references, strict=True):
        similarities = []
        for n in range(1, 5):
            weights = tf_idf(ngrams(hypothesis, n), frequency, len(references))
            for text in texts:
                reference = tf_idf(ngrams(text, n), frequency, len(references))
                dot = sum(min(weights[g], reference.get(g, 0)) * reference.get(g, 0) for g in weights)
                norm = math.hypot(*weights.values()) * math.hypot(*reference.values())
                similarities.append(dot / norm if norm else 0.0)
        scores.append(10 * sum(similarities) / len(similarities))
    return sum(scores) / len(scores)


def ngrams(text, n):
    words = text.split()
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def tf_idf(counts, frequency, num_images):
    return {ngram: n * (math.log(num_images) - math.log(max(1, frequency[ngram]))) for ngram, n in counts.items()}


def test_cider_is_the_formula_of_the_paper():
    pytest.importorskip("pycocoevalcap")
    hypotheses = ["a red dog runs here", "two cats sit down now", "a man rides a horse"]
    references = [
        ["a brown dog runs here", "the red dog runs fast"],
        ["two cats sit down now", "some cats lie down there"],
        ["a man rides one horse", "a rider on a horse"],
    ]
    assert metrics.cider(hypotheses, references) == pytest.approx(100 * cider_d(hypotheses, references), rel=1e-6)
    assert metrics.cider(hypotheses, [[text] for text in hypotheses]) == pytest.approx(1000)  # its maximum, 10


def test_exact_match():
    assert metrics.exact_match(["A red circle.", "a blue circle"], [["a red circle", "x"], ["a blue square"]]) == 0.5


def test_signatures_describe_metrics_and_missing_libraries(monkeypatch):
    signatures = metrics.signatures()
    assert "order 3 over all references of each image" in signatures["bleu3"] and "version:" in signatures["bleu3"]
    assert "nrefs:1" not in signatures["bleu3"]  # images differ in the number of references
    if metrics.extras_installed():
        assert "pycocoevalcap" in signatures["cider"] and "without synonyms" in signatures["meteor"]
    monkeypatch.setattr(metrics, "extras_installed", lambda: False)
    assert metrics.signatures()["cider, meteor"] == "not computed; run: pip install 'regard[captions]'"


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "nltk.translate.meteor_score", None)
    with pytest.raises(MissingExtra, match=r"pip install 'regard\[captions\]'"):
        metrics.meteor(["a"], [["a"]])


def test_captions_without_words_score_zero():
    assert metrics.cider(["..."], [["!", "?"]]) == 0
    assert metrics.bleu(["..."], [["!"]])["bleu4"] == 0


@pytest.mark.parametrize("metric", [metrics.bleu, metrics.cider, metrics.meteor, metrics.exact_match])
def test_no_captions_are_a_one_line_error(metric):
    with pytest.raises(DataError, match="caption metrics: there are no captions; give at least one image"):
        metric([], [])
    with pytest.raises(DataError, match="caption metrics: an image has no reference captions"):
        metric(["a dog"], [[]])
