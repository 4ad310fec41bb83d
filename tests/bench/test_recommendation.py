"""The benchmark of recommendation, on little: the best of a made catalogue, and the part of the page."""

import pytest
import recommendation
import recommendation_page


def test_a_made_catalogue(monkeypatch):
    pytest.importorskip("usearch")
    stored = {}
    monkeypatch.setattr(recommendation, "keep", stored.__setitem__)
    for name, size in (("ITEMS", 600), ("USERS", 20), ("WIDTH", 8)):
        monkeypatch.setattr(recommendation, name, size)
    recommendation.million()
    assert stored["million"]["recall"] > 0.9 and stored["million"]["exact"] > 0


def test_the_page_has_means_ranges_and_rivals():
    run = {"hr@10": 0.2, "ndcg@10": 0.1, "sampled_hr@10": 0.7, "minutes": 6.0}
    thought = {"auc": 0.8, "factorisation_auc": 0.75, "minutes": 2.0}
    results = {
        "ranking": {
            "ml100k_recommender": [run, {**run, "hr@10": 0.3}],
            "ml100k_new": [{**run, "hr@10": 0.9, "new_users_hr@10": 0.3}],  # of other users: not in the same table
            "ml100k_clicks": [thought],
        },
        "baselines": {"popularity_hr@10": 0.07},
        "training": {"regard": {"median": 200.0, "range": [190.0, 210.0]}},
    }
    page = "\n".join(recommendation_page.sections(results))
    assert "0.2500 (0.2000–0.3000)" in page and "| popularity | 1 | – | 0.0700 |" in page
    assert "new users hr@10" in page and "sampled hr@10" in page and "190–210" in page
    assert "| 2.0 | 0.8000 |" in page and "| factorisation | – | 0.7500 |" in page and "0.9000" not in page
    assert recommendation_page.sections({}) == []
