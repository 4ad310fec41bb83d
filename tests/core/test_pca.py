"""2-D projection: PCA preserves planar distances; t-SNE is added if it can be computed."""

from __future__ import annotations

import numpy as np
import pytest

from regard.core.pca import project_2d


def test_pca_preserves_distances_within_a_plane():
    random = np.random.default_rng(0)
    points = random.normal(size=(6, 2))
    vectors = points @ np.linalg.qr(random.normal(size=(5, 2)))[0].T + 3.0
    projections = project_2d(vectors)
    assert list(projections) == ["PCA"]  # too few points for t-SNE
    for first, second in ((0, 1), (2, 5)):
        distance = np.linalg.norm(points[first] - points[second])
        assert np.linalg.norm(projections["PCA"][first] - projections["PCA"][second]) == pytest.approx(
            distance, rel=1e-5
        )


def test_t_sne_is_added_for_enough_vectors():
    pytest.importorskip("sklearn", reason="the extra plots is not installed")
    projections = project_2d(np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32))
    assert {name: points.shape for name, points in projections.items()} == {"PCA": (30, 2), "t-SNE": (30, 2)}
    assert all(np.isfinite(points).all() for points in projections.values())


@pytest.mark.parametrize("value", [0.0, 1.0, 1e6])
def test_equal_vectors_are_projected_to_one_point(value):
    projections = project_2d(np.full((40, 8), value, dtype=np.float32))
    assert list(projections) == ["PCA"] and np.ptp(projections["PCA"], axis=0).max() <= 1e-3 * max(1.0, value)


def test_one_dimension_is_enough():
    assert project_2d(np.ones((3, 1), dtype=np.float32))["PCA"].shape == (3, 2)
