"""Entity metrics by seqeval."""

import pytest

from regard.core.errors import MissingExtra
from regard.tasks.tagging import metrics

pytest.importorskip("seqeval")
REFERENCES = [["B-a", "I-a", "O"], ["B-b", "B-b"], ["O"]]


def test_metrics_are_strict():
    assert metrics.compute_metrics(REFERENCES, REFERENCES)["f1"] == 1
    scores = metrics.compute_metrics(REFERENCES, [["B-a", "O", "O"], ["B-b", "I-b"], ["O"]])
    assert scores["f1"] == scores["precision"] == 0 and scores["accuracy"] == 4 / 6
    scores = metrics.compute_metrics(REFERENCES, [["B-a", "I-a", "O"], ["O", "O"], ["O"]])
    assert (scores["precision"], scores["recall"], scores["f1"], scores["f1_macro"]) == (1, 1 / 3, 0.5, 0.5)


def test_without_entities_scores_are_zero_and_there_is_no_warning():
    assert metrics.compute_metrics(REFERENCES, [["O"] * len(tags) for tags in REFERENCES])["f1"] == 0
    assert metrics.compute_metrics([["O"]], [["O"]])["f1"] == 0
    assert metrics.metrics_by_type([["O"]], [["O"]]) == {}


def test_metrics_by_type():
    table = metrics.metrics_by_type(REFERENCES, [["B-a", "I-a", "O"], ["O", "O"], ["O"]])
    assert table["f1.a"] == 1 and table["recall.b"] == 0 and table["support.b"] == 2


def test_signatures_name_the_scheme():
    assert "IOB2" in metrics.SIGNATURES["f1"] and "strict" in metrics.SIGNATURES["f1"]


def test_without_seqeval_the_error_names_the_extra(monkeypatch):
    def require(name, *, extra):
        raise MissingExtra(f"{name} is not installed; run: pip install 'regard[{extra}]'")

    monkeypatch.setattr(metrics, "require", require)
    with pytest.raises(MissingExtra, match=r"pip install 'regard\[text\]'"):
        metrics.compute_metrics(REFERENCES, REFERENCES)
