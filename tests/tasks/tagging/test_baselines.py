"""The CRF baseline finds entities by context; shapes ignore the exact characters."""

from __future__ import annotations

from regard.data.text.tagged_files import Sentence
from regard.tasks.tagging.baselines import baseline_metrics, features, shape


def sentence(name, place):
    words, tags = ["Ms", name, "lives", "in", place, "now"], ["O", "B-person", "O", "O", "B-place", "O"]
    text, spans, at = " ".join(words), [], 0
    for word in words:
        spans.append((at, at + len(word)))
        at += len(word) + 1
    return Sentence(text, tuple(spans), tuple(tags), "here")


def test_new_names_are_found_by_their_context():
    train = [sentence(f"Name{chr(97 + i)}", f"City{chr(97 + i)}") for i in range(20)]
    scores = baseline_metrics(train, [sentence("Zoe", "Zurich")])
    assert scores["crf.f1"] == 1.0 and scores["crf.accuracy"] == 1.0


def test_shapes_and_edges():
    assert [shape(text) for text in ("Tom", "NASA", "2018년", "서울")] == ["Xxx", "XX", "00가", "가가"]
    first = next(features(sentence("Tom", "Rome")))
    assert "-1=<edge>" in first and "0=ms" in first and "(0, 1)=ms|tom" in first
