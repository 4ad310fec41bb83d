from collections import Counter

import pytest
import torch

from regard.tasks.classification import metrics as classification_metrics


def test_one_label():
    logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]]), torch.tensor([0, 1, 1])
    assert classification_metrics.compute_metrics(logits, labels, num_blank=1, multi_label=False)["accuracy"] == 0.5
    table = classification_metrics.confusion(logits, labels, ["a", "b"], multi_label=False)
    assert table == {"confusion.a.a": 1, "confusion.a.b": 0, "confusion.b.a": 1, "confusion.b.b": 1}


def test_several_labels_agree_with_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    logits, labels = torch.randn(30, 4), torch.randint(0, 2, (30, 4))
    found = classification_metrics.compute_metrics(logits, labels, num_blank=0, multi_label=True)
    given = (logits >= 0).int().numpy()
    for name, average in (("f1", "micro"), ("f1_macro", "macro")):
        assert found[name] == pytest.approx(metrics.f1_score(labels.numpy(), given, average=average))
    table = classification_metrics.confusion(logits, labels, list("abcd"), multi_label=True)
    assert table["right.a"] + table["missed.a"] == int(labels[:, 0].sum())


def test_nothing_there_and_nothing_given():
    found = classification_metrics.compute_metrics(
        -torch.ones(2, 2), torch.zeros(2, 2, dtype=torch.long), num_blank=0, multi_label=True
    )
    assert found["f1"] == 0 and found["accuracy"] == 1


def test_many_labels_have_no_table():
    assert (
        classification_metrics.confusion(
            torch.zeros(1, 30), torch.zeros(1, dtype=torch.long), ["x"] * 30, multi_label=False
        )
        == {}
    )


def test_answers_have_probabilities():
    answers = classification_metrics.to_predictions(
        torch.tensor([1.0, 3.0, 2.0]), ["a", "b", "c"], top=3, threshold=None
    )
    assert [answer.text for answer in answers] == ["b", "c", "a"]
    assert sum(torch.tensor([answer.score for answer in answers]).exp()) == pytest.approx(1)
    several = classification_metrics.to_predictions(
        torch.tensor([1.0, -3.0, 2.0]), ["a", "b", "c"], top=1, threshold=0.5
    )
    assert [answer.text for answer in several] == ["c, a"]


def test_uneven_labels_are_noted():
    assert classification_metrics.imbalance_warnings(Counter({0: 100, 1: 5}), ["a", "b"]) == [
        "uneven labels: 100 training documents are 'a', 5 are 'b'"
    ]
    assert (
        classification_metrics.imbalance_warnings(Counter({0: 10, 1: 5}), ["a", "b"])
        == classification_metrics.imbalance_warnings(Counter(), [])
        == []
    )
