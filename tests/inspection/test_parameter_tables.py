"""Position encodings and embeddings of a model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.core.errors import MissingExtra
from regard.core.inspectable import Vocabulary
from regard.inspection.parameter_tables import by_distance, collect_tables, embeddings, neighbours, positions
from regard.layers import positions as schemes


def test_sinusoids_are_more_alike_the_nearer_they_stand():
    result = positions(torch.nn.ModuleList([schemes.build("sinusoidal", 32, max_length=20), torch.nn.Linear(1, 1)]))
    assert result.scheme == "sinusoidal" and result.table.shape == (20, 32)
    assert result.by_distance[0] == pytest.approx(16, abs=1e-3)  # sin² + cos² of 16 rates
    assert result.by_distance[0] > result.by_distance[1] > result.by_distance[2]


def test_positions_inside_the_score_have_no_table():
    assert positions(torch.nn.ModuleList([schemes.build("rotary", 32, max_length=20), torch.nn.Linear(1, 1)])) is None


def test_the_dot_product_by_distance_is_the_mean_of_a_diagonal():
    table = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    means = [np.mean([table[i] @ table[i + n] for i in range(5 - n)]) for n in range(5)]
    assert by_distance(table) == pytest.approx(means, abs=1e-5)


def test_neighbours_are_sorted_by_cosine_and_never_oneself():
    vectors = np.random.default_rng(1).normal(size=(20, 4)).astype(np.float32)
    for i, near in enumerate(neighbours(vectors)):
        assert i not in [j for j, _ in near]
        cosines = [cosine for _, cosine in near]
        assert cosines == sorted(cosines, reverse=True)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        assert cosines[0] == pytest.approx(np.delete(unit @ unit[i], i).max(), abs=1e-3)


def test_every_vocabulary_is_flattened_by_both_methods(subject, task):
    model = subject().model
    size = task.vocabularies.source.vocab_size
    vocabulary = Vocabulary("source", size, tuple(range(4, 24)), tuple("abcdefghijklmnopqrst"))
    result = embeddings(model, (vocabulary,))
    assert [item.method for item in result] == ["PCA", "t-SNE"]
    assert all(item.points.shape == (20, 2) and np.isfinite(item.points).all() for item in result)


def test_without_scikit_learn_there_is_pca_alone(subject, monkeypatch):
    def missing(module, *, extra):
        raise MissingExtra(f"{module} is not installed")

    monkeypatch.setattr("regard.core.pca.require", missing)
    target = subject()
    vocabulary = Vocabulary("source", target.task.vocabularies.source.vocab_size, tuple(range(4, 24)), tuple("a" * 20))
    assert {item.method for item in collect_tables(target.model, (vocabulary,)).embeddings} == {"PCA"}
