"""Scores of captions: published examples, and formulas written out."""

import math
from collections import Counter

import pytest

from regard.core.errors import MissingExtra
from regard.tasks.captioning import metrics as scores

# The example of nltk's documentation of METEOR, from Papineni et al. 2002.
SAID = "It is a guide to action which ensures that the military always obeys the commands of the party"
TRUTH = (
    "It is a guide to action that ensures that the military will forever heed Party commands",
    "It is the guiding principle which guarantees the military forces always being under the command of the Party",
    "It is the practical guide for the army always to heed the directions of the party",
)


def test_words_are_lowercased_without_punctuation():
    assert scores.split_words("A Dog's ball, red .") == ["a", "dog's", "ball", "red"]
    assert scores.normalize_caption("큰  파란 원!") == "큰 파란 원"


def test_bleu_of_papineni_s_example():
    """17 of 18 words are in some reference; 10 of 17 pairs, 7 of 16 triples, 4 of 15 quadruples."""
    found = scores.bleu([SAID], [TRUTH])
    shares = (17 / 18, 10 / 17, 7 / 16, 4 / 15)
    for order in scores.NGRAM_ORDERS:  # 18 words, as in the second reference: no brevity penalty
        expected = math.prod(shares[:order]) ** (1 / order)
        assert found[f"bleu{order}"] == pytest.approx(100 * expected, abs=0.01)


def test_images_may_have_different_numbers_of_references():
    found = scores.bleu(["a dog runs fast", "a cat sits here"], [["a dog runs fast", "the dog"], ["a cat sits here"]])
    assert found == pytest.approx(dict.fromkeys(found, 100.0))


def test_meteor_is_the_published_number():
    pytest.importorskip("nltk")
    assert scores.meteor([SAID], [TRUTH]) == pytest.approx(69.44, abs=0.01)


def cider_d(said, truth):
    """Vedantam et al. 2015, section 4 and 6, for captions of equal length as their references."""
    documents = [
        Counter(gram for n in range(1, 5) for gram in set().union(*(grams(r, n) for r in refs))) for refs in truth
    ]
    frequency = sum((Counter(d.keys()) for d in documents), Counter())
    total = []
    for text, refs in zip(said, truth, strict=True):
        each = []
        for n in range(1, 5):
            one = weighted(grams(text, n), frequency, len(truth))
            for ref in refs:
                other = weighted(grams(ref, n), frequency, len(truth))
                dot = sum(min(one[g], other.get(g, 0)) * other.get(g, 0) for g in one)
                size = math.sqrt(sum(v * v for v in one.values())) * math.sqrt(sum(v * v for v in other.values()))
                each.append(dot / size if size else 0.0)
        total.append(10 * sum(each) / len(each))
    return sum(total) / len(total)


def grams(text, n):
    words = text.split()
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def weighted(counts, frequency, images):
    return {gram: count * (math.log(images) - math.log(max(1, frequency[gram]))) for gram, count in counts.items()}


def test_cider_is_the_paper_s_formula():
    pytest.importorskip("pycocoevalcap")
    said = ["a red dog runs here", "two cats sit down now", "a man rides a horse"]
    truth = [
        ["a brown dog runs here", "the red dog runs fast"],
        ["two cats sit down now", "some cats lie down there"],
        ["a man rides one horse", "a rider on a horse"],
    ]
    assert scores.cider(said, truth) == pytest.approx(100 * cider_d(said, truth), rel=1e-6)
    assert scores.cider(said, [[text] for text in said]) == pytest.approx(1000)  # its greatest value, 10


def test_exact():
    assert scores.exact_match(["A red circle.", "a blue circle"], [["a red circle", "x"], ["a blue square"]]) == 50


def test_signatures_say_how_and_what_is_missing(monkeypatch):
    named = scores.signatures()
    assert "order 3 over all references of each image" in named["bleu3"] and "version:" in named["bleu3"]
    assert "nrefs:1" not in named["bleu3"]  # there may be any number
    if scores.extras_installed():
        assert "pycocoevalcap" in named["cider"] and "without synonyms" in named["meteor"]
    monkeypatch.setattr(scores, "installed", lambda: False)
    assert scores.signatures()["cider, meteor"] == "not computed; run: pip install 'regard[captions]'"


def test_a_library_that_is_missing_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "nltk.translate.meteor_score", None)
    with pytest.raises(MissingExtra, match=r"pip install 'regard\[captions\]'"):
        scores.meteor(["a"], [["a"]])
