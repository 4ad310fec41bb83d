"""Every cross-attention map is judged against the true links."""

from __future__ import annotations

import numpy as np

from regard.inspection.alignment import judge
from regard.inspection.example import Truth
from regard.inspection.format import Map

# Output words 0 and 1 (the second of two tokens) come from source words 1 and 0; end marks are left out.
TRUTH = Truth(
    links=frozenset({(1, 0), (0, 1)}), rows=(0, 1, 1), columns=(0, 1, 1), drawn=((0, 1), (0, 2), (1, 0), (2, 0))
)
RIGHT = np.array([[0, 0.5, 0.5, 0], [1, 0, 0, 0], [0.9, 0.1, 0, 0], [0, 0, 0, 1]], np.float32)
WRONG = RIGHT[[1, 0, 0, 3]]


def test_every_map_and_head_is_judged_and_the_best_is_named():
    good = Map("good", "cross", 1, "output", "source", np.stack([RIGHT, RIGHT]))
    half = Map("half", "cross", 0, "output", "source", np.stack([WRONG, RIGHT * 0.9]))
    own = Map("own", "decoder", 0, "output", "read", np.stack([RIGHT]))
    found = judge((half, own, good), TRUTH)
    assert found.best == "good" and set(found.rates) == {"good", "half"}
    assert found.rates["good"] == {"mean": 0.0, "heads": [0.0, 0.0]}
    assert found.rates["half"]["heads"] == [1.0, 0.0]
    assert found.truth == TRUTH.drawn


def test_without_a_look_at_the_source_there_is_nothing_to_judge():
    own = Map("own", "decoder", 0, "output", "read", np.stack([RIGHT]))
    assert judge((own,), TRUTH) is None
