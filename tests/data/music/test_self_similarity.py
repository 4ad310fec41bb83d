"""Self-similarity of music with known repetitions."""

import numpy as np
import pytest

from regard.data.music import self_similarity
from regard.data.music.notes import Note

FIRST = np.repeat([[72, 65, 57, 48]], 16, axis=0).astype(np.int16)
SECOND = FIRST + 1  # no cell in common
HALF = np.concatenate([FIRST[:8], SECOND[8:]])  # half of the cells of each


def bars_of(*bars: np.ndarray) -> np.ndarray:
    return self_similarity.grid_bars(np.concatenate(bars))


def test_similarity_is_the_share_of_common_cells():
    table = self_similarity.similarities(bars_of(FIRST, SECOND, HALF, FIRST))
    assert table.diagonal().tolist() == [1.0] * 4
    assert table[0, 1] == 0 and table[0, 3] == 1
    assert table[0, 2] == table[1, 2] == pytest.approx(1 / 3)  # 32 of 96 cells


def test_the_most_similar_earlier_bar():
    assert self_similarity.best_earlier(bars_of(FIRST, SECOND, FIRST, HALF)) == pytest.approx((0 + 1 + 1 / 3) / 3)
    assert self_similarity.best_earlier(bars_of(FIRST)) == 0
    assert bars_of(FIRST, SECOND[:5]).shape[0] == 1  # an incomplete bar is not counted


def test_silence_is_similar_to_nothing():
    silent = np.full((16, 4), -1, dtype=np.int16)
    table = self_similarity.similarities(bars_of(silent, FIRST, silent))
    assert np.isnan(table[0, 2]) and table[0, 1] == 0
    assert self_similarity.best_earlier(bars_of(silent, silent)) == 0


def test_means_by_lag_and_their_error():
    alternating, constant = bars_of(FIRST, SECOND, FIRST, SECOND), bars_of(FIRST, FIRST, FIRST)
    assert self_similarity.by_lag([alternating])[:3].tolist() == [0.0, 1.0, 0.0]
    both = self_similarity.by_lag([alternating, constant])
    assert both[:3].tolist() == [pytest.approx(2 / 5), 1.0, 0.0]  # pairs are counted, not pieces
    assert np.isnan(both[4:]).all() and len(both) == self_similarity.MAX_LAG
    assert self_similarity.similarity_error([alternating], [alternating]) == 0
    assert self_similarity.similarity_error([alternating], [constant]) == pytest.approx(1 / 2)  # lags 1 and 2
    assert self_similarity.similarity_error([], [constant]) == 0


def test_windows_of_performances():
    notes = [Note(0.1, 9, 60), Note(1.9, 2, 64), Note(2.0, 3, 60), Note(6.5, 7, 64)]
    bars = self_similarity.performance_bars(notes)
    assert [np.flatnonzero(bar).tolist() for bar in bars] == [[60, 64], [60], [], [64]]
    assert self_similarity.best_earlier(bars) == pytest.approx((0.5 + 0.5) / 2)
    assert self_similarity.performance_bars([]).shape == (0, 128) and self_similarity.best_earlier(bars[:0]) == 0
