from dataclasses import replace

import hierarchical as bench

from regard.core.sizes import Documents
from regard.models import hierarchical


def test_both_give_the_same_features_and_are_timed():
    sizes = Documents(size=50, labels=2, longest=300, sentence=20, sentences=10)
    found = bench.compare(3, sizes, replace(hierarchical.TINY, dropout=0.0))
    assert found["ratio"] > 0 and found["ours tokens/s"] > 0
