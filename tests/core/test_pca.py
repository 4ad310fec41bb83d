"""Vectors as points: PCA keeps what two axes can keep, t-SNE only where it can be computed."""

from __future__ import annotations

import numpy as np
import pytest

from regard.core.pca import project_2d


def test_pca_keeps_the_distances_of_what_lies_in_a_plane():
    random = np.random.default_rng(0)
    points = random.normal(size=(6, 2))
    vectors = points @ np.linalg.qr(random.normal(size=(5, 2)))[0].T + 3.0
    found = project_2d(vectors)
    assert list(found) == ["PCA"]  # too few points for t-SNE
    for first, second in ((0, 1), (2, 5)):
        distance = np.linalg.norm(points[first] - points[second])
        assert np.linalg.norm(found["PCA"][first] - found["PCA"][second]) == pytest.approx(distance, rel=1e-5)


def test_t_sne_beside_it_where_there_are_enough():
    pytest.importorskip("sklearn", reason="the extra plots is not installed")
    found = project_2d(np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32))
    assert {name: points.shape for name, points in found.items()} == {"PCA": (30, 2), "t-SNE": (30, 2)}
    assert all(np.isfinite(points).all() for points in found.values())


@pytest.mark.parametrize("value", [0.0, 1.0, 1e6])
def test_vectors_that_are_all_alike_are_one_point_and_no_crash(value):
    found = project_2d(np.full((40, 8), value, dtype=np.float32))
    assert list(found) == ["PCA"] and np.ptp(found["PCA"], axis=0).max() <= 1e-3 * max(1.0, value)


def test_one_dimension_is_enough():
    assert project_2d(np.ones((3, 1), dtype=np.float32))["PCA"].shape == (3, 2)
